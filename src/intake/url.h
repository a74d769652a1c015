// URLs of pictures: http and https, read strictly, so that what is checked is what is asked for.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "intake/ip_address.h"

namespace tessera::intake {

inline constexpr size_t kMaxUrlCharacters = 8192;  // DeepSeek's API, guide on vision

struct HttpUrl {
  bool is_https = false;
  std::string host;                  // lower case; an IPv6 address without brackets, as to_text()
  std::optional<IpAddress> address;  // of a host that is one
  int port = 0;                      // 1 to 65535
  std::string origin;                // "https://host", ":port" follows if it is not the default
  std::string path;                  // begins with '/'; dot segments are removed
  std::string text;                  // origin, path and query: what is asked for; no fragment
  bool operator==(const HttpUrl&) const = default;
};

struct BadUrl {
  std::string detail;  // one line; of the URL it has at most the host
};

using UrlResult = std::variant<HttpUrl, BadUrl>;

// Bytes outside ASCII are percent-encoded in path and query. Refused: other schemes, more than
// kMaxUrlCharacters, control characters, blanks, backslashes, text that is not UTF-8, user names
// and passwords, hosts that are not ASCII or no DNS name, IPv4 addresses in other spellings than
// four decimal numbers, IPv6 zones, ports outside 1 to 65535, and hosts that libcurl reads
// differently.
UrlResult parse_http_url(std::string_view text);

// The target of a redirect: `location` is absolute or relative to `base` (RFC 3986 section 5.2).
UrlResult resolve_location(const HttpUrl& base, std::string_view location);

}  // namespace tessera::intake
