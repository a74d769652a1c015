// Unicode 16 general categories and sets of code points. Committed as data (unicode_categories.cc),
// because the tables of installed libraries are older and split text differently.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tessera {

constexpr uint32_t kCodePoints = 0x110000;

// In the order of the table's category numbers. kCategoryNames has the two-letter names.
enum class Category : uint8_t {
  // clang-format off
  cc, cf, cn, co, cs, ll, lm, lo, lt, lu, mc, me, mn, nd, nl, no,
  pc, pd, pe, pf, pi, po, ps, sc, sk, sm, so, zl, zp, zs
  // clang-format on
};

// (first code point << 5) | category, ascending; an entry holds until the next one.
std::span<const uint32_t> unicode_category_ranges();

struct CodePointRange {
  uint32_t first;
  uint32_t last;  // inclusive
  friend bool operator==(const CodePointRange&, const CodePointRange&) = default;
};

// A set of code points as ascending ranges that neither touch nor overlap.
class CodePointSet {
 public:
  CodePointSet() = default;
  explicit CodePointSet(std::vector<CodePointRange> ranges);  // any order, may overlap

  const std::vector<CodePointRange>& ranges() const { return ranges_; }
  bool contains(uint32_t code_point) const;
  CodePointSet complement() const;
  friend bool operator==(const CodePointSet&, const CodePointSet&) = default;

 private:
  std::vector<CodePointRange> ranges_;
};

// The code points of a general category ("Lu") or of a group of them ("L"); nothing for a name
// that is neither. "C" includes unassigned and surrogate code points.
std::optional<CodePointSet> category_set(std::string_view name);

// The property White_Space: 25 code points.
const CodePointSet& white_space_set();

}  // namespace tessera
