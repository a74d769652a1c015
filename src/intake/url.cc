#include "intake/url.h"

#include <curl/curl.h>

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "base/ascii.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace tessera::intake {
namespace {

constexpr size_t kMaxHostCharacters = 253;  // RFC 1035 section 2.3.4
constexpr size_t kMaxLabelCharacters = 63;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z'; }
bool is_hex(char c) { return is_digit(c) || (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'f'); }
bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

// Characters of the scheme that `text` begins with, or 0.
size_t scheme_size(std::string_view text) {
  const auto is_scheme_character = [](char c) {
    return is_letter(c) || is_digit(c) || c == '+' || c == '-' || c == '.';
  };
  const size_t size =
      static_cast<size_t>(std::ranges::find_if_not(text, is_scheme_character) - text.begin());
  return size > 0 && is_letter(text[0]) && size < text.size() && text[size] == ':' ? size : 0;
}

std::optional<BadUrl> check_characters(std::string_view text) {
  if (text.size() > kMaxUrlCharacters) {
    return BadUrl{str_cat("the URL has ", text.size(), " characters, at most ", kMaxUrlCharacters,
                          " are read; send the picture itself")};
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' || c == 0x7f || (is_ascii(c) && c <= ' ')) {
      return BadUrl{str_cat("byte ", i,
                            " of the URL (counted from 0) is a blank, a control character or a "
                            "backslash; percent-encode it")};
    }
  }
  if (!is_valid_utf8(text)) {
    return BadUrl{"the URL is not UTF-8; percent-encode it"};
  }
  return std::nullopt;
}

struct Authority {
  std::string_view host;  // without brackets
  bool has_brackets = false;
  std::optional<std::string_view> port;
};

// `text` is what stands between "://" and the path.
std::variant<Authority, BadUrl> split_authority(std::string_view text) {
  if (text.find('@') != std::string_view::npos) {
    return BadUrl{"the URL has a user name or password; leave it out"};
  }
  Authority parts;
  std::string_view rest;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) {
      return BadUrl{"the URL's IPv6 address has no closing bracket; write [ADDRESS]"};
    }
    parts.has_brackets = true;
    parts.host = text.substr(1, end - 1);
    rest = text.substr(end + 1);
  } else {
    parts.host = text.substr(0, text.find(':'));
    rest = text.substr(parts.host.size());
  }
  if (rest.starts_with(':')) {
    parts.port = rest.substr(1);
  } else if (!rest.empty()) {
    return BadUrl{"the URL has text between its IPv6 address and its path; write [ADDRESS]:PORT"};
  }
  return parts;
}

// WHATWG URL standard, "ends in a number": such a host is an IPv4 address in some spelling.
bool ends_in_number(std::string_view host) {
  const std::string_view label = host.substr(host.rfind('.') + 1);
  if (!label.empty() && std::ranges::all_of(label, is_digit)) {
    return true;
  }
  return label.size() >= 2 && label[0] == '0' && ascii_lower(label[1]) == 'x' &&
         std::ranges::all_of(label.substr(2), is_hex);
}

bool is_dns_name(std::string_view host) {
  if (host.empty() || host.size() > kMaxHostCharacters) {
    return false;
  }
  size_t label_size = 0;
  for (const char c : host) {
    if (c == '.') {
      if (label_size == 0) {
        return false;
      }
      label_size = 0;
      continue;
    }
    if (!is_letter(c) && !is_digit(c) && c != '-' && c != '_') {
      return false;
    }
    if (++label_size > kMaxLabelCharacters) {
      return false;
    }
  }
  return label_size > 0;
}

BadUrl refuse_host(std::string_view host, std::string_view why) {
  return BadUrl{str_cat("the URL's host ", quoted(host, 80), " ", why)};
}

std::optional<BadUrl> read_host(const Authority& parts, HttpUrl& url) {
  if (parts.has_brackets) {
    if (parts.host.find('%') != std::string_view::npos) {
      return refuse_host(parts.host, "has an IPv6 zone; leave it out");
    }
    url.address = parse_ip_address(parts.host);
    if (!url.address.has_value() || url.address->family != IpFamily::v6) {
      return refuse_host(parts.host, "stands in brackets and is no IPv6 address; correct it");
    }
    url.host = to_text(*url.address);
    return std::nullopt;
  }
  if (parts.host.empty()) {
    return BadUrl{"the URL has no host; write https://HOST/PATH"};
  }
  if (!std::ranges::all_of(parts.host, is_ascii)) {
    return refuse_host(parts.host, "is not ASCII; write it in its xn-- form (Punycode)");
  }
  url.host = ascii_lower(parts.host);
  url.address = parse_ip_address(url.host);
  if (url.address.has_value()) {
    return std::nullopt;
  }
  if (ends_in_number(url.host)) {
    return refuse_host(parts.host,
                       "is a number that stands for an IPv4 address; write four decimal numbers "
                       "without leading zeros");
  }
  if (!is_dns_name(url.host)) {
    return refuse_host(parts.host, "is no DNS name; correct it");
  }
  return std::nullopt;
}

