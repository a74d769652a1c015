// Tap name patterns: `*` any run of characters (dots too), `?` one byte, alternatives separated by
// ','. Bytes are compared as they are, without a locale.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::trace {

class Globs {
 public:
  // "*.ffn.gate.topk,*.indexer.topk". Throws Error{bad_request} if no alternative is left.
  explicit Globs(std::string_view alternatives);

  bool matches(std::string_view name) const;

 private:
  std::vector<std::string> patterns_;
};

// One pattern without ','.
bool glob_matches(std::string_view pattern, std::string_view name);

}  // namespace tessera::trace
