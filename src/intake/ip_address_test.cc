#include "intake/ip_address.h"

#include <gtest/gtest.h>

#include "base/str_cat.h"

namespace tessera::intake {
namespace {

constexpr Reach kGlobal = Reach::global;
constexpr Reach kIntranet = Reach::intranet;
constexpr Reach kNever = Reach::never;

struct Row {
  std::string_view address;
  Reach reach;
  std::string_view name;
};

// The first and the last address of each block of the registries, and their neighbours.
constexpr Row kRows[] = {
    {"0.0.0.0", kNever, "unspecified"},
    {"0.255.255.255", kNever, "unspecified"},
    {"1.0.0.0", kGlobal, "global"},
    {"8.8.8.8", kGlobal, "global"},
    {"9.255.255.255", kGlobal, "global"},
    {"10.0.0.0", kIntranet, "private"},
    {"10.255.255.255", kIntranet, "private"},
    {"11.0.0.0", kGlobal, "global"},
    {"100.63.255.255", kGlobal, "global"},
    {"100.64.0.0", kIntranet, "shared (CGNAT)"},
    {"100.127.255.255", kIntranet, "shared (CGNAT)"},
    {"100.128.0.0", kGlobal, "global"},
    {"126.255.255.255", kGlobal, "global"},
    {"127.0.0.0", kIntranet, "loopback"},
    {"127.0.0.1", kIntranet, "loopback"},
    {"127.255.255.255", kIntranet, "loopback"},
    {"128.0.0.0", kGlobal, "global"},
    {"169.253.255.255", kGlobal, "global"},
    {"169.254.0.0", kNever, "link-local"},
    {"169.254.169.254", kNever, "link-local"},
    {"169.254.255.255", kNever, "link-local"},
    {"169.255.0.0", kGlobal, "global"},
    {"172.15.255.255", kGlobal, "global"},
    {"172.16.0.0", kIntranet, "private"},
    {"172.31.255.255", kIntranet, "private"},
    {"172.32.0.0", kGlobal, "global"},
    {"191.255.255.255", kGlobal, "global"},
    {"192.0.0.0", kNever, "protocol assignment"},
    {"192.0.0.8", kNever, "protocol assignment"},
    {"192.0.0.9", kNever, "protocol assignment"},
    {"192.0.0.170", kNever, "protocol assignment"},
    {"192.0.0.255", kNever, "protocol assignment"},
    {"192.0.1.0", kGlobal, "global"},
    {"192.0.2.0", kNever, "documentation"},
    {"192.0.2.255", kNever, "documentation"},
    {"192.0.3.0", kGlobal, "global"},
    {"192.31.196.1", kGlobal, "global"},  // AS112: globally reachable
    {"192.88.98.255", kGlobal, "global"},
    {"192.88.99.1", kNever, "6to4 relay"},
    {"192.88.100.0", kGlobal, "global"},
    {"192.167.255.255", kGlobal, "global"},
    {"192.168.0.0", kIntranet, "private"},
    {"192.168.255.255", kIntranet, "private"},
    {"192.169.0.0", kGlobal, "global"},
    {"198.17.255.255", kGlobal, "global"},
    {"198.18.0.0", kNever, "benchmarking"},
    {"198.19.255.255", kNever, "benchmarking"},
    {"198.20.0.0", kGlobal, "global"},
    {"198.51.99.255", kGlobal, "global"},
    {"198.51.100.0", kNever, "documentation"},
    {"198.51.100.255", kNever, "documentation"},
    {"198.51.101.0", kGlobal, "global"},
    {"203.0.112.255", kGlobal, "global"},
    {"203.0.113.0", kNever, "documentation"},
    {"203.0.113.255", kNever, "documentation"},
    {"203.0.114.0", kGlobal, "global"},
    {"223.255.255.255", kGlobal, "global"},
    {"224.0.0.0", kNever, "multicast"},
    {"239.255.255.255", kNever, "multicast"},
    {"240.0.0.0", kNever, "reserved"},
    {"255.255.255.254", kNever, "reserved"},
    {"255.255.255.255", kNever, "broadcast"},

    {"::", kNever, "unspecified"},
    {"::1", kIntranet, "loopback"},
    {"::2", kNever, "reserved"},
    {"::8.8.8.8", kNever, "reserved"},  // IPv4-compatible
    {"::127.0.0.1", kNever, "reserved"},
    {"::ffff:127.0.0.1", kNever, "IPv4-mapped"},
    {"::ffff:10.0.0.1", kNever, "IPv4-mapped"},
    {"::ffff:8.8.8.8", kNever, "IPv4-mapped"},
    {"::ffff:0:127.0.0.1", kNever, "reserved"},  // IPv4-translated, RFC 2765
    {"64:ff9b::8.8.8.8", kGlobal, "global"},
    {"64:ff9b::127.0.0.1", kNever, "NAT64"},
    {"64:ff9b::10.0.0.1", kNever, "NAT64"},
    {"64:ff9b::169.254.169.254", kNever, "NAT64"},
    {"64:ff9b::0.0.0.0", kNever, "NAT64"},
    {"64:ff9b::1:8.8.8.8", kNever, "reserved"},
    {"64:ff9b:1::8.8.8.8", kNever, "reserved"},
    {"64:ff9b:1:ffff::1", kNever, "reserved"},
    {"100::1", kNever, "reserved"},
    {"100:0:0:1::1", kNever, "reserved"},
    {"1fff:ffff::", kNever, "reserved"},
    {"2000::", kGlobal, "global"},
    {"2001::1", kNever, "Teredo"},
    {"2001:0:808:808:0:fbff:f7f7:f7f7", kNever, "Teredo"},
    {"2001:0:ffff:ffff:ffff:ffff:80ff:fffe", kNever, "Teredo"},
    {"2001:1::1", kNever, "protocol assignment"},
    {"2001:2::1", kNever, "protocol assignment"},
    {"2001:10::1", kNever, "protocol assignment"},
    {"2001:20::1", kNever, "protocol assignment"},
    {"2001:1ff:ffff::", kNever, "protocol assignment"},
    {"2001:200::", kGlobal, "global"},
    {"2001:db7:ffff::", kGlobal, "global"},
    {"2001:db8::1", kNever, "documentation"},
    {"2001:db8:ffff:ffff::", kNever, "documentation"},
    {"2001:db9::", kGlobal, "global"},
    {"2001:4860:4860::8888", kGlobal, "global"},
    {"2002:808:808::1", kGlobal, "global"},
    {"2002:7f00:1::1", kNever, "6to4"},
    {"2002:a00:1::", kNever, "6to4"},
    {"2002:c0a8:101::", kNever, "6to4"},
    {"2002:a9fe:a9fe::", kNever, "6to4"},
    {"2002:e000:1::", kNever, "6to4"},
    {"2003::1", kGlobal, "global"},
    {"2606:4700:4700::1111", kGlobal, "global"},
    {"3ffe:ffff::", kGlobal, "global"},
    {"3fff::1", kNever, "documentation"},
    {"3fff:fff:ffff::", kNever, "documentation"},
    {"3fff:1000::", kGlobal, "global"},
    {"4000::", kNever, "reserved"},
    {"5f00::1", kNever, "reserved"},
    {"fbff::", kNever, "reserved"},
    {"fc00::", kIntranet, "unique local (private)"},
    {"fd12:3456::1", kIntranet, "unique local (private)"},
    {"fdff:ffff::", kIntranet, "unique local (private)"},
    {"fe00::", kNever, "reserved"},
    {"fe80::1", kNever, "link-local"},
    {"febf:ffff::", kNever, "link-local"},
    {"fec0::1", kNever, "reserved"},  // site-local
    {"ff00::", kNever, "multicast"},
    {"ff02::1", kNever, "multicast"},
    {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", kNever, "multicast"},
};

TEST(IpAddress, IsJudgedByTheRegistries) {
  for (const Row& row : kRows) {
    const std::optional<IpAddress> address = parse_ip_address(row.address);
    ASSERT_TRUE(address.has_value()) << row.address;
    const AddressKind kind = kind_of(*address);
    EXPECT_EQ(kind.reach, row.reach) << row.address;
    EXPECT_EQ(kind.name, row.name) << row.address;
    EXPECT_EQ(is_global_unicast(*address), row.reach == kGlobal) << row.address;
  }
}

TEST(IpAddress, EmbeddedAddressesAreNeverBetterThanPlainOnes) {
  for (const Row& row : kRows) {
    if (row.address.find(':') != std::string_view::npos) {
      continue;
    }
    const std::optional<IpAddress> nat64 = parse_ip_address(str_cat("64:ff9b::", row.address));
    const std::optional<IpAddress> mapped = parse_ip_address(str_cat("::ffff:", row.address));
    ASSERT_TRUE(nat64.has_value() && mapped.has_value()) << row.address;
    EXPECT_EQ(kind_of(*nat64).reach, row.reach == kGlobal ? kGlobal : kNever) << row.address;
    EXPECT_EQ(kind_of(*mapped).reach, kNever) << row.address;
    IpAddress six_to_four = {.family = IpFamily::v6, .bytes = {0x20, 0x02}};
    std::copy_n(parse_ip_address(row.address)->bytes.begin(), 4, six_to_four.bytes.begin() + 2);
    EXPECT_EQ(kind_of(six_to_four).reach, row.reach == kGlobal ? kGlobal : kNever) << row.address;
  }
}

TEST(IpAddress, StrictTextGoesThereAndBack) {
  for (const std::string_view text :
       {"0.0.0.0", "1.2.3.4", "255.255.255.255", "::", "::1", "2001:db8::1", "fe80::1:2:3",
        "2001:db8:1:2:3:4:5:6", "::ffff:192.0.2.1"}) {
    const std::optional<IpAddress> address = parse_ip_address(text);
    ASSERT_TRUE(address.has_value()) << text;
    EXPECT_EQ(to_text(*address), text);
    EXPECT_EQ(address->family,
              text.find(':') == std::string_view::npos ? IpFamily::v4 : IpFamily::v6);
  }
  EXPECT_EQ(parse_ip_address("2001:DB8:0:0:0:0:0:1"), parse_ip_address("2001:db8::1"));
  EXPECT_NE(parse_ip_address("0.0.0.1"), parse_ip_address("::1"));
  EXPECT_EQ(parse_ip_address("1.2.3.4")->bytes, (std::array<uint8_t, 16>{1, 2, 3, 4}));
}

TEST(IpAddress, OtherSpellingsAreNoAddress) {
  for (const std::string_view text : {"",
                                      " ",
                                      "1",
                                      "127.1",
                                      "127.0.1",
                                      "1.2.3.4.5",
                                      "1.2.3.4.",
                                      ".1.2.3.4",
                                      "1..3.4",
                                      "1.2.3.256",
                                      "01.2.3.4",
                                      "127.0.0.01",
                                      "0x7f.0.0.1",
                                      "0x7f000001",
                                      "2130706433",
                                      "017700000001",
                                      "1.2.3.4 ",
                                      " 1.2.3.4",
                                      "1.2.3.-4",
                                      "+1.2.3.4",
                                      "1.2.3.4/8",
                                      "[::1]",
                                      "::1%lo",
                                      "::1%25lo",
                                      "fe80::1%1",
                                      ":::",
                                      "1::2::3",
                                      "12345::",
                                      "g::",
                                      "::1.2.3",
                                      "::1.2.3.04",
                                      "localhost",
                                      "1:2:3:4:5:6:7:8:9",
                                      "1:2:3:4:5:6:7:1.2.3.4",
                                      "\xef\xbc\x91.2.3.4"}) {
    EXPECT_FALSE(parse_ip_address(text).has_value()) << text;
  }
  using namespace std::string_view_literals;
  EXPECT_FALSE(parse_ip_address("1.2.3.4\0"sv).has_value());
  EXPECT_FALSE(parse_ip_address("127.0.0.1\0.example"sv).has_value());
}

}  // namespace
}  // namespace tessera::intake
