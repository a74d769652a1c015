// intake/data_url.h and intake/url.h: any text is refused in one line of UTF-8, or read: a data URL
// into no more bytes than allowed, an http URL into a form that reads as itself.
#include <algorithm>
#include <string>

#include "fuzz/target.h"
#include "intake/base64.h"
#include "intake/data_url.h"
#include "intake/url.h"

namespace tessera::intake {
namespace {

void check_line(std::string_view message) {
  TESSERA_CHECK(!message.empty() && message.find('\n') == std::string_view::npos);
  TESSERA_CHECK(is_valid_utf8(message));
}

void check_data(std::string_view url) {
  constexpr int64_t kMost = 100;
  const auto result = parse_data_url(url, kMost);
  const auto longer = parse_data_url(url, kMost * 100);
  if (const Refusal* refusal = std::get_if<Refusal>(&result)) {
    check_line(refusal->detail);
    TESSERA_CHECK(refusal->fault == Fault::too_large || std::holds_alternative<Refusal>(longer));
    return;
  }
  const auto& bytes = std::get<std::vector<std::byte>>(result);
  TESSERA_CHECK(is_data_url(url) && !bytes.empty());
  TESSERA_CHECK(static_cast<int64_t>(bytes.size()) <= kMost);
  TESSERA_CHECK(std::get<std::vector<std::byte>>(longer) == bytes);
}

// Whitespace does not matter, wherever it stands.
void check_base64(std::string_view text) {
  std::string spaced;
  for (size_t i = 0; i < text.size(); ++i) {
    spaced.append(i % 3, ' ');
    spaced.push_back(text[i]);
  }
  const auto plain = decode_base64(text, 10'000);
  const auto with_blanks = decode_base64(spaced, 10'000);
  if (const Refusal* refusal = std::get_if<Refusal>(&plain)) {
    check_line(refusal->detail);
    TESSERA_CHECK(std::get<Refusal>(with_blanks).fault == refusal->fault);
  } else {
    TESSERA_CHECK(std::get<0>(plain) == std::get<0>(with_blanks));
  }
}

void check_http(const UrlResult& result) {
  if (const BadUrl* bad = std::get_if<BadUrl>(&result)) {
    check_line(bad->detail);
    return;
  }
  const HttpUrl& url = std::get<HttpUrl>(result);
  TESSERA_CHECK(std::get<HttpUrl>(parse_http_url(url.text)) == url);
  TESSERA_CHECK(url.text.starts_with(url.origin + url.path) && url.path.starts_with('/'));
  TESSERA_CHECK(std::ranges::all_of(url.text, [](char c) { return c > 0x20 && c < 0x7f; }));
  TESSERA_CHECK(url.port >= 1 && url.port <= 65535 && !url.host.empty());
  TESSERA_CHECK(url.address == parse_ip_address(url.host));
}

void check(std::string_view text) {
  check_data(text);
  check_base64(text);
  check_http(parse_http_url(text));
  const UrlResult base = parse_http_url("https://a.example/b/c?d");
  check_http(resolve_location(std::get<HttpUrl>(base), text));
}

}  // namespace
}  // namespace tessera::intake

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tessera::intake::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
