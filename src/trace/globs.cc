#include "trace/globs.h"

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"

namespace tessera::trace {

Globs::Globs(std::string_view alternatives) {
  std::string_view rest = alternatives;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    if (comma > 0) {
      patterns_.emplace_back(rest.substr(0, comma));
    }
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  if (patterns_.empty()) {
    throw Error(ErrorCode::bad_request,
                str_cat("tap pattern '", alternatives,
                        "': expected at least one name or pattern, found none; use '*' for all"));
  }
}

bool Globs::matches(std::string_view name) const {
  return std::any_of(patterns_.begin(), patterns_.end(),
                     [&](const std::string& pattern) { return glob_matches(pattern, name); });
}

// After a mismatch only the last `*` needs to take one byte more: earlier ones never gain by it.
bool glob_matches(std::string_view pattern, std::string_view name) {
  size_t p = 0;
  size_t n = 0;
  size_t star = std::string_view::npos;  // position of the last `*`
  size_t star_end = 0;                   // end of what it takes so far
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_end = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++star_end;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') {
    ++p;
  }
  return p == pattern.size();
}

}  // namespace tessera::trace
