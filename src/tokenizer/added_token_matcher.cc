#include "tokenizer/added_token_matcher.h"

#include <algorithm>

namespace tessera {

AddedTokenMatcher::AddedTokenMatcher(std::vector<std::pair<std::string, int32_t>> spellings)
    : spellings_(std::move(spellings)) {
  std::sort(spellings_.begin(), spellings_.end());
  for (const auto& [spelling, id] : spellings_) {
    begins_spelling_[static_cast<unsigned char>(spelling[0])] = true;
  }
}

std::optional<AddedTokenMatcher::Match> AddedTokenMatcher::longest_at(std::string_view text,
                                                                      size_t begin) const {
  std::optional<Match> longest;
  auto first = spellings_.begin();
  auto last = spellings_.end();
  // Narrows [first, last) to the spellings that share one more byte with the text each time.
  for (size_t depth = 0; begin + depth < text.size() && first != last; ++depth) {
    const unsigned char byte = static_cast<unsigned char>(text[begin + depth]);
    const auto at_depth = [depth](const auto& entry) {
      return depth < entry.first.size()
                 ? static_cast<int>(static_cast<unsigned char>(entry.first[depth]))
                 : -1;
    };
    first = std::partition_point(first, last,
                                 [&](const auto& entry) { return at_depth(entry) < byte; });
    last = std::partition_point(first, last,
                                [&](const auto& entry) { return at_depth(entry) <= byte; });
    if (first != last && first->first.size() == depth + 1) {
      longest = Match{begin, begin + depth + 1, first->second};
    }
  }
  return longest;
}

std::optional<AddedTokenMatcher::Match> AddedTokenMatcher::find(std::string_view text,
                                                                size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (begins_spelling_[static_cast<unsigned char>(text[begin])]) {
      if (const std::optional<Match> match = longest_at(text, begin)) {
        return match;
      }
    }
  }
  return std::nullopt;
}

}  // namespace tessera
