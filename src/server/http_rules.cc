#include "server/http_rules.h"

#include <sys/random.h>

#include <array>

#include "base/ascii.h"
#include "base/check.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "server/http_ascii.h"

namespace tessera::server {
namespace {

constexpr std::array<std::string_view, 3> kLoopbackNames = {"localhost", "127.0.0.1", "[::1]"};

HttpRefusal bad_request(std::string message) { return {400, std::move(message)}; }

int64_t count_fields(const std::vector<HttpField>& fields, std::string_view name) {
  return std::ranges::count_if(
      fields, [name](const HttpField& field) { return is_equal_in_any_case(field.name, name); });
}

bool contains(const std::vector<std::string>& list, std::string_view text) {
  return std::ranges::find(list, text) != list.end();
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || is_ascii_digit(c) || c == '-' || c == '.' || c == '_';
}

bool is_ipv6_character(char c) {
  return (c >= 'a' && c <= 'f') || is_ascii_digit(c) || c == ':' || c == '.';
}

// The media type without its parameters, or the refusal of a charset that is not UTF-8.
std::optional<HttpRefusal> check_json_type(std::string_view value) {
  const size_t end = std::min(value.find(';'), value.size());
  bool is_good = is_equal_in_any_case(trim(value.substr(0, end), kHttpBlanks), "application/json");
  std::string_view rest = value.substr(end);
  while (is_good && !rest.empty()) {
    rest.remove_prefix(1);
    const size_t next = std::min(rest.find(';'), rest.size());
    const std::string_view parameter = trim(rest.substr(0, next), kHttpBlanks);
    rest.remove_prefix(next);
    const size_t equals = parameter.find('=');
    if (equals == std::string_view::npos ||
        !is_equal_in_any_case(parameter.substr(0, equals), "charset")) {
      continue;
    }
    std::string_view charset = parameter.substr(equals + 1);
    if (charset.size() >= 2 && charset.front() == '"' && charset.back() == '"') {
      charset = charset.substr(1, charset.size() - 2);
    }
    is_good = is_equal_in_any_case(charset, "utf-8") || is_equal_in_any_case(charset, "utf8");
  }
  if (is_good) {
    return std::nullopt;
  }
  return HttpRefusal{
      415, str_cat("Content-Type is ", quoted(value, 80), ", expected application/json in UTF-8")};
}

int hex_value(char c) {
  if (is_ascii_digit(c)) {
    return c - '0';
  }
  const char lower = ascii_lower(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      return std::nullopt;
    }
    out.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return out;
}

bool climbs(std::string_view path) {
  while (true) {
    const size_t end = path.find('/');
    if (path.substr(0, end) == "..") {
      return true;
    }
    if (end == std::string_view::npos) {
      return false;
    }
    path.remove_prefix(end + 1);
  }
}

std::optional<HttpRefusal> parse_path(std::string_view text, RequestTarget& target) {
  const size_t question = std::min(text.find('?'), text.size());
  std::optional<std::string> path = percent_decoded(text.substr(0, question));
  if (!path.has_value()) {
    return bad_request("the path has a % without two hexadecimal digits behind it");
  }
  if (!is_valid_utf8(*path) ||
      std::ranges::any_of(*path, [](char c) { return c == '\t' || is_control(c); })) {
    return bad_request("the path is not UTF-8, or has control characters");
  }
  if (climbs(*path)) {
    return bad_request("the path has a segment '..'");
  }
  target.path = std::move(*path);
  target.query = text.substr(std::min(question + 1, text.size()));
  return std::nullopt;
}

std::optional<HttpRefusal> check_host(std::string_view text, const RequestRules& rules,
                                      std::string_view local_address) {
  const std::optional<std::string> host = host_without_port(text);
  if (!host.has_value()) {
    return bad_request(str_cat("Host is ", quoted(text, 80), ", expected HOST or HOST:PORT"));
  }
  const bool is_local_name = is_loopback_address(local_address) &&
                             std::ranges::find(kLoopbackNames, *host) != kLoopbackNames.end();
  if (is_local_name || *host == local_address || *host == str_cat("[", local_address, "]") ||
      contains(rules.allowed_hosts, *host) || contains(rules.allowed_hosts, "*")) {
    return std::nullopt;
  }
  return HttpRefusal{403, str_cat("this server does not answer for host ", quoted(*host, 80),
                                  "; use its address, or add the name to its allowed hosts")};
}

}  // namespace

int64_t HeadScanner::scan(std::string_view bytes) {
  for (; next_ < bytes.size() && !is_bad_; ++next_) {
    const char c = bytes[next_];
    const bool follows_cr = next_ > line_begin_ && bytes[next_ - 1] == '\r';
    if (c == '\n') {
      is_bad_ = !follows_cr;
      if (next_ == line_begin_ + 1 && !is_bad_ && line_begin_ > 0) {
        return static_cast<int64_t>(++next_);
      }
      line_begin_ = next_ + 1;
    } else {
      const bool folds = next_ == line_begin_ && (c == ' ' || c == '\t');
      is_bad_ = follows_cr || folds || (is_control(c) && c != '\r');
    }
  }
  return 0;
}

std::optional<HttpRefusal> check_head(const RequestHead& head, const RequestRules& rules,
                                      std::string_view local_address, RequestTarget& target) {
  if (std::optional<HttpRefusal> refusal = check_framing(head)) {
    return refusal;
  }
  if (std::optional<HttpRefusal> refusal = parse_target(head.method, head.target, target)) {
    return refusal;
  }
  if (std::optional<HttpRefusal> refusal = check_hosts(head, target.host, rules, local_address)) {
    return refusal;
  }
  const std::string* const expect = find_field(head.fields, "Expect");
  if (head.minor_version > 0 && expect != nullptr && !expects_continue(head)) {
    return HttpRefusal{417, str_cat("Expect is ", quoted(*expect, 80), ", expected 100-continue")};
  }
  if (std::optional<HttpRefusal> refusal = check_content(head)) {
    return refusal;
  }
  if (head.content_length.value_or(0) > rules.body_bytes) {
    return HttpRefusal{413, str_cat("the body has ", *head.content_length, " bytes, at most ",
                                    rules.body_bytes, " are taken")};
  }
  return std::nullopt;
}

std::optional<HttpRefusal> check_framing(const RequestHead& head) {
  const int64_t lengths = count_fields(head.fields, "Content-Length");
  const int64_t encodings = count_fields(head.fields, "Transfer-Encoding");
  if (lengths + encodings > 1) {
    return bad_request("the length of the body is given more than once");
  }
  if (lengths > 0) {
    const std::string& length = *find_field(head.fields, "Content-Length");
    if (!std::ranges::all_of(length, is_ascii_digit) || !head.content_length.has_value()) {
      return bad_request(str_cat("Content-Length is ", quoted(length, 40), ", expected a number"));
    }
  }
  if (encodings > 0) {
    const std::string& encoding = *find_field(head.fields, "Transfer-Encoding");
    if (head.minor_version == 0 || !head.is_chunked || !is_equal_in_any_case(encoding, "chunked")) {
      return bad_request(
          str_cat("Transfer-Encoding is ", quoted(encoding, 40), ", expected chunked in HTTP/1.1"));
    }
  }
  return std::nullopt;
}

std::optional<HttpRefusal> check_hosts(const RequestHead& head, std::string_view target_host,
                                       const RequestRules& rules, std::string_view local_address) {
  if (count_fields(head.fields, "Host") != 1) {
    return bad_request("a request has exactly one Host header");
  }
  if (std::optional<HttpRefusal> refusal =
          check_host(*find_field(head.fields, "Host"), rules, local_address)) {
    return refusal;
  }
  return target_host.empty() ? std::nullopt : check_host(target_host, rules, local_address);
}

std::optional<HttpRefusal> check_content(const RequestHead& head) {
  for (const HttpField& field : head.fields) {
    if (is_equal_in_any_case(field.name, "Content-Encoding") &&
        !is_equal_in_any_case(field.value, "identity")) {
      return HttpRefusal{415, str_cat("Content-Encoding is ", quoted(field.value, 80),
                                      ", expected none; send the body as it is")};
    }
  }
  if (head.method != "POST" && head.method != "PUT" && head.method != "PATCH") {
    return std::nullopt;
  }
  const int64_t types = count_fields(head.fields, "Content-Type");
  if (types != 1) {
    return HttpRefusal{415, str_cat("the request has ", types,
                                    " Content-Type headers, expected one: application/json")};
  }
  return check_json_type(*find_field(head.fields, "Content-Type"));
}

std::optional<HttpRefusal> parse_target(std::string_view method, std::string_view text,
                                        RequestTarget& target) {
  const HttpRefusal refusal =
      bad_request(str_cat("the target of the request is ", quoted(text, 80), ", expected a path"));
  if (text.find('#') != std::string_view::npos || !std::ranges::all_of(text, is_visible_ascii)) {
    return refusal;
  }
  if (text == "*" && method == "OPTIONS") {
    target.path = "*";
    return std::nullopt;
  }
  if (text.starts_with("/")) {
    return parse_path(text, target);
  }
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (is_equal_in_any_case(text.substr(0, scheme.size()), scheme)) {
      text.remove_prefix(scheme.size());
      const size_t end = std::min(text.find_first_of("/?"), text.size());
      target.host = text.substr(0, end);
      text.remove_prefix(end);
      if (target.host.empty()) {
        return refusal;
      }
      return parse_path(text.starts_with("/") ? std::string(text) : str_cat("/", text), target);
    }
  }
  return refusal;
}

