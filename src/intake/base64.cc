#include "intake/base64.h"

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <utility>

#include "base/str_cat.h"

namespace tessera::intake {
namespace {

// What a character is: its six bits, or one of these. All of them have bit 6 or 7 set.
constexpr uint8_t kBlank = 0x40;
constexpr uint8_t kPadding = 0x80;
constexpr uint8_t kBad = 0xff;
constexpr uint32_t kNoSixBits = 0xc0;

constexpr std::array<uint8_t, 256> make_table() {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<uint8_t, 256> table{};
  table.fill(kBad);
  for (size_t i = 0; i < kAlphabet.size(); ++i) {
    table[static_cast<unsigned char>(kAlphabet[i])] = static_cast<uint8_t>(i);
  }
  table['-'] = table['+'];
  table['_'] = table['/'];
  table['='] = kPadding;
  for (const char c : std::string_view(" \t\n\f\r")) {
    table[static_cast<unsigned char>(c)] = kBlank;
  }
  return table;
}

constexpr std::array<uint8_t, 256> kTable = make_table();

uint32_t look_up(char c) { return kTable[static_cast<unsigned char>(c)]; }

Refusal refuse_character(size_t position) {
  return {Fault::corrupt, str_cat("the character at byte ", position,
                                  " of the base64 text (counted from 0) is not in its alphabet; "
                                  "encode the picture again")};
}

Refusal refuse_padding(size_t position) {
  return {Fault::corrupt,
          str_cat("the padding at byte ", position,
                  " of the base64 text (counted from 0) is not at its end or is too "
                  "long; encode the picture again")};
}

Refusal refuse_size(int64_t max_bytes) {
  return {Fault::too_large,
          str_cat("the base64 text holds more than ", max_bytes, " bytes; send a smaller picture")};
}

class Decoder {
 public:
  Decoder(std::string_view text, std::vector<std::byte>& out) : text_(text), out_(out) {}

  // The refusal, or nothing; then `out` has its final size.
  std::optional<Refusal> run(int64_t max_bytes) {
    while (position_ < text_.size()) {
      skip_blanks();
      take_whole_groups();
      if (position_ == text_.size()) {
        break;
      }
      const uint32_t value = look_up(text_[position_]);
      if (value == kBad) {
        return refuse_character(position_);
      }
      if (value == kPadding) {
        break;
      }
      if (value != kBlank) {
        if (!take(value)) {
          return refuse_size(max_bytes);
        }
        ++position_;
      }
    }
    return finish(max_bytes);
  }

 private:
  void skip_blanks() {
    while (position_ < text_.size() && look_up(text_[position_]) == kBlank) {
      ++position_;
    }
  }

  // Four characters to three bytes, as long as they are all in the alphabet and there is room.
  void take_whole_groups() {
    if (group_size_ != 0) {
      return;
    }
    while (text_.size() - position_ >= 4 && out_.size() - written_ >= 3) {
      const char* const in = text_.data() + position_;
      const uint32_t a = look_up(in[0]);
      const uint32_t b = look_up(in[1]);
      const uint32_t c = look_up(in[2]);
      const uint32_t d = look_up(in[3]);
      if (((a | b | c | d) & kNoSixBits) != 0) {
        return;
      }
      put((a << 18U) | (b << 12U) | (c << 6U) | d, 3);
      position_ += 4;
    }
  }

  // False if there is no room for the group it completes.
  bool take(uint32_t six_bits) {
    group_ = (group_ << 6U) | six_bits;
    if (++group_size_ < 4) {
      return true;
    }
    if (out_.size() - written_ < 3) {
      return false;
    }
    put(group_, 3);
    group_ = 0;
    group_size_ = 0;
    return true;
  }

  // The first `count` of the three bytes in `bits`.
  void put(uint32_t bits, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      out_[written_ + i] = static_cast<std::byte>(bits >> (16U - 8U * i));
    }
    written_ += count;
  }

  std::optional<Refusal> finish(int64_t max_bytes) {
    if (group_size_ == 1) {
      return Refusal{Fault::truncated,
                     "the base64 text ends inside a byte: its last group has one character; send "
                     "all of it"};
    }
    size_t padding = group_size_ == 0 ? 0 : 4 - group_size_;
    for (; position_ < text_.size(); ++position_) {
      const uint32_t value = look_up(text_[position_]);
      if (value == kBad) {
        return refuse_character(position_);
      }
      if (value == kBlank) {
        continue;
      }
      if (value != kPadding || padding == 0) {
        return refuse_padding(position_);
      }
      --padding;
    }
    if (group_size_ != 0) {
      const size_t count = group_size_ - 1;
      if (out_.size() - written_ < count) {
        return refuse_size(max_bytes);
      }
      put(group_ << (6U * (4 - group_size_)), count);
    }
    out_.resize(written_);
    return std::nullopt;
  }

  std::string_view text_;
  std::vector<std::byte>& out_;
  size_t position_ = 0;
  size_t written_ = 0;
  uint32_t group_ = 0;
  size_t group_size_ = 0;  // characters of the group that is not whole yet
};

}  // namespace

std::variant<std::vector<std::byte>, Refusal> decode_base64(std::string_view text,
                                                            int64_t max_bytes) {
  const int64_t most = static_cast<int64_t>(text.size()) / 4 * 3 + 3;
  std::vector<std::byte> out;
  try {
    out.resize(static_cast<size_t>(std::clamp<int64_t>(max_bytes, 0, most)));
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::out_of_memory,
                str_cat("no memory for a picture of ", text.size(), " base64 characters"));
  }
  if (std::optional<Refusal> refusal = Decoder(text, out).run(max_bytes)) {
    return *std::move(refusal);
  }
  if (out.empty()) {
    return Refusal{Fault::empty, "the base64 text is empty; send a picture"};
  }
  return out;
}

}  // namespace tessera::intake
