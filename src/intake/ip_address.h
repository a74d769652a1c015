// IP addresses, and which of them are hosts of the public internet.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::intake {

enum class IpFamily { v4, v6 };

struct IpAddress {
  IpFamily family = IpFamily::v4;
  std::array<uint8_t, 16> bytes{};  // network order; IPv4 has the first four, the others are 0
  bool operator==(const IpAddress&) const = default;
};

// Four decimal numbers without leading zeros, or the forms of RFC 4291 section 2.2 (no brackets, no
// zone); nothing for any other text.
std::optional<IpAddress> parse_ip_address(std::string_view text);

// "192.0.2.1", "2001:db8::1" (RFC 5952).
std::string to_text(const IpAddress& address);

enum class Reach {
  global,    // unicast on the public internet
  intranet,  // this machine or a private network: loopback, private, shared, unique local
  never,     // nothing that serves pictures: multicast, link-local (also the metadata services of
             // clouds), documentation, reserved and unassigned addresses, IPv4 inside IPv6
};

struct AddressKind {
  Reach reach;
  std::string_view name;  // "private", "link-local", ...; "global" for Reach::global
};

// By the special-purpose address registries of IANA. 6to4 and NAT64 addresses are global if the
// IPv4 address inside is, else never reached; IPv4-mapped and Teredo addresses are never reached.
AddressKind kind_of(const IpAddress& address);

bool is_global_unicast(const IpAddress& address);

}  // namespace tessera::intake
