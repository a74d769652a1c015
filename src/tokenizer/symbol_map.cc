#include "tokenizer/symbol_map.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/str_cat.h"
#include "tokenizer/utf8.h"

namespace tessera {
namespace {

// The first code points of the stretches in which no set changes.
std::vector<uint32_t> borders(const std::vector<CodePointSet>& sets) {
  std::vector<uint32_t> result = {0};
  for (const CodePointSet& set : sets) {
    for (const CodePointRange& range : set.ranges()) {
      result.push_back(range.first);
      result.push_back(range.last + 1);
    }
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  if (result.back() == kCodePoints) {
    result.pop_back();
  }
  return result;
}

}  // namespace

SymbolMap::SymbolMap(const std::vector<CodePointSet>& sets, std::string_view where)
    : set_symbols_(sets.size()) {
  const std::vector<uint32_t> starts = borders(sets);
  std::vector<uint8_t> of_code_point(kCodePoints);
  std::map<std::vector<bool>, uint8_t> known;
  std::vector<bool> membership(sets.size());
  for (size_t i = 0; i < starts.size(); ++i) {
    for (size_t set = 0; set < sets.size(); ++set) {
      membership[set] = sets[set].contains(starts[i]);
    }
    if (known.size() == 254 && known.find(membership) == known.end()) {
      throw Error(ErrorCode::bad_file,
                  str_cat(where,
                          ": the patterns tell more than 254 kinds of characters apart; "
                          "this tokenizer is not supported"));
    }
    const auto [entry, is_new] =
        known.try_emplace(membership, static_cast<uint8_t>(known.size() + 1));
    if (is_new) {
      for (size_t set = 0; set < sets.size(); ++set) {
        if (membership[set]) {
          set_symbols_[set].push_back(entry->second);
        }
      }
    }
    const uint32_t end = i + 1 < starts.size() ? starts[i + 1] : kCodePoints;
    std::fill(of_code_point.begin() + starts[i], of_code_point.begin() + end, entry->second);
  }

  std::map<Block, uint16_t> distinct;
  block_of_.resize(kCodePoints / 256);
  for (size_t block = 0; block < block_of_.size(); ++block) {
    Block symbols;
    std::copy_n(of_code_point.begin() + static_cast<std::ptrdiff_t>(block * 256), 256,
                symbols.begin());
    const auto [entry, is_new] =
        distinct.try_emplace(symbols, static_cast<uint16_t>(blocks_.size()));
    if (is_new) {
      blocks_.push_back(symbols);
    }
    block_of_[block] = entry->second;
  }
}

void SymbolMap::translate(std::string_view text, std::vector<uint8_t>& symbols) const {
  symbols.clear();
  symbols.reserve(text.size());
  const Block& ascii = blocks_[block_of_[0]];
  size_t at = 0;
  while (at < text.size()) {
    const unsigned char byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80) {
      symbols.push_back(ascii[byte]);
      ++at;
    } else {
      symbols.push_back(symbol(next_code_point(text, at)));
    }
  }
}

}  // namespace tessera
