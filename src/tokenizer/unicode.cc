#include "tokenizer/unicode.h"

#include <algorithm>
#include <array>

namespace tessera {
namespace {

constexpr std::array<std::string_view, 30> kCategoryNames = {
    "Cc", "Cf", "Cn", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl",
    "No", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"};

bool has_name(uint32_t category, std::string_view name) {
  return name.size() == 1 ? kCategoryNames[category][0] == name[0]
                          : kCategoryNames[category] == name;
}

}  // namespace

CodePointSet::CodePointSet(std::vector<CodePointRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const CodePointRange& range : ranges) {
    if (!ranges_.empty() && range.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    } else {
      ranges_.push_back(range);
    }
  }
}

bool CodePointSet::contains(uint32_t code_point) const {
  const auto after =
      std::upper_bound(ranges_.begin(), ranges_.end(), code_point,
                       [](uint32_t value, const CodePointRange& r) { return value < r.first; });
  return after != ranges_.begin() && code_point <= std::prev(after)->last;
}

CodePointSet CodePointSet::complement() const {
  CodePointSet result;
  uint32_t next = 0;
  for (const CodePointRange& range : ranges_) {
    if (range.first > next) {
      result.ranges_.push_back({next, range.first - 1});
    }
    next = range.last + 1;
  }
  if (next < kCodePoints) {
    result.ranges_.push_back({next, kCodePoints - 1});
  }
  return result;
}

std::optional<CodePointSet> category_set(std::string_view name) {
  const bool is_known =
      (name.size() == 1 || name.size() == 2) &&
      std::any_of(kCategoryNames.begin(), kCategoryNames.end(), [&](std::string_view known) {
        return name.size() == 1 ? known[0] == name[0] : known == name;
      });
  if (!is_known) {
    return std::nullopt;
  }
  const std::span<const uint32_t> table = unicode_category_ranges();
  std::vector<CodePointRange> ranges;
  for (size_t i = 0; i < table.size(); ++i) {
    if (has_name(table[i] & 31U, name)) {
      const uint32_t end = i + 1 < table.size() ? table[i + 1] >> 5 : kCodePoints;
      ranges.push_back({table[i] >> 5, end - 1});
    }
  }
  return CodePointSet(std::move(ranges));
}

const CodePointSet& white_space_set() {
  // PropList.txt, White_Space.
  static const CodePointSet set({{0x9, 0xd},
                                 {0x20, 0x20},
                                 {0x85, 0x85},
                                 {0xa0, 0xa0},
                                 {0x1680, 0x1680},
                                 {0x2000, 0x200a},
                                 {0x2028, 0x2029},
                                 {0x202f, 0x202f},
                                 {0x205f, 0x205f},
                                 {0x3000, 0x3000}});
  return set;
}

}  // namespace tessera
