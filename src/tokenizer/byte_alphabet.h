// The byte alphabet of byte-level tokenizers (GPT-2): vocabulary strings spell each byte as one
// printable character. Printable Latin-1 bytes stand for themselves, the other 68 are U+0100...
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// byte -> code point
const std::array<uint16_t, 256>& byte_alphabet();

// Appends the bytes that a vocabulary string spells. False, and nothing appended, when a character
// is not of the alphabet. `text` is valid UTF-8.
bool append_bytes_of_alphabet(std::string_view text, std::string& bytes);

}  // namespace tessera
