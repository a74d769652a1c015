#include "trace/diff_html_text.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "base/check.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "io/sha256.h"

namespace tessera::trace {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::string_view kEllipsis = "\xE2\x80\xA6";     // U+2026

// The code point of a well-formed sequence.
uint32_t code_point(std::string_view sequence) {
  const auto byte = [&](size_t i) { return uint32_t{static_cast<unsigned char>(sequence[i])}; };
  switch (sequence.size()) {
    case 1:
      return byte(0);
    case 2:
      return (byte(0) & 0x1fU) << 6 | (byte(1) & 0x3fU);
    case 3:
      return (byte(0) & 0x0fU) << 12 | (byte(1) & 0x3fU) << 6 | (byte(2) & 0x3fU);
    default:
      return (byte(0) & 0x07U) << 18 | (byte(1) & 0x3fU) << 12 | (byte(2) & 0x3fU) << 6 |
             (byte(3) & 0x3fU);
  }
}

// Controls, line separators, and what is invisible or turns text around: a name must not look like
// another one.
bool is_deceptive(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c || c == 0x180e ||
         (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) ||
         (c >= 0xe0000 && c <= 0xe0fff);
}

std::string escaped(uint32_t c) {
  std::array<char, 8> digits;
  const std::to_chars_result end =
      std::to_chars(digits.data(), digits.data() + digits.size(), c, 16);
  return str_cat(
      "\\u{", std::string_view(digits.data(), static_cast<size_t>(end.ptr - digits.data())), "}");
}

// Moves `at` back to the start of a sequence of valid UTF-8.
size_t sequence_start(std::string_view text, size_t at) {
  while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U) {
    --at;
  }
  return at;
}

std::string shortened(const std::string& text, size_t most) {
  if (text.size() <= most) {
    return text;
  }
  const size_t kept = most - std::min(most, kEllipsis.size());
  const size_t head = sequence_start(text, kept * 2 / 3);
  size_t tail = text.size() - (kept - kept * 2 / 3);
  while (tail < text.size() && sequence_start(text, tail) != tail) {
    ++tail;
  }
  return str_cat(std::string_view(text).substr(0, head), kEllipsis,
                 std::string_view(text).substr(tail));
}

std::string replace_each(std::string_view text,
                         std::span<const std::pair<std::string_view, std::string_view>> rules) {
  std::string out;
  out.reserve(text.size() + text.size() / 16);
  for (size_t at = 0; at < text.size();) {
    const auto rule = std::find_if(rules.begin(), rules.end(), [&](const auto& entry) {
      return text.substr(at).starts_with(entry.first);
    });
    if (rule == rules.end()) {
      out.push_back(text[at++]);
    } else {
      out += rule->second;
      at += rule->first.size();
    }
  }
  return out;
}

uint8_t hex_digit(char c) { return static_cast<uint8_t>(c <= '9' ? c - '0' : c - 'a' + 10); }

}  // namespace

std::string clean_text(std::string_view text, size_t most) {
  std::string out;
  while (!text.empty()) {
    const size_t length = utf8_sequence_bytes(text);
    const std::string_view sequence = text.substr(0, std::max<size_t>(length, 1));
    if (length == 0) {
      out += kReplacement;
    } else if (const uint32_t c = code_point(sequence); is_deceptive(c)) {
      out += escaped(c);
    } else {
      out += sequence;
    }
    text.remove_prefix(sequence.size());
  }
  return shortened(out, most);
}

std::string html_text(std::string_view text) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}};
  return replace_each(text, kRules);
}

std::string script_json(std::string_view json) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {"<", "\\u003c"},
      {">", "\\u003e"},
      {"&", "\\u0026"},
      {"\xE2\x80\xA8", "\\u2028"},
      {"\xE2\x80\xA9", "\\u2029"}};
  return replace_each(json, kRules);
}

std::string policy_hash(std::string_view text) {
  const std::string hex = io::sha256_hex(std::as_bytes(std::span(text.data(), text.size())));
  TESSERA_CHECK(hex.size() == 64);
  std::vector<uint8_t> digest;
  for (size_t i = 0; i < hex.size(); i += 2) {
    digest.push_back(static_cast<uint8_t>(hex_digit(hex[i]) << 4 | hex_digit(hex[i + 1])));
  }
  return "sha256-" + to_base64(std::as_bytes(std::span(digest)));
}

}  // namespace tessera::trace
