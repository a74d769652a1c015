#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/pre_tokenizer.h"

#include <pcre2.h>

#include <algorithm>
#include <limits>
#include <span>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "tokenizer/pattern.h"
#include "tokenizer/symbol_map.h"
#include "tokenizer/utf8.h"

namespace tessera {
namespace {

// Patterns that need more are hostile: those of published tokenizers take a few steps per
// character.
constexpr uint64_t kStepsPerCharacter = 100;
constexpr uint64_t kLeastSteps = 1'000'000;
constexpr size_t kFirstStackBytes = 32 * 1024;
constexpr size_t kLargestStackBytes = 32 * 1024 * 1024;

struct Free {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
  void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

std::string error_text(int code) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(code, text, sizeof(text));
  return std::string(reinterpret_cast<const char*>(text));
}

template <typename T>
T* checked(T* pointer) {
  if (pointer == nullptr) {
    throw Error(ErrorCode::out_of_memory, "no memory to split text into pieces");
  }
  return pointer;
}

// The pattern over symbols: sets as byte classes. Symbol 0 never occurs, so it is the empty set.
std::string over_symbols(const std::vector<PatternPart>& parts, const SymbolMap& map) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string result;
  for (const PatternPart& part : parts) {
    if (part.set < 0) {
      result += part.syntax;
      continue;
    }
    result += "[";
    std::vector<uint8_t> symbols = map.symbols(static_cast<size_t>(part.set));
    if (symbols.empty()) {
      symbols.push_back(0);
    }
    for (const uint8_t symbol : symbols) {
      result += "\\x";
      result += kDigits[symbol >> 4];
      result += kDigits[symbol & 15U];
    }
    result += "]";
  }
  return result;
}

Owned<pcre2_code> compile(const std::string& pattern, const SplitRule& rule) {
  int code = 0;
  PCRE2_SIZE offset = 0;
  Owned<pcre2_code> compiled(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()),
                                           pattern.size(), PCRE2_DOTALL, &code, &offset, nullptr));
  if (compiled == nullptr) {
    throw Error(ErrorCode::bad_file,
                str_cat(rule.where, ": pattern ", quoted(rule.pattern), ": ", error_text(code),
                        "; this tokenizer is not supported"));
  }
  uint32_t may_be_empty = 0;
  pcre2_pattern_info(compiled.get(), PCRE2_INFO_MATCHEMPTY, &may_be_empty);
  if (may_be_empty != 0) {
    throw Error(ErrorCode::bad_file,
                str_cat(rule.where, ": pattern ", quoted(rule.pattern),
                        " can match empty text; this tokenizer is not supported"));
  }
  // Without JIT (no executable memory) the same matches come from the interpreter.
  pcre2_jit_compile(compiled.get(), PCRE2_JIT_COMPLETE);
  return compiled;
}

// One call of split(): match buffers, and the pieces in symbols.
class Splitter {
 public:
  Splitter(std::span<const Owned<pcre2_code>> rules, std::span<const uint8_t> symbols,
           std::vector<uint32_t>& ends)
      : rules_(rules),
        symbols_(symbols),
        ends_(ends),
        context_(pcre2_match_context_create(nullptr)) {
    checked(context_.get());
    stack_.reset(checked(pcre2_jit_stack_create(kFirstStackBytes, kLargestStackBytes, nullptr)));
    pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
    const uint64_t steps = std::max<uint64_t>(kLeastSteps, kStepsPerCharacter * symbols.size());
    pcre2_set_match_limit(context_.get(), static_cast<uint32_t>(std::min<uint64_t>(
                                              steps, std::numeric_limits<uint32_t>::max())));
    for (size_t i = 0; i < rules.size(); ++i) {
      matches_.emplace_back(checked(pcre2_match_data_create(1, nullptr)));
    }
  }

  // The symbols [begin, end) as pieces of rule `level` and the ones after it.
  void split(size_t level, size_t begin, size_t end) {
    if (level == rules_.size()) {
      ends_.push_back(static_cast<uint32_t>(end));
      return;
    }
    size_t at = begin;
    while (at < end) {
      const auto [first, last] = find(level, begin, at, end);
      if (first > at) {
        split(level + 1, at, first);
      }
      if (last > first) {
        split(level + 1, first, last);
      }
      at = last;
    }
  }

 private:
  struct Match {
    size_t first;
    size_t last;
  };

  // The first match at or after `at` in the text [begin, end), or an empty one at its end.
  Match find(size_t level, size_t begin, size_t at, size_t end) {
    pcre2_match_data* data = matches_[level].get();
    const int code = pcre2_match(rules_[level].get(), symbols_.data() + begin, end - begin,
                                 at - begin, PCRE2_NOTEMPTY, data, context_.get());
    if (code == PCRE2_ERROR_NOMATCH) {
      return {end, end};
    }
    if (code < 0) {
      throw Error(ErrorCode::bad_request,
                  str_cat("cannot split a text of ", symbols_.size(),
                          " characters into pieces: ", error_text(code), "; shorten the text"));
    }
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data);
    return {begin + range[0], begin + range[1]};
  }

  std::span<const Owned<pcre2_code>> rules_;
  std::span<const uint8_t> symbols_;
  std::vector<uint32_t>& ends_;
  Owned<pcre2_match_context> context_;
  Owned<pcre2_jit_stack> stack_;
  std::vector<Owned<pcre2_match_data>> matches_;
};

// Turns ends counted in characters into ends counted in bytes.
void to_bytes(std::string_view text, std::span<uint32_t> ends) {
  size_t byte = 0;
  uint32_t character = 0;
  for (uint32_t& end : ends) {
    for (; character < end; ++character) {
      byte += static_cast<size_t>(utf8_length(static_cast<unsigned char>(text[byte])));
    }
    end = static_cast<uint32_t>(byte);
  }
}

}  // namespace

struct PreTokenizer::State {
  SymbolMap map;
  std::vector<Owned<pcre2_code>> rules;
};

PreTokenizer::PreTokenizer(const std::vector<SplitRule>& rules, std::string_view where) {
  std::vector<CodePointSet> sets;
  std::vector<std::vector<PatternPart>> parts;
  for (const SplitRule& rule : rules) {
    parts.push_back(rule.is_regex ? parse_pattern(rule.pattern, rule.where, sets)
                                  : parse_literal(rule.pattern, sets));
  }
  auto state = std::make_unique<State>(State{SymbolMap(sets, where), {}});
  for (size_t i = 0; i < rules.size(); ++i) {
    state->rules.push_back(compile(over_symbols(parts[i], state->map), rules[i]));
  }
  state_ = std::move(state);
}

PreTokenizer::~PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;

void PreTokenizer::split(std::string_view text, std::vector<uint32_t>& ends) const {
  if (text.empty()) {
    return;
  }
  std::vector<uint8_t> symbols;
  state_->map.translate(text, symbols);
  const size_t before = ends.size();
  Splitter(state_->rules, symbols, ends).split(0, 0, symbols.size());
  if (symbols.size() != text.size()) {
    to_bytes(text, std::span(ends).subspan(before));
  }
}

}  // namespace tessera