std::optional<std::string> host_without_port(std::string_view text) {
  std::string host = ascii_lower(text.substr(0, std::min<size_t>(text.size(), 300)));
  size_t end = 0;
  if (host.starts_with("[")) {
    end = host.find(']') + 1;
    if (end < 4 || !std::all_of(host.begin() + 1, host.begin() + static_cast<int>(end) - 1,
                                is_ipv6_character)) {
      return std::nullopt;
    }
  } else {
    end = static_cast<size_t>(std::ranges::find_if_not(host, is_name_character) - host.begin());
  }
  if (end == 0 || end > 255) {
    return std::nullopt;
  }
  if (end < host.size()) {
    uint16_t port = 0;
    const std::string_view port_text = std::string_view(host).substr(end + 1);
    if (host[end] != ':' || !std::ranges::all_of(port_text, is_ascii_digit) ||
        !parse_number(port_text, port)) {
      return std::nullopt;
    }
  }
  host.resize(end);
  return host;
}

bool is_loopback_address(std::string_view address) {
  return address == "::1" || address.starts_with("127.");
}

bool expects_continue(const RequestHead& head) {
  const std::string* const expect = find_field(head.fields, "Expect");
  return head.minor_version > 0 && expect != nullptr &&
         is_equal_in_any_case(*expect, "100-continue");
}

