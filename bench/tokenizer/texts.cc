#include "tokenizer/texts.h"

#include <algorithm>
#include <random>
#include <string_view>

#include "base/str_cat.h"
#include "tokenizer/utf8.h"
#include "tokenizer/word_lists.h"

namespace tessera::bench {
namespace {

// Draws that do not depend on the standard library: its distributions do.
class Dice {
 public:
  explicit Dice(uint32_t seed) : random_(seed) {}
  size_t below(size_t n) { return random_() % n; }
  size_t between(size_t low, size_t high) { return low + below(high - low + 1); }
  bool in_hundred(size_t percent) { return below(100) < percent; }

 private:
  std::mt19937 random_;
};

std::vector<std::string> words_of(std::string_view list) {
  std::vector<std::string> words;
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    words.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return words;
}

// Words by rank, drawn with weight 1 / (rank + 2.7).
class ZipfWords {
 public:
  explicit ZipfWords(std::vector<std::string> words) : words_(std::move(words)) {
    uint64_t total = 0;
    for (size_t rank = 1; rank <= words_.size(); ++rank) {
      total += uint64_t{100'000'000} / (10 * rank + 27);
      ends_.push_back(total);
    }
  }
  const std::string& draw(Dice& dice) const {
    const uint64_t at = dice.below(ends_.back());
    return words_[static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), at) -
                                      ends_.begin())];
  }

 private:
  std::vector<std::string> words_;
  std::vector<uint64_t> ends_;  // sums of weights
};

void shuffle_from(std::vector<std::string>& words, size_t first, Dice& dice) {
  for (size_t i = words.size(); i > first + 1; --i) {
    std::swap(words[i - 1], words[first + dice.below(i - first)]);
  }
}

ZipfWords english() {
  Dice dice(1);
  std::vector<std::string> words = words_of(english_words());
  const size_t known = words.size();
  for (const std::string& stem : words_of(english_stems())) {
    for (const char* end : {"ing", "ed", "er", "es", "able", "ation", "ment", "ly", "ful"}) {
      words.push_back(stem + end);
    }
  }
  shuffle_from(words, known, dice);
  return ZipfWords(std::move(words));
}

ZipfWords chinese() {
  Dice dice(2);
  std::vector<std::string> words = words_of(chinese_words());
  const std::vector<std::string> letters = words_of(chinese_letters());
  for (int i = 0; i < 1000; ++i) {
    words.push_back(letters[dice.below(letters.size())] + letters[dice.below(letters.size())]);
  }
  return ZipfWords(std::move(words));
}

std::string capital(std::string word) {
  word[0] = static_cast<char>(word[0] - 'a' + 'A');
  return word;
}

std::string invented_name(Dice& dice) {
  constexpr std::string_view kConsonants = "bdfghklmnprstvwz";
  constexpr std::string_view kVowels = "aeiou";
  std::string name;
  for (size_t i = dice.between(2, 4); i > 0; --i) {
    name += kConsonants[dice.below(kConsonants.size())];
    name += kVowels[dice.below(kVowels.size())];
  }
  return capital(name);
}

void add_english_sentence(std::string& text, const ZipfWords& words, Dice& dice) {
  const size_t count = dice.between(4, 25);
  const bool is_speech = dice.in_hundred(8);
  text += is_speech ? "\"" : "";
  for (size_t i = 0; i < count; ++i) {
    std::string word = dice.in_hundred(2)   ? invented_name(dice)
                       : dice.in_hundred(1) ? str_cat(dice.between(1, 2100))
                                            : words.draw(dice);
    if (i == 0 && word[0] >= 'a') {
      word = capital(word);
    }
    if (dice.in_hundred(1)) {
      word += "'s";
    }
    text += word;
    text += i + 1 == count ? "" : dice.in_hundred(8) ? ", " : dice.in_hundred(1) ? "; " : " ";
  }
  text += dice.in_hundred(90) ? "." : dice.in_hundred(70) ? "?" : "!";
  text += is_speech ? "\"" : "";
  text += dice.in_hundred(15) ? "\n\n" : " ";
}

void add_chinese_sentence(std::string& text, const ZipfWords& words, Dice& dice) {
  for (size_t clauses = dice.between(1, 4); clauses > 0; --clauses) {
    for (size_t i = dice.between(2, 11); i > 0; --i) {
      if (dice.in_hundred(1)) {
        text += str_cat(dice.between(1, 2100), dice.in_hundred(50) ? "年" : "个");
      } else if (dice.below(500) == 0) {
        text += invented_name(dice);
      } else {
        text += words.draw(dice);
      }
    }
    text += clauses > 1 ? (dice.in_hundred(85) ? "，" : "、") : dice.in_hundred(90) ? "。" : "？";
  }
  text += dice.in_hundred(15) ? "\n" : "";
}

