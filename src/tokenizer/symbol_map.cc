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
  std::vector<Stretch> stretches;
  std::map<std::vector<bool>, uint8_t> known;
  std::vector<bool> membership(sets.size());
  for (const uint32_t start : borders(sets)) {
    for (size_t set = 0; set < sets.size(); ++set) {
      membership[set] = sets[set].contains(start);
    }
    if (known.size() == 254 && known.find(membership) == known.end()) {
      throw Error(ErrorCode::bad_file,
                  str_cat(where,
                          ": the patterns tell more than 254 kinds of characters apart; "
                          "this tokenizer is not supported"));
    }
    const auto [entry, is_new] =
        known.try_emplace(membership, static_cast<uint8_t>(known.size() + 1));
    for (size_t set = 0; is_new && set < sets.size(); ++set) {
      if (membership[set]) {
        set_symbols_[set].push_back(entry->second);
      }
    }
    stretches.push_back({start, entry->second});
  }
  stretches.push_back({kCodePoints, 0});
  fill_blocks(stretches);
}

// Blocks inside one stretch are shared.
void SymbolMap::fill_blocks(const std::vector<Stretch>& stretches) {
  constexpr uint16_t kNone = UINT16_MAX;
  std::array<uint16_t, 256> uniform;
  uniform.fill(kNone);
  size_t at = 0;  // the stretch that holds the block's first code point
  for (uint32_t first = 0; first < kCodePoints; first += 256) {
    while (stretches[at + 1].first <= first) {
      ++at;
    }
    const uint8_t symbol = stretches[at].symbol;
    const bool is_uniform = stretches[at + 1].first >= first + 256;
    if (is_uniform && uniform[symbol] != kNone) {
      block_of_.push_back(uniform[symbol]);
      continue;
    }
    if (is_uniform) {
      uniform[symbol] = static_cast<uint16_t>(blocks_.size());
    }
    block_of_.push_back(static_cast<uint16_t>(blocks_.size()));
    Block& block = blocks_.emplace_back();
    size_t stretch = at;
    for (uint32_t i = 0; i < 256; ++i) {
      stretch += stretches[stretch + 1].first <= first + i ? size_t{1} : size_t{0};
      block[i] = stretches[stretch].symbol;
    }
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