bool is_preflight(const RequestHead& head) {
  return head.method == "OPTIONS" && find_field(head.fields, "Origin") != nullptr &&
         find_field(head.fields, "Access-Control-Request-Method") != nullptr;
}

bool allows_origin(const RequestHead& head, const RequestRules& rules) {
  const std::string* const origin = find_field(head.fields, "Origin");
  return origin != nullptr && count_fields(head.fields, "Origin") == 1 &&
         (contains(rules.allowed_origins, ascii_lower(*origin)) ||
          contains(rules.allowed_origins, "*"));
}

std::vector<HttpField> cors_fields(const RequestHead& head, const RequestRules& rules) {
  std::vector<HttpField> out;
  if (rules.allowed_origins.empty()) {
    return out;
  }
  const bool allows_any = contains(rules.allowed_origins, "*");
  if (!allows_any) {
    out.push_back({"Vary", "Origin"});
  }
  if (!allows_origin(head, rules)) {
    return out;
  }
  out.push_back({"Access-Control-Allow-Origin",
                 allows_any ? std::string("*") : *find_field(head.fields, "Origin")});
  if (!is_preflight(head)) {
    out.push_back({"Access-Control-Expose-Headers", "X-Request-Id, Retry-After"});
    return out;
  }
  out.push_back(
      {"Access-Control-Allow-Methods", *find_field(head.fields, "Access-Control-Request-Method")});
  if (const std::string* names = find_field(head.fields, "Access-Control-Request-Headers")) {
    out.push_back({"Access-Control-Allow-Headers", *names});
  }
  out.push_back({"Access-Control-Max-Age", "600"});
  return out;
}

std::string request_id(const std::vector<HttpField>& fields) {
  if (const std::string* id = find_field(fields, "X-Request-Id");
      id != nullptr && !id->empty() && id->size() <= 128 &&
      std::ranges::all_of(*id, is_visible_ascii)) {
    return *id;
  }
  std::array<unsigned char, 16> bytes;
  TESSERA_CHECK(::getentropy(bytes.data(), bytes.size()) == 0);
  std::string out;
  for (const unsigned char byte : bytes) {
    out.push_back("0123456789abcdef"[byte >> 4]);
    out.push_back("0123456789abcdef"[byte & 15]);
  }
  return out;
}

}  // namespace tessera::server
