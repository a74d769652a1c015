#include "intake/data_url.h"

#include <algorithm>
#include <new>
#include <optional>
#include <string>

#include "base/ascii.h"
#include "base/str_cat.h"
#include "intake/base64.h"

namespace tessera::intake {
namespace {

constexpr std::string_view kScheme = "data:";

// The last parameter is `base64`.
bool says_base64(std::string_view header) {
  const size_t at = header.rfind(';');
  return at != std::string_view::npos &&
         is_equal_in_any_case(trim(header.substr(at + 1), kAsciiBlanks), "base64");
}

int hex_digit(char c) {
  const char digit = ascii_lower(c);
  if (digit >= '0' && digit <= '9') {
    return digit - '0';
  }
  return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

// Byte 0xNN of the escape %NN at `position`, or nothing.
std::optional<char> escaped_byte(std::string_view data, size_t position) {
  if (data.size() - position < 3) {
    return std::nullopt;
  }
  const int high = hex_digit(data[position + 1]);
  const int low = hex_digit(data[position + 2]);
  if (high < 0 || low < 0) {
    return std::nullopt;
  }
  return static_cast<char>(high * 16 + low);
}

// Position of the first % that begins no escape, or npos.
size_t find_broken_escape(std::string_view data) {
  size_t at = data.find('%');
  while (at != std::string_view::npos && escaped_byte(data, at).has_value()) {
    at = data.find('%', at + 3);
  }
  return at;
}

// Bytes of data without broken escapes.
size_t decoded_size(std::string_view data) {
  return data.size() - 2 * static_cast<size_t>(std::ranges::count(data, '%'));
}

// `out` has room for decoded_size(data).
void decode_escapes(std::string_view data, char* out) {
  while (true) {
    const size_t plain = std::min(data.find('%'), data.size());
    out = std::copy_n(data.data(), plain, out);
    if (plain == data.size()) {
      return;
    }
    *out++ = *escaped_byte(data, plain);
    data.remove_prefix(plain + 3);
  }
}

Refusal refuse_escape(size_t position) {
  return {Fault::corrupt, str_cat("the % at byte ", position,
                                  " of the URL's data (counted from 0) is not followed by two "
                                  "hexadecimal digits; write %25 for a %")};
}

using Result = std::variant<std::vector<std::byte>, Refusal>;

Result decode_base64_data(std::string_view data, int64_t max_bytes) {
  if (data.find('%') == std::string_view::npos) {
    return decode_base64(data, max_bytes);
  }
  std::string text(decoded_size(data), '\0');
  decode_escapes(data, text.data());
  return decode_base64(text, max_bytes);
}

Result decode_escaped_data(std::string_view data, int64_t max_bytes) {
  const auto bad = std::ranges::find_if(data, [](char c) { return c < 0x21 || c > 0x7e; });
  if (bad != data.end()) {
    return Refusal{Fault::corrupt,
                   str_cat("byte ", bad - data.begin(),
                           " of the URL's data (counted from 0) is not printable ASCII; "
                           "percent-encode it, or send base64")};
  }
  const size_t size = decoded_size(data);
  if (static_cast<int64_t>(size) > max_bytes) {
    return Refusal{Fault::too_large, str_cat("the data URL holds ", size, " bytes, at most ",
                                             max_bytes, " are read; send a smaller picture")};
  }
  std::vector<std::byte> out(size);
  decode_escapes(data, reinterpret_cast<char*>(out.data()));
  return out;
}

}  // namespace

bool is_data_url(std::string_view url) {
  url.remove_prefix(std::min(url.find_first_not_of(kAsciiBlanks), url.size()));
  return is_equal_in_any_case(url.substr(0, kScheme.size()), kScheme);
}

Result parse_data_url(std::string_view url, int64_t max_bytes) {
  url = trim(url, kAsciiBlanks);
  if (!is_data_url(url)) {
    return Refusal{Fault::unrecognised,
                   "this is no data URL: it does not begin with data:; write "
                   "data:image/png;base64,DATA"};
  }
  url.remove_prefix(kScheme.size());
  url = url.substr(0, url.find('#'));
  const size_t comma = url.find(',');
  if (comma == std::string_view::npos) {
    return Refusal{Fault::corrupt,
                   "the data URL has no comma before its data; write data:image/png;base64,DATA"};
  }
  const std::string_view data = url.substr(comma + 1);
  if (data.empty()) {
    return Refusal{Fault::empty, "the data URL has no data; send a picture"};
  }
  if (const size_t broken = find_broken_escape(data); broken != std::string_view::npos) {
    return refuse_escape(broken);
  }
  try {
    return says_base64(url.substr(0, comma)) ? decode_base64_data(data, max_bytes)
                                             : decode_escaped_data(data, max_bytes);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::out_of_memory,
                str_cat("no memory for a data URL of ", data.size(), " characters"));
  }
}

}  // namespace tessera::intake
