// Finds the spellings of added tokens in text: the leftmost one, the longest among those that begin
// at the same place.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

class AddedTokenMatcher {
 public:
  struct Match {
    size_t begin;  // bytes
    size_t end;
    int32_t id;
  };

  // Spellings are not empty and distinct.
  explicit AddedTokenMatcher(std::vector<std::pair<std::string, int32_t>> spellings);

  // The first match that begins at or after `from`.
  std::optional<Match> find(std::string_view text, size_t from) const;

 private:
  std::optional<Match> longest_at(std::string_view text, size_t begin) const;

  std::vector<std::pair<std::string, int32_t>> spellings_;  // sorted
  std::array<bool, 256> begins_spelling_{};                 // by byte
};

}  // namespace tessera
