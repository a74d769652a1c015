#include "server/http_response.h"

#include <array>
#include <charconv>
#include <ctime>

#include "base/ascii.h"
#include "base/check.h"
#include "base/str_cat.h"
#include "server/http_ascii.h"

namespace tessera::server {
namespace {

// "Sun, 06 Nov 1994 08:49:37 GMT"
std::string date_text(std::time_t time) {
  constexpr std::string_view kDays = "SunMonTueWedThuFriSat";
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  std::tm parts{};
  gmtime_r(&time, &parts);
  const auto two_digits = [](int number) {
    return std::string{static_cast<char>('0' + number / 10 % 10),
                       static_cast<char>('0' + number % 10)};
  };
  return str_cat(kDays.substr(static_cast<size_t>(parts.tm_wday) * 3, 3), ", ",
                 two_digits(parts.tm_mday), " ",
                 kMonths.substr(static_cast<size_t>(parts.tm_mon) * 3, 3), " ",
                 parts.tm_year + 1900, " ", two_digits(parts.tm_hour), ":",
                 two_digits(parts.tm_min), ":", two_digits(parts.tm_sec), " GMT");
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  const size_t begin = out.size();
  out.append(name).append(": ").append(value);
  for (size_t i = begin; i < out.size(); ++i) {
    if (is_control(out[i])) {
      out[i] = ' ';
    }
  }
  out += "\r\n";
}

struct Reason {
  int status;
  std::string_view text;
};

// RFC 9110, section 15; of other codes there is none, which is allowed.
constexpr std::array<Reason, 30> kReasons = {{
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {402, "Payment Required"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
}};

std::string_view reason(int status) {
  const auto found = std::ranges::find(kReasons, status, &Reason::status);
  return found != kReasons.end() ? found->text : std::string_view();
}

}  // namespace

const std::string* find_field(const std::vector<HttpField>& fields, std::string_view name) {
  for (const HttpField& field : fields) {
    if (is_equal_in_any_case(field.name, name)) {
      return &field.value;
    }
  }
  return nullptr;
}

bool may_have_body(int status) { return status >= 200 && status != 204 && status != 304; }

std::string response_head(const HttpResponse& response, const ResponseFrame& frame) {
  std::string out = str_cat("HTTP/1.1 ", response.status, " ", reason(response.status), "\r\n");
  append_field(out, "Server", "tessera");
  append_field(out, "Date", date_text(std::time(nullptr)));
  append_field(out, "X-Request-Id", frame.request_id);
  append_field(out, "X-Content-Type-Options", "nosniff");
  append_field(out, "Referrer-Policy", "no-referrer");
  if (!response.content_type.empty() && may_have_body(response.status)) {
    append_field(out, "Content-Type",
                 response.content_type == "application/json"
                     ? std::string_view("application/json; charset=utf-8")
                     : std::string_view(response.content_type));
  }
  for (const HttpField& field : response.headers) {
    append_field(out, field.name, field.value);
  }
  if (frame.extra_fields != nullptr) {
    for (const HttpField& field : *frame.extra_fields) {
      append_field(out, field.name, field.value);
    }
  }
  if (!frame.keeps_alive) {
    append_field(out, "Connection", "close");
  } else if (frame.is_http_10) {
    append_field(out, "Connection", "keep-alive");
  }
  if (may_have_body(response.status)) {
    if (frame.end == BodyEnd::length) {
      append_field(out, "Content-Length", str_cat(response.body.size()));
    } else if (frame.end == BodyEnd::chunks) {
      append_field(out, "Transfer-Encoding", "chunked");
    }
  }
  out += "\r\n";
  return out;
}

void append_chunk(std::string& out, std::string_view piece) {
  TESSERA_CHECK(!piece.empty());
  std::array<char, 16> digits;
  const std::to_chars_result end =
      std::to_chars(digits.data(), digits.data() + digits.size(), piece.size(), 16);
  out.append(digits.data(), end.ptr).append("\r\n").append(piece).append("\r\n");
}

std::string plain_error_body(int status, std::string_view message) {
  std::string escaped;
  for (const char c : message) {
    if (c == '"' || c == '\\') {
      escaped.push_back('\\');
    }
    escaped.push_back(is_control(c) || c == '\t' ? ' ' : c);
  }
  return str_cat(R"({"error":{"code":)", status, R"(,"message":")", escaped, "\"}}");
}

}  // namespace tessera::server
