#include "intake/url.h"

#include <gtest/gtest.h>

#include "base/str_cat.h"

namespace tessera::intake {
namespace {

HttpUrl parsed(std::string_view text) {
  UrlResult result = parse_http_url(text);
  if (const BadUrl* bad = std::get_if<BadUrl>(&result)) {
    ADD_FAILURE() << text << ": " << bad->detail;
    return {};
  }
  return std::get<HttpUrl>(result);
}

// The refusal, or "accepted: TEXT".
std::string refusal_of(const UrlResult& result) {
  if (const BadUrl* bad = std::get_if<BadUrl>(&result)) {
    EXPECT_EQ(bad->detail.find('\n'), std::string::npos);
    return bad->detail;
  }
  return str_cat("accepted: ", std::get<HttpUrl>(result).text);
}

std::string refusal_of(std::string_view text) { return refusal_of(parse_http_url(text)); }

void expect_refused(std::string_view text, std::string_view why) {
  const std::string refusal = refusal_of(text);
  EXPECT_NE(refusal.find(why), std::string::npos) << text << ": " << refusal;
}

TEST(HttpUrl, PartsAreRead) {
  const HttpUrl url = parsed("https://Pictures.Example.com:8443/a/b.png?size=1&x#top");
  EXPECT_TRUE(url.is_https);
  EXPECT_EQ(url.host, "pictures.example.com");
  EXPECT_FALSE(url.address.has_value());
  EXPECT_EQ(url.port, 8443);
  EXPECT_EQ(url.origin, "https://pictures.example.com:8443");
  EXPECT_EQ(url.path, "/a/b.png");
  EXPECT_EQ(url.text, "https://pictures.example.com:8443/a/b.png?size=1&x");
}

TEST(HttpUrl, EqualUrlsHaveOneForm) {
  for (const auto& [text, expected] :
       {std::pair{"http://a.example", "http://a.example/"},
        std::pair{"HTTP://A.EXAMPLE:80/", "http://a.example/"},
        std::pair{"https://a.example:443/", "https://a.example/"},
        std::pair{"https://a.example:080/", "https://a.example:80/"},
        std::pair{"http://a.example?q", "http://a.example/?q"},
        std::pair{"http://a.example#f", "http://a.example/"},
        std::pair{"http://a.example/x/../y/./z", "http://a.example/y/z"},
        std::pair{"http://a.example/../../y", "http://a.example/y"},
        std::pair{"http://1.2.3.4:8080/a", "http://1.2.3.4:8080/a"},
        std::pair{"http://[2001:DB8:0::1]:8080/a", "http://[2001:db8::1]:8080/a"},
        std::pair{"http://a.example/a%20b?c%26d", "http://a.example/a%20b?c%26d"},
        std::pair{"http://a.example/\xe5\x9b\xbe.png?q=\xc3\xa9",
                  "http://a.example/%e5%9b%be.png?q=%c3%a9"},
        std::pair{"http://a.example/?u=http://b.example@c/",
                  "http://a.example/?u=http://b.example@c/"},
        std::pair{"http://xn--bcher-kva.example/", "http://xn--bcher-kva.example/"},
        std::pair{"http://a_b-c.d3.example/", "http://a_b-c.d3.example/"}}) {
    EXPECT_EQ(parsed(text).text, expected) << text;
    EXPECT_EQ(parsed(parsed(text).text), parsed(text)) << text;
  }
}

TEST(HttpUrl, AddressesAreRecognised) {
  EXPECT_EQ(parsed("http://10.1.2.3/").address, parse_ip_address("10.1.2.3"));
  EXPECT_EQ(parsed("http://[::ffff:10.1.2.3]/").address, parse_ip_address("::ffff:10.1.2.3"));
  EXPECT_EQ(parsed("http://[0:0::1]/").host, "::1");
  EXPECT_FALSE(parsed("http://10.example/").address.has_value());
  EXPECT_FALSE(parsed("http://face.0xg/").address.has_value());
}

TEST(HttpUrl, OtherSchemesAreRefused) {
  for (const std::string_view text :
       {"", "a.png", "/etc/passwd", "//a.example/", "file:///etc/passwd", "ftp://a.example/",
        "gopher://a.example/", "data:,a", "javascript:a", "httpx://a.example/", "http", "ws://a/",
        "h\xc3\xa4ttp://a/", "1http://a/", "dict://a/", "view-source:http://a/", "://a/"}) {
    expect_refused(text, "does not begin with http:// or https://");
  }
  for (const std::string_view text : {"http:", "http:/", "http:/a/", "https:a.example"}) {
    expect_refused(text, "has no // after");
  }
}

TEST(HttpUrl, LengthIsLimitedBeforeAndAfterEncoding) {
  const std::string start = "http://a.example/";
  const std::string longest = start + std::string(kMaxUrlCharacters - start.size(), 'a');
  EXPECT_EQ(parsed(longest).text, longest);
  expect_refused(longest + "a", "has 8193 characters, at most 8192 are read");
  std::string grows = start;
  while (grows.size() < 6000) {
    grows += "\xe5\x9b\xbe";
  }
  expect_refused(grows, "characters when it is encoded");
}

TEST(HttpUrl, BlanksControlCharactersAndBackslashesAreRefused) {
  for (int byte = 0; byte <= 0x20; ++byte) {
    expect_refused(str_cat("http://a.example/", static_cast<char>(byte), "a"),
                   "byte 17 of the URL");
    expect_refused(str_cat("http://a.ex", static_cast<char>(byte), "mple/"), "byte 11 of the URL");
  }
  for (const std::string_view text :
       {" http://a.example/", "http://a.example/ ", "http:\\\\a.example/",
        "http://a.example\\@b.example/", "http://a.example/\x7f", "http://a.example/?a\\b",
        "http://a.example/\r\nHost: b"}) {
    expect_refused(text, "a blank, a control character or a backslash");
  }
  expect_refused("http://a.example/\xff", "not UTF-8");
  expect_refused("http://a.example/\xc0\xaf", "not UTF-8");
}

TEST(HttpUrl, CredentialsAreRefusedAndNotRepeated) {
  for (const std::string_view text :
       {"http://secret:secret@a.example/", "http://secret@a.example/", "http://@a.example/",
        "http://:@a.example/", "http://a.example:80@b.example/", "http://[::1]@b.example/",
        "http://secret%40a.example@b.example/", "http://a@b@c.example/"}) {
    expect_refused(text, "has a user name or password");
    EXPECT_EQ(refusal_of(text).find("secret"), std::string::npos);
  }
}

TEST(HttpUrl, NumbersInDisguiseAreRefused) {
  for (const std::string_view host :
       {"2130706433",  "0",          "127.1",      "127.0.1",     "0177.0.0.1", "127.0.0.01",
        "00.0.0.0",    "0x7f.0.0.1", "0x7f000001", "0X7F000001",  "0x",         "017700000001",
        "1.2.3.4.5",   "1.2.3.256",  "999.1.1.1",  "127.0.0.0x1", "a.1",        "a.0x1f",
        "10.0.0.1.0x", "4294967296"}) {
    expect_refused(str_cat("http://", host, "/"), "is a number that stands for an IPv4 address");
    expect_refused(str_cat("http://", host, ":8080/"),
                   "is a number that stands for an IPv4 address");
  }
}

TEST(HttpUrl, OtherHostsAreRefused) {
  for (const std::string_view host : {"", ":80"}) {
    expect_refused(str_cat("http://", host, "/a"), "has no host");
  }
  expect_refused("http://?a", "has no host");
  expect_refused("http:///a.example/", "has no host");
  for (const std::string_view host :
       {"b\xc3\xbc"
        "cher.example",
        "\xe2\x91\xa0\xe2\x91\xa1\xe2\x91\xa6.0.0.1", "\xef\xbc\x91\xef\xbc\x90.0.0.1",
        "a\xe3\x80\x82"
        "example",
        "a\xc2\xad.example"}) {
    expect_refused(str_cat("http://", host, "/"), "is not ASCII; write it in its xn-- form");
  }
  for (const std::string_view host : {"a..example",
                                      ".a.example",
                                      "a.example.",
                                      "localhost.",
                                      "127.0.0.1.",
                                      "%61.example",
                                      "127%2e0%2e0%2e1",
                                      "a%00.example",
                                      "a,b",
                                      "a!b",
                                      "a$b",
                                      "a&b",
                                      "a'b",
                                      "a(b)",
                                      "a*b",
                                      "a+b",
                                      "a;b",
                                      "a=b",
                                      "a~b",
                                      "a\"b",
                                      "a<b",
                                      "a>b",
                                      "a^b",
                                      "a`b",
                                      "a{b}",
                                      "a|b",
                                      "::1",
                                      "]",
                                      "a]b"}) {
    const std::string refusal = refusal_of(str_cat("http://", host, "/"));
    EXPECT_FALSE(refusal.starts_with("accepted")) << host << ": " << refusal;
  }
  expect_refused(str_cat("http://", std::string(64, 'a'), ".example/"), "is no DNS name");
  EXPECT_EQ(parsed(str_cat("http://", std::string(63, 'a'), ".example/")).host.size(), 71U);
  std::string name;
  while (name.size() < 250) {
    name += "aa.";
  }
  EXPECT_EQ(parsed(str_cat("http://", name, "e/")).host.size(), 253U);
  expect_refused(str_cat("http://", name, "ee/"), "is no DNS name");
}

TEST(HttpUrl, BracketsHoldOnlyIpv6Addresses) {
  for (const std::string_view host :
       {"[fe80::1%25eth0]", "[fe80::1%eth0]", "[::1%]", "[::1%2500]"}) {
    expect_refused(str_cat("http://", host, "/"), "has an IPv6 zone");
  }
  for (const std::string_view host : {"[]", "[127.0.0.1]", "[a.example]", "[v1.a]", "[::g]",
                                      "[::ffff:127.1]", "[::ffff:0x7f000001]", "[[::1]", "[:::]"}) {
    expect_refused(str_cat("http://", host, "/"), "no IPv6 address");
  }
  expect_refused("http://[::1/", "has no closing bracket");
  expect_refused("http://[::1]a/", "between its IPv6 address and its path");
  expect_refused("http://[::1]]/", "between its IPv6 address and its path");
}

TEST(HttpUrl, PortsAreNumbersFrom1To65535) {
  EXPECT_EQ(parsed("http://a.example:1/").port, 1);
  EXPECT_EQ(parsed("http://a.example:65535/").port, 65535);
  for (const std::string_view port : {"", "0", "65536", "99999999999999999999", "-1", "+80", "80a",
                                      "0x50", "8 0", "80:80", "%38%30"}) {
    const std::string refusal = refusal_of(str_cat("http://a.example:", port, "/"));
    EXPECT_FALSE(refusal.starts_with("accepted")) << port << ": " << refusal;
  }
  expect_refused("http://a.example:/", "port is not a number from 1 to 65535");
  expect_refused("http://[::1]:/", "port is not a number from 1 to 65535");
}

TEST(HttpUrl, MessagesHaveNeitherPathNorQuery) {
  for (const std::string_view text :
       {"http://a.example:0/secret?secret#secret", "http://0x7f/secret?secret",
        "ftp://secret/secret", "http://a..b/secret?secret", "http:secret", "http:///secret",
        "http://a.example/secret secret", "http://[::1]:secret/secret"}) {
    const std::string refusal = refusal_of(text);
    EXPECT_FALSE(refusal.starts_with("accepted")) << text;
    EXPECT_EQ(refusal.find("secret"), std::string::npos) << refusal;
  }
}

TEST(ResolveLocation, ExamplesOfTheStandard) {
  // RFC 3986 section 5.4, those of the http scheme.
  const HttpUrl base = parsed("http://a/b/c/d;p?q");
  for (const auto& [location, expected] : {std::pair{"g", "http://a/b/c/g"},
                                           std::pair{"./g", "http://a/b/c/g"},
                                           std::pair{"g/", "http://a/b/c/g/"},
                                           std::pair{"/g", "http://a/g"},
                                           std::pair{"//g", "http://g/"},
                                           std::pair{"?y", "http://a/b/c/d;p?y"},
                                           std::pair{"g?y", "http://a/b/c/g?y"},
                                           std::pair{"#s", "http://a/b/c/d;p?q"},
                                           std::pair{"g#s", "http://a/b/c/g"},
                                           std::pair{"g?y#s", "http://a/b/c/g?y"},
                                           std::pair{";x", "http://a/b/c/;x"},
                                           std::pair{"g;x=1/../y", "http://a/b/c/y"},
                                           std::pair{"", "http://a/b/c/d;p?q"},
                                           std::pair{".", "http://a/b/c/"},
                                           std::pair{"./", "http://a/b/c/"},
                                           std::pair{"..", "http://a/b/"},
                                           std::pair{"../g", "http://a/b/g"},
                                           std::pair{"../..", "http://a/"},
                                           std::pair{"../../../g", "http://a/g"},
                                           std::pair{"/./g", "http://a/g"},
                                           std::pair{"g?y/../x", "http://a/b/c/g?y/../x"},
                                           std::pair{"http://h/g", "http://h/g"}}) {
    EXPECT_EQ(refusal_of(resolve_location(base, location)), str_cat("accepted: ", expected))
        << location;
  }
}

TEST(ResolveLocation, TheSameRulesHoldAsForFirstUrls) {
  const HttpUrl base = parsed("https://a.example/b");
  const auto refused = [&base](std::string_view location, std::string_view why) {
    const std::string refusal = refusal_of(resolve_location(base, location));
    EXPECT_NE(refusal.find(why), std::string::npos) << location << ": " << refusal;
  };
  refused("file:///etc/passwd", "does not begin with http://");
  refused("data:,a", "does not begin with http://");
  refused("//user@b.example/", "user name or password");
  refused("//0x7f.1/", "is a number that stands for");
  refused("http://2130706433/", "is a number that stands for");
  refused("/a b", "a blank");
  refused("/\\b.example/", "a backslash");
  refused("//b.example:0/", "port is not a number");
  refused(str_cat("/", std::string(kMaxUrlCharacters, 'a')), "at most 8192 are read");
  EXPECT_EQ(refusal_of(resolve_location(base, "@b.example/")),
            "accepted: https://a.example/@b.example/");
  EXPECT_EQ(refusal_of(resolve_location(base, "//b.example:80/")),
            "accepted: https://b.example:80/");
  EXPECT_FALSE(std::get<HttpUrl>(resolve_location(base, "HTTP://b.example/")).is_https);
}

}  // namespace
}  // namespace tessera::intake