std::optional<BadUrl> read_port(const Authority& parts, HttpUrl& url) {
  url.port = url.is_https ? 443 : 80;
  if (!parts.port.has_value()) {
    return std::nullopt;
  }
  if (!parse_number(*parts.port, url.port) || url.port < 1 || url.port > 65535) {
    return BadUrl{"the URL's port is not a number from 1 to 65535; correct it"};
  }
  return std::nullopt;
}

std::string origin_of(const HttpUrl& url) {
  const bool is_v6 = url.address.has_value() && url.address->family == IpFamily::v6;
  std::string origin = url.is_https ? "https://" : "http://";
  origin += is_v6 ? str_cat("[", url.host, "]") : url.host;
  if (url.port != (url.is_https ? 443 : 80)) {
    origin += str_cat(":", url.port);
  }
  return origin;
}

class CurlUrl {
 public:
  CurlUrl() : handle_(curl_url(), &curl_url_cleanup) {
    if (handle_ == nullptr) {
      throw Error(ErrorCode::out_of_memory, "no memory to read a URL");
    }
  }

  bool set(std::string_view text) {
    return check(curl_url_set(handle_.get(), CURLUPART_URL, std::string(text).c_str(),
                              CURLU_DISALLOW_USER | CURLU_URLENCODE));
  }

  // Nothing if the URL has no such part.
  std::optional<std::string> get(CURLUPart part) const {
    char* text = nullptr;
    if (!check(curl_url_get(handle_.get(), part, &text, CURLU_DEFAULT_PORT))) {
      return std::nullopt;
    }
    const std::unique_ptr<char, decltype(&curl_free)> owner(text, &curl_free);
    return std::string(text);
  }

 private:
  static bool check(CURLUcode code) {
    if (code == CURLUE_OUT_OF_MEMORY) {
      throw Error(ErrorCode::out_of_memory, "no memory to read a URL");
    }
    return code == CURLUE_OK;
  }

  std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> handle_;
};

// What libcurl will connect to is what was read above.
bool is_read_alike(const CurlUrl& curl, const HttpUrl& url) {
  const std::optional<std::string> scheme = curl.get(CURLUPART_SCHEME);
  const std::optional<std::string> port = curl.get(CURLUPART_PORT);
  std::optional<std::string> host = curl.get(CURLUPART_HOST);
  if (!scheme.has_value() || !port.has_value() || !host.has_value()) {
    return false;
  }
  if (ascii_lower(*scheme) != (url.is_https ? "https" : "http") || *port != str_cat(url.port)) {
    return false;
  }
  if (host->starts_with('[') && host->ends_with(']')) {
    *host = host->substr(1, host->size() - 2);
  }
  return url.address.has_value() ? parse_ip_address(*host) == url.address
                                 : ascii_lower(*host) == url.host;
}

}  // namespace

UrlResult parse_http_url(std::string_view text) {
  if (std::optional<BadUrl> bad = check_characters(text)) {
    return *std::move(bad);
  }
  const std::string scheme = ascii_lower(text.substr(0, scheme_size(text)));
  HttpUrl url;
  url.is_https = scheme == "https";
  if (!url.is_https && scheme != "http") {
    return BadUrl{
        "the URL does not begin with http:// or https://; send such a URL, or the "
        "picture itself as base64"};
  }
  const std::string_view rest = text.substr(scheme.size() + 1);
  if (!rest.starts_with("//")) {
    return BadUrl{str_cat("the URL has no // after ", scheme, ":; write ", scheme, "://HOST/PATH")};
  }
  const std::string_view after_slashes = rest.substr(2);
  std::variant<Authority, BadUrl> split =
      split_authority(after_slashes.substr(0, after_slashes.find_first_of("/?#")));
  if (BadUrl* bad = std::get_if<BadUrl>(&split)) {
    return std::move(*bad);
  }
  const Authority& authority = std::get<Authority>(split);
  if (std::optional<BadUrl> bad = read_host(authority, url)) {
    return *std::move(bad);
  }
  if (std::optional<BadUrl> bad = read_port(authority, url)) {
    return *std::move(bad);
  }
  CurlUrl curl;
  if (!curl.set(text) || !is_read_alike(curl, url)) {
    return BadUrl{"the URL can be read in more than one way; write https://HOST/PATH"};
  }
  url.origin = origin_of(url);
  url.path = curl.get(CURLUPART_PATH).value_or("/");
  url.text = url.origin + url.path;
  if (const std::optional<std::string> query = curl.get(CURLUPART_QUERY)) {
    url.text += "?" + *query;
  }
  if (url.text.size() > kMaxUrlCharacters) {
    return BadUrl{str_cat("the URL has ", url.text.size(),
                          " characters when it is encoded, at most ", kMaxUrlCharacters,
                          " are read; send the picture itself")};
  }
  return url;
}

UrlResult resolve_location(const HttpUrl& base, std::string_view location) {
  if (scheme_size(location) > 0) {
    return parse_http_url(location);
  }
  std::string_view start = base.origin;
  std::string folder;
  if (location.starts_with("//")) {
    start = base.is_https ? "https:" : "http:";
  } else if (location.empty() || location.starts_with('#')) {
    start = base.text;
  } else if (location.starts_with('?')) {
    folder = base.path;
  } else if (!location.starts_with('/')) {
    folder = base.path.substr(0, base.path.rfind('/') + 1);
  }
  return parse_http_url(str_cat(start, folder, location));
}

}  // namespace tessera::intake