std::string identifier(const ZipfWords& words, Dice& dice) {
  std::string name = words.draw(dice);
  for (size_t more = dice.below(3); more > 0; --more) {
    name += "_" + words.draw(dice);
  }
  return name;
}

void add_code_line(std::string& text, const ZipfWords& words, const ZipfWords& prose, Dice& dice,
                   size_t& depth) {
  const auto name = [&] { return identifier(words, dice); };
  const auto indent = [&] { text.append(2 * depth, ' '); };
  indent();
  switch (dice.below(8)) {
    case 0:
      text += str_cat("if (", name(), " != ", name(), ") {\n");
      ++depth;
      break;
    case 1:
      text += str_cat("for (int i = 0; i < ", name(), ".size(); ++i) {\n");
      ++depth;
      break;
    case 2:
      text += str_cat("// ", capital(prose.draw(dice)), " ", prose.draw(dice), " ",
                      prose.draw(dice), " ", prose.draw(dice), ".\n");
      break;
    case 3:
      text += str_cat("return ", name(), "(", name(), ", ", dice.below(1000), ");\n");
      break;
    case 4:
      text += str_cat("const auto& ", name(), " = ", name(), "->", name(), "[i];\n");
      break;
    default:
      text += str_cat(name(), ".", name(), "(\"", prose.draw(dice), "\", ", name(), " + 1);\n");
  }
  while (depth > 0 && (depth > 5 || dice.in_hundred(25))) {
    --depth;
    indent();
    text += "}\n";
  }
}

template <typename Add>
std::string grow(size_t bytes, const Add& add) {
  std::string text;
  text.reserve(bytes + 4096);
  while (text.size() < bytes) {
    add(text);
  }
  return text;
}

void add_mixed_paragraph(std::string& text, const ZipfWords& latin, const ZipfWords& han,
                         const ZipfWords& code, Dice& dice) {
  size_t depth = 0;
  switch (dice.below(6)) {
    case 0:
      text += str_cat("## ", capital(latin.draw(dice)), "\n\n- **", latin.draw(dice), "**: ");
      return add_english_sentence(text, latin, dice);
    case 1:
    case 2:
      return add_chinese_sentence(text, han, dice);
    case 3:
      text += "```\n";
      for (int i = 0; i < 4; ++i) {
        add_code_line(text, code, latin, dice, depth);
      }
      text += "```\n";
      return;
    case 4: {
      constexpr std::string_view kOthers[] = {
          "🙂",         "👩‍💻🎉", "naïve café, über süß; ", "Привет, как дела? ",
          "안녕하세요. ", "مرحبا بك ",       "ありがとうございます。", "x² + y² ≥ 0 → ∞ "};
      text += kOthers[dice.below(std::size(kOthers))];
      return;
    }
    default:
      return add_english_sentence(text, latin, dice);
  }
}

std::string noise(size_t bytes) {
  Dice dice(9);
  std::string random;
  while (random.size() < bytes) {
    random.push_back(static_cast<char>(dice.below(256)));
  }
  return replace_invalid_utf8(random);
}

}  // namespace

std::vector<BenchText> make_bench_texts(size_t bytes) {
  const ZipfWords latin = english();
  const ZipfWords han = chinese();
  const ZipfWords code(words_of(code_words()));
  const std::vector<std::string> letters = words_of(chinese_letters());
  Dice dice(3);
  size_t depth = 0;
  std::vector<BenchText> texts;
  const auto add = [&](std::string name, const auto& add_more) {
    texts.push_back({std::move(name), grow(bytes, add_more)});
  };
  add("english", [&](std::string& text) { add_english_sentence(text, latin, dice); });
  add("chinese", [&](std::string& text) { add_chinese_sentence(text, han, dice); });
  add("code", [&](std::string& text) { add_code_line(text, code, latin, dice, depth); });
  add("mixed", [&](std::string& text) { add_mixed_paragraph(text, latin, han, code, dice); });
  add("letter", [&](std::string& text) { text += 'a'; });
  add("spaces", [&](std::string& text) { text += ' '; });
  add("digits", [&](std::string& text) { text += static_cast<char>('0' + dice.below(10)); });
  add("cjk", [&](std::string& text) { text += letters[dice.below(letters.size())]; });
  texts.push_back({"noise", noise(bytes)});
  return texts;
}

}  // namespace tessera::bench
