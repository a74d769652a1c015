#include "tokenizer/utf8.h"

#include "base/text.h"

namespace tessera {
namespace {

// Bytes of the sequences at the start of `text` that are whole and well-formed.
size_t valid_prefix(std::string_view text) {
  size_t size = 0;
  while (const size_t sequence = utf8_sequence_bytes(text.substr(size))) {
    size += sequence;
  }
  return size;
}

}  // namespace

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  Utf8Decoder decoder;
  decoder.push(bytes, out);
  decoder.flush(out);
  return out;
}

int64_t count_code_points(std::string_view text) {
  int64_t count = 0;
  for (const char c : text) {
    count += (static_cast<unsigned char>(c) & 0xc0U) != 0x80 ? 1 : 0;
  }
  return count;
}

void append_utf8(std::string& out, uint32_t code_point) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xc0 | code_point >> 6);
    put(0x80 | (code_point & 0x3f));
  } else if (code_point < 0x10000) {
    put(0xe0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3f));
    put(0x80 | (code_point & 0x3f));
  } else {
    put(0xf0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3f));
    put(0x80 | (code_point >> 6 & 0x3f));
    put(0x80 | (code_point & 0x3f));
  }
}

void Utf8Decoder::start(unsigned char lead, std::string& out) {
  if (lead < 0x80) {
    out.push_back(static_cast<char>(lead));
    return;
  }
  if (lead < 0xc2 || lead > 0xf4) {
    out.append(kReplacementCharacter);
    return;
  }
  pending_[0] = lead;
  count_ = 1;
  needed_ = utf8_length(lead);
  lowest_ = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  highest_ = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
}

void Utf8Decoder::push(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    if (count_ == 0) {
      const size_t whole = valid_prefix(bytes);
      out.append(bytes.substr(0, whole));
      bytes.remove_prefix(whole);
      if (bytes.empty()) {
        return;
      }
    }
    const unsigned char byte = static_cast<unsigned char>(bytes[0]);
    bytes.remove_prefix(1);
    if (count_ == 0) {
      start(byte, out);
      continue;
    }
    if (byte < lowest_ || byte > highest_) {
      out.append(kReplacementCharacter);
      count_ = 0;
      start(byte, out);
      continue;
    }
    pending_[count_++] = byte;
    lowest_ = 0x80;
    highest_ = 0xbf;
    if (count_ == needed_) {
      for (int i = 0; i < count_; ++i) {
        out.push_back(static_cast<char>(pending_[i]));
      }
      count_ = 0;
    }
  }
}

void Utf8Decoder::flush(std::string& out) {
  if (count_ > 0) {
    out.append(kReplacementCharacter);
    count_ = 0;
  }
}

}  // namespace tessera
