#include "tokenizer/pattern.h"

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "tokenizer/utf8.h"

namespace tessera {
namespace {

int add_set(std::vector<CodePointSet>& sets, CodePointSet set) {
  const auto known = std::find(sets.begin(), sets.end(), set);
  if (known != sets.end()) {
    return static_cast<int>(known - sets.begin());
  }
  sets.push_back(std::move(set));
  return static_cast<int>(sets.size()) - 1;
}

CodePointSet single(uint32_t code_point) { return CodePointSet({{code_point, code_point}}); }

class PatternParser {
 public:
  PatternParser(std::string_view pattern, std::string_view where, std::vector<CodePointSet>& sets)
      : pattern_(pattern), where_(where), sets_(sets) {}

  std::vector<PatternPart> parse() {
    while (at_ < pattern_.size()) {
      parse_one();
    }
    if (!open_groups_.empty()) {
      fail("'(' without ')'");
    }
    return std::move(parts_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw Error(ErrorCode::bad_file,
                str_cat(where_, ": pattern ", quoted(pattern_), ": ", what, " at byte ", at_,
                        " is not supported; supported are literals, classes, \\p{general "
                        "category}, groups, lookaround, alternatives and quantifiers"));
  }

  bool skip(std::string_view expected) {
    if (pattern_.substr(at_, expected.size()) != expected) {
      return false;
    }
    at_ += expected.size();
    return true;
  }

  char peek() const { return at_ < pattern_.size() ? pattern_[at_] : '\0'; }

  void put_syntax(std::string_view text, bool is_quantifiable) {
    parts_.push_back({std::string(text), -1});
    is_quantifiable_ = is_quantifiable;
  }

  void put_set(CodePointSet set) {
    parts_.push_back({"", add_set(sets_, std::move(set))});
    is_quantifiable_ = true;
  }

  void parse_one() {
    switch (peek()) {
      case '(':
        return parse_group_start();
      case ')':
        return parse_group_end();
      case '|':
        ++at_;
        return put_syntax("|", false);
      case '*':
      case '+':
      case '?':
        return parse_quantifier(pattern_.substr(at_++, 1), true);
      case '{':
        return parse_interval();
      case '[':
        ++at_;
        return put_set(parse_class());
      case '.':
        ++at_;
        return put_set(single('\n').complement());
      case '^':
      case '$':
        fail("an anchor");
      case '\\':
        ++at_;
        return put_set(fold(parse_escape()));
      default:
        return put_set(fold(single(next_code_point(pattern_, at_))));
    }
  }

  void parse_group_start() {
    bool folds = folds_case();
    if (skip("(?:") || skip("(?i:")) {
      folds = folds || pattern_[at_ - 2] == 'i';
      put_syntax("(?:", false);
    } else if (skip("(?=") || skip("(?!") || skip("(?>")) {
      put_syntax(pattern_.substr(at_ - 3, 3), false);
    } else if (skip("(?<=") || skip("(?<!")) {
      put_syntax(pattern_.substr(at_ - 4, 4), false);
    } else if (pattern_.substr(at_, 2) == "(?" || pattern_.substr(at_, 2) == "(*") {
      fail("this kind of group");
    } else {
      ++at_;
      put_syntax("(?:", false);
    }
    open_groups_.push_back(folds);
    if (open_groups_.size() > kDeepest) {
      fail("a group this deep");
    }
  }

  void parse_group_end() {
    if (open_groups_.empty()) {
      fail("')' without '('");
    }
    open_groups_.pop_back();
    ++at_;
    put_syntax(")", true);
  }

  void parse_quantifier(std::string_view text, bool may_be_possessive) {
    if (!is_quantifiable_) {
      fail("a quantifier without something to repeat");
    }
    std::string quantifier(text);
    if (skip("?")) {
      quantifier += '?';
    } else if (peek() == '+') {
      if (!may_be_possessive) {
        fail("'+' after an interval");
      }
      ++at_;
      quantifier += '+';
    }
    put_syntax(quantifier, false);
  }

  void parse_interval() {
    const size_t end = pattern_.find('}', at_);
    if (end == std::string_view::npos) {
      fail("'{' without '}'");
    }
    const std::string_view inside = pattern_.substr(at_ + 1, end - at_ - 1);
    const size_t comma = inside.find(',');
    int low = 0;
    int high = 0;
    const bool has_low = parse_number(inside.substr(0, comma), low);
    const bool has_high = comma != std::string_view::npos && comma + 1 < inside.size();
    if (!has_low || low < 0 || low > kLongest ||
        (has_high &&
         (!parse_number(inside.substr(comma + 1), high) || high < low || high > kLongest))) {
      fail("this interval");
    }
    at_ = end + 1;
    parse_quantifier(str_cat('{', inside, '}'), false);
  }

  // After '[', up to and with the closing ']'.
  CodePointSet parse_class() {
    const bool is_negated = skip("^");
    std::vector<CodePointRange> ranges;
    bool is_first = true;
    while (peek() != ']' || is_first) {
      if (at_ >= pattern_.size()) {
        fail("'[' without ']'");
      }
      if (peek() == ']' || peek() == '[' || pattern_.substr(at_, 2) == "&&") {
        fail("an empty, nested or intersected class");
      }
      is_first = false;
      const CodePointSet low = parse_class_item();
      const bool is_range = peek() == '-' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']';
      if (is_range) {
        ++at_;
        ranges.push_back(class_range(low, parse_class_item()));
      } else {
        ranges.insert(ranges.end(), low.ranges().begin(), low.ranges().end());
      }
    }
    ++at_;
    const CodePointSet set = fold(CodePointSet(std::move(ranges)));
    return is_negated ? set.complement() : set;
  }

  CodePointSet parse_class_item() {
    if (peek() == '[') {
      fail("a nested class");
    }
    return skip("\\") ? parse_escape() : single(next_code_point(pattern_, at_));
  }

  CodePointRange class_range(const CodePointSet& low, const CodePointSet& high) const {
    const auto is_single = [](const CodePointSet& set) {
      return set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].last;
    };
    if (!is_single(low) || !is_single(high) || high.ranges()[0].first < low.ranges()[0].first) {
      fail("this range");
    }
    return {low.ranges()[0].first, high.ranges()[0].first};
  }

