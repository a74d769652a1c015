// Code points as one-byte symbols. Two code points share a symbol when no set of a tokenizer's
// patterns tells them apart, so a pattern over text becomes an equal pattern over symbols: a class
// of 700 ranges turns into a bitmap test, and the regular-expression library needs no Unicode.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/unicode.h"

namespace tessera {

class SymbolMap {
 public:
  // Throws Error{bad_file} naming `where` when the sets tell more than 254 kinds apart.
  SymbolMap(const std::vector<CodePointSet>& sets, std::string_view where);

  // The symbols of the code points in sets[set]. Symbols are 1..255; 0 stands for no code point.
  const std::vector<uint8_t>& symbols(size_t set) const { return set_symbols_[set]; }

  uint8_t symbol(uint32_t code_point) const {
    return blocks_[block_of_[code_point >> 8]][code_point & 255U];
  }

  // One symbol per code point of `text`, which is valid UTF-8.
  void translate(std::string_view text, std::vector<uint8_t>& symbols) const;

 private:
  using Block = std::array<uint8_t, 256>;
  // Code points of one symbol, up to the next stretch.
  struct Stretch {
    uint32_t first;
    uint8_t symbol;
  };

  void fill_blocks(const std::vector<Stretch>& stretches);

  std::vector<std::vector<uint8_t>> set_symbols_;
  std::vector<uint16_t> block_of_;  // [kCodePoints / 256]
  std::vector<Block> blocks_;
};

}  // namespace tessera
