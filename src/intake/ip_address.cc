#include "intake/ip_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace tessera::intake {
namespace {

struct Block {
  std::string_view first;
  int prefix_bits;
  Reach reach;
  std::string_view name;
  int ipv4_at = -1;  // byte at which the IPv4 address begins that decides instead
};

// First match wins. Sources: IANA's "IPv4 Special-Purpose Address Registry", "IPv6 Special-Purpose
// Address Registry" and "IPv6 Global Unicast Address Assignments", read for entries up to RFC 9780.
// Blocks that the registries call globally reachable although they name no single host (AMT,
// anycast, ORCHIDv2, remote identifiers: all in 192.0.0.0/24 and 2001::/23) are left refused.
constexpr Block kBlocks[] = {
    {"0.0.0.0", 8, Reach::never, "unspecified"},             // RFC 791, "this network"
    {"10.0.0.0", 8, Reach::intranet, "private"},             // RFC 1918
    {"100.64.0.0", 10, Reach::intranet, "shared (CGNAT)"},   // RFC 6598
    {"127.0.0.0", 8, Reach::intranet, "loopback"},           // RFC 1122
    {"169.254.0.0", 16, Reach::never, "link-local"},         // RFC 3927
    {"172.16.0.0", 12, Reach::intranet, "private"},          // RFC 1918
    {"192.0.0.0", 24, Reach::never, "protocol assignment"},  // RFC 6890
    {"192.0.2.0", 24, Reach::never, "documentation"},        // RFC 5737
    {"192.88.99.0", 24, Reach::never, "6to4 relay"},         // RFC 7526
    {"192.168.0.0", 16, Reach::intranet, "private"},         // RFC 1918
    {"198.18.0.0", 15, Reach::never, "benchmarking"},        // RFC 2544
    {"198.51.100.0", 24, Reach::never, "documentation"},     // RFC 5737
    {"203.0.113.0", 24, Reach::never, "documentation"},      // RFC 5737
    {"224.0.0.0", 4, Reach::never, "multicast"},             // RFC 5771
    {"255.255.255.255", 32, Reach::never, "broadcast"},      // RFC 919
    {"240.0.0.0", 4, Reach::never, "reserved"},              // RFC 1112
    {"0.0.0.0", 0, Reach::global, "global"},

    {"::", 128, Reach::never, "unspecified"},                  // RFC 4291
    {"::1", 128, Reach::intranet, "loopback"},                 // RFC 4291
    {"::ffff:0:0", 96, Reach::never, "IPv4-mapped"},           // RFC 4291
    {"64:ff9b::", 96, Reach::never, "NAT64", 12},              // RFC 6052
    {"2001::", 32, Reach::never, "Teredo"},                    // RFC 4380
    {"2001::", 23, Reach::never, "protocol assignment"},       // RFC 2928
    {"2001:db8::", 32, Reach::never, "documentation"},         // RFC 3849
    {"2002::", 16, Reach::never, "6to4", 2},                   // RFC 3056
    {"3fff::", 20, Reach::never, "documentation"},             // RFC 9637
    {"fc00::", 7, Reach::intranet, "unique local (private)"},  // RFC 4193
    {"fe80::", 10, Reach::never, "link-local"},                // RFC 4291
    {"ff00::", 8, Reach::never, "multicast"},                  // RFC 4291
    {"2000::", 3, Reach::global, "global"},                    // RFC 4291: all that is assigned
    // Also ::/96 (IPv4-compatible), 64:ff9b:1::/48 (local NAT64), 100::/64 (discard-only),
    // 100:0:0:1::/64 (dummy), 5f00::/16 (segment routing) and fec0::/10 (site-local).
    {"::", 0, Reach::never, "reserved"},
};

struct ParsedBlock {
  IpAddress first;
  const Block* block;
};

std::vector<ParsedBlock> parse_blocks() {
  std::vector<ParsedBlock> parsed;
  for (const Block& block : kBlocks) {
    const std::optional<IpAddress> first = parse_ip_address(block.first);
    TESSERA_CHECK(first.has_value());
    parsed.push_back({*first, &block});
  }
  return parsed;
}

bool is_in(const IpAddress& address, const ParsedBlock& candidate) {
  if (address.family != candidate.first.family) {
    return false;
  }
  const auto whole_bytes = static_cast<size_t>(candidate.block->prefix_bits / 8);
  const auto rest_bits = static_cast<unsigned>(candidate.block->prefix_bits % 8);
  if (!std::equal(address.bytes.begin(), address.bytes.begin() + candidate.block->prefix_bits / 8,
                  candidate.first.bytes.begin())) {
    return false;
  }
  const unsigned mask = (0xff00U >> rest_bits) & 0xffU;
  return rest_bits == 0 ||
         ((address.bytes[whole_bytes] ^ candidate.first.bytes[whole_bytes]) & mask) == 0;
}

IpAddress ipv4_inside(const IpAddress& address, int position) {
  IpAddress inside;
  std::copy_n(address.bytes.begin() + position, 4, inside.bytes.begin());
  return inside;
}

}  // namespace

std::optional<IpAddress> parse_ip_address(std::string_view text) {
  const std::string terminated(text);
  if (terminated.size() > INET6_ADDRSTRLEN || terminated.find('\0') != std::string::npos) {
    return std::nullopt;
  }
  IpAddress address;
  if (inet_pton(AF_INET, terminated.c_str(), address.bytes.data()) == 1) {
    return address;
  }
  address = {.family = IpFamily::v6};
  if (inet_pton(AF_INET6, terminated.c_str(), address.bytes.data()) == 1) {
    return address;
  }
  return std::nullopt;
}

std::string to_text(const IpAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(address.family == IpFamily::v4 ? AF_INET : AF_INET6, address.bytes.data(), text,
            sizeof(text));
  return text;
}

AddressKind kind_of(const IpAddress& address) {
  static const std::vector<ParsedBlock> blocks = parse_blocks();
  const auto found = std::ranges::find_if(
      blocks, [&address](const ParsedBlock& candidate) { return is_in(address, candidate); });
  TESSERA_CHECK(found != blocks.end());
  const Block& block = *found->block;
  if (block.ipv4_at >= 0 && is_global_unicast(ipv4_inside(address, block.ipv4_at))) {
    return {Reach::global, "global"};
  }
  return {block.reach, block.name};
}

bool is_global_unicast(const IpAddress& address) { return kind_of(address).reach == Reach::global; }

}  // namespace tessera::intake
