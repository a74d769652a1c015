#include "intake/pnm_scan.h"

#include <string_view>
#include <utility>

#include "base/str_cat.h"
#include "intake/limits.h"

namespace tessera::intake {
namespace {

constexpr size_t kMostDigits = 10;
constexpr int64_t kHighestValue = 65535;

bool is_space(char c) { return std::string_view(" \t\n\v\f\r").find(c) != std::string_view::npos; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

Refusal refuse_end() {
  return {Fault::truncated, "PNM: the file ends before the picture does; send the whole file"};
}

Refusal refuse_text(std::string_view expected) {
  return {Fault::corrupt, str_cat("PNM: expected ", expected, "; re-encode the picture")};
}

}  // namespace

std::optional<char> PnmScanner::next() {
  while (at_ < text_.size()) {
    const char c = static_cast<char>(text_[at_++]);
    if (c != '#') {
      return c;
    }
    while (at_ < text_.size()) {
      const char skipped = static_cast<char>(text_[at_++]);
      if (skipped == '\n' || skipped == '\r') {
        break;
      }
    }
  }
  return std::nullopt;
}

std::variant<int64_t, Refusal> PnmScanner::number() {
  std::optional<char> c = next();
  while (c.has_value() && is_space(*c)) {
    c = next();
  }
  if (!c.has_value()) {
    return refuse_end();
  }
  int64_t value = 0;
  for (size_t digits = 0; c.has_value() && !is_space(*c); c = next()) {
    if (!is_digit(*c) || ++digits > kMostDigits) {
      return refuse_text("a number of up to ten digits");
    }
    value = 10 * value + (*c - '0');
  }
  return value;
}

std::variant<int64_t, Refusal> PnmScanner::bit() {
  std::optional<char> c = next();
  while (c.has_value() && is_space(*c)) {
    c = next();
  }
  if (!c.has_value()) {
    return refuse_end();
  }
  if (*c != '0' && *c != '1') {
    return refuse_text("pixels of 0 and 1");
  }
  return int64_t{*c - '0'};
}

int64_t PnmHeader::data_bytes() const {
  if (is_bitmap) {
    return is_plain ? width * height : (width + 7) / 8 * height;
  }
  const int64_t samples = width * height * channels;
  return is_plain ? 2 * samples - 1 : is_wide() ? 2 * samples : samples;
}

std::variant<PnmHeader, Refusal> read_pnm_header(PnmScanner& scanner, const DecodeLimits& limits) {
  const std::span<const std::byte> magic = scanner.rest();
  const char kind = magic.size() < 2 ? '0' : static_cast<char>(magic[1]);
  if (kind == '7') {
    return Refusal{Fault::unsupported, "PNM: PAM pictures (P7) are not read; convert to PNG"};
  }
  if (kind < '1' || kind > '6') {
    return refuse_text("P1 to P6");
  }
  scanner = PnmScanner(magic.subspan(2));
  const int plane = (kind - '1') % 3;  // bitmap, grey, colour
  PnmHeader header{.channels = plane == 2 ? 3 : 1, .is_bitmap = plane == 0, .is_plain = kind < '4'};
  for (int64_t* field : {&header.width, &header.height, &header.max_value}) {
    if (field == &header.max_value && header.is_bitmap) {
      break;
    }
    std::variant<int64_t, Refusal> read = scanner.number();
    if (Refusal* refusal = std::get_if<Refusal>(&read)) {
      return std::move(*refusal);
    }
    *field = std::get<int64_t>(read);
  }
  if (header.max_value < 1 || header.max_value > kHighestValue) {
    return Refusal{Fault::corrupt, str_cat("PNM: the highest value is ", header.max_value,
                                           ", expected 1 to 65535; re-encode the picture")};
  }
  if (std::optional<Refusal> refusal =
          check_header_size("PNM", header.width, header.height, limits)) {
    return *std::move(refusal);
  }
  const auto have = static_cast<int64_t>(scanner.rest().size());
  if (have < header.data_bytes()) {
    return Refusal{Fault::truncated, str_cat("PNM: ", have, " bytes of pixels, expected ",
                                             header.data_bytes(), "; send the whole file")};
  }
  return header;
}

}  // namespace tessera::intake