  // After the backslash.
  CodePointSet parse_escape() {
    if (at_ >= pattern_.size()) {
      fail("a backslash at the end");
    }
    const char c = pattern_[at_];
    const auto simple = [](char letter) -> int {
      constexpr std::string_view kLetters = "rntfv0";
      constexpr std::string_view kValues("\r\n\t\f\v\0", 6);
      const size_t index = kLetters.find(letter);
      return index == std::string_view::npos ? -1 : kValues[index];
    };
    if (simple(c) >= 0) {
      ++at_;
      if (c == '0' && peek() >= '0' && peek() <= '9') {
        fail("an octal escape");
      }
      return single(static_cast<uint32_t>(simple(c)));
    }
    switch (c) {
      case 'x':
      case 'u':
        return single(parse_hex());
      case 's':
      case 'S':
        ++at_;
        return c == 's' ? white_space_set() : white_space_set().complement();
      case 'd':
      case 'D':
        ++at_;
        return c == 'd' ? *category_set("Nd") : category_set("Nd")->complement();
      case 'p':
      case 'P':
        return parse_property();
      default:
        break;
    }
    const bool is_letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (is_letter || (c >= '0' && c <= '9') || static_cast<unsigned char>(c) >= 0x80) {
      fail(str_cat("the escape \\", is_letter ? std::string(1, c) : "of this character"));
    }
    ++at_;
    return single(static_cast<uint32_t>(c));
  }

  uint32_t parse_hex() {
    const bool is_braced = pattern_.substr(at_, 2) == "x{";
    const size_t digits = pattern_[at_] == 'u' ? 4 : 2;
    const size_t begin = at_ + (is_braced ? 2 : 1);
    const size_t end = is_braced ? pattern_.find('}', begin) : begin + digits;
    uint32_t value = 0;
    if (end == std::string_view::npos || end > pattern_.size() || end == begin) {
      fail("this hexadecimal escape");
    }
    const char* last = pattern_.data() + end;
    const auto result = std::from_chars(pattern_.data() + begin, last, value, 16);
    const bool is_surrogate = value >= 0xd800 && value <= 0xdfff;
    // Bytes of UTF-8 (\x80 and above) are not code points in this dialect.
    const bool is_byte = pattern_[at_] == 'x' && !is_braced && value >= 0x80;
    if (result.ec != std::errc() || result.ptr != last || value >= kCodePoints || is_surrogate ||
        is_byte) {
      fail("this hexadecimal escape");
    }
    at_ = end + (is_braced ? 1 : 0);
    return value;
  }

  CodePointSet parse_property() {
    bool is_negated = pattern_[at_] == 'P';
    const size_t end = pattern_.find('}', at_);
    if (pattern_.substr(at_ + 1, 1) != "{" || end == std::string_view::npos) {
      fail("a property without {}");
    }
    std::string_view name = pattern_.substr(at_ + 2, end - at_ - 2);
    if (name.starts_with('^')) {
      is_negated = !is_negated;
      name.remove_prefix(1);
    }
    const std::optional<CodePointSet> set = category_set(name);
    if (!set) {
      fail(str_cat("the property ", quoted(name)));
    }
    at_ = end + 1;
    return is_negated ? set->complement() : *set;
  }

  bool folds_case() const { return !open_groups_.empty() && open_groups_.back(); }

  // `set` with the other cases of its ASCII letters, inside (?i:...). U+017F and U+212A fold to s
  // and k.
  CodePointSet fold(CodePointSet set) const {
    if (!folds_case()) {
      return set;
    }
    if (!set.ranges().empty() && set.ranges().back().last >= 0x80) {
      fail("a character beyond ASCII inside (?i:");
    }
    std::vector<CodePointRange> ranges = set.ranges();
    for (uint32_t upper = 'A'; upper <= 'Z'; ++upper) {
      const uint32_t lower = upper + 32;
      if (set.contains(upper) || set.contains(lower)) {
        ranges.insert(ranges.end(), {{upper, upper}, {lower, lower}});
        if (upper == 'S' || upper == 'K') {
          const uint32_t other = upper == 'S' ? 0x17f : 0x212a;
          ranges.push_back({other, other});
        }
      }
    }
    return CodePointSet(std::move(ranges));
  }

  static constexpr int kLongest = 1000;   // of an interval
  static constexpr size_t kDeepest = 50;  // groups

  std::string_view pattern_;
  std::string_view where_;
  std::vector<CodePointSet>& sets_;
  std::vector<PatternPart> parts_;
  std::vector<bool> open_groups_;  // whether each folds case
  size_t at_ = 0;
  bool is_quantifiable_ = false;  // whether a quantifier may follow
};

}  // namespace

std::vector<PatternPart> parse_pattern(std::string_view pattern, std::string_view where,
                                       std::vector<CodePointSet>& sets) {
  return PatternParser(pattern, where, sets).parse();
}

std::vector<PatternPart> parse_literal(std::string_view text, std::vector<CodePointSet>& sets) {
  std::vector<PatternPart> parts;
  size_t at = 0;
  while (at < text.size()) {
    parts.push_back({"", add_set(sets, single(next_code_point(text, at)))});
  }
  return parts;
}

}  // namespace tessera
