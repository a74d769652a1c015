// Cuts text into the pieces inside which byte pairs are merged: a sequence of patterns, each
// applied to the pieces of the one before; matches and the gaps between them become pieces.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct SplitRule {
  std::string pattern;
  bool is_regex = true;
  std::string where;  // names the rule in messages
};

// Const and safe to use from several threads.
class PreTokenizer {
 public:
  // Throws Error{bad_file} for a pattern that is not supported (tokenizer/pattern.h), not valid, or
  // able to match nothing. No rules: the text is one piece.
  PreTokenizer(const std::vector<SplitRule>& rules, std::string_view where);
  ~PreTokenizer();
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;

  // Appends the end of every piece of `text`, in bytes; pieces are never empty. `text` is valid
  // UTF-8, shorter than 2 GiB. Throws Error{bad_request} when a pattern needs more than its budget
  // of steps (linear in the text) or memory: text is never split differently for its length.
  void split(std::string_view text, std::vector<uint32_t>& ends) const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

}  // namespace tessera
