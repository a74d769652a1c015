// How far values may be apart: measured noise, per tap.
//
// A tolerance file is JSON: {"format": "tolerance/1", "rules": [{"taps": GLOBS, "rms": 1e-3,
// "row": 8e-3}, ...]}; the first rule whose globs match counts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "trace/globs.h"

namespace tessera::trace {

// Root mean squares of the difference relative to the reference's: of the whole tensor, and of the
// worst row.
struct Tolerance {
  double rms = 0;
  double row = 0;
};

class Tolerances {
 public:
  // What is allowed without any rule, by the number grid: rounding once more or less, and in fp32
  // another order of sums.
  static Tolerance of_grid(int mantissa_bits);

  Tolerances() = default;
  // Throws Error{bad_file}.
  Tolerances(const io::Json& json, std::string_view file);
  static Tolerances load(const std::string& path);

  Tolerance of(std::string_view tap, int mantissa_bits) const;
  bool empty() const { return rules_.empty(); }

 private:
  struct Rule {
    Globs taps;
    Tolerance tolerance;
  };
  std::vector<Rule> rules_;
};

}  // namespace tessera::trace
