#include "trace/tolerance.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/str_cat.h"

namespace tessera::trace {
namespace {

double positive(const io::Json& rule, std::string_view key, const std::string& where) {
  const io::Json* value = rule.find(key);
  const double number = value == nullptr ? -1 : value->as_double().value_or(-1);
  if (!(number >= 0)) {
    throw Error(ErrorCode::bad_file, str_cat(where, ": '", key, "' must be a number from 0 on"));
  }
  return number;
}

}  // namespace

// A value rounded to the neighbouring grid number is off by a step, 2^-bits of its size. In fp32
// the order of a sum of thousands of terms matters more: 64 steps.
Tolerance Tolerances::of_grid(int mantissa_bits) {
  constexpr int kMostBits = 17;
  const double step = std::ldexp(1.0, -std::min(mantissa_bits, kMostBits));
  return {.rms = step, .row = 8 * step};
}

Tolerances::Tolerances(const io::Json& json, std::string_view file) {
  const io::Json* format = json.find("format");
  const io::Json* rules = json.find("rules");
  if (format == nullptr || format->text() != "tolerance/1" || rules == nullptr ||
      !rules->is_array()) {
    throw Error(ErrorCode::bad_file,
                str_cat(file,
                        ": expected a tolerance file, an object with \"format\": "
                        "\"tolerance/1\" and a list of rules"));
  }
  for (size_t i = 0; i < rules->items().size(); ++i) {
    const io::Json& rule = rules->items()[i];
    const std::string where = str_cat(file, ": rules[", i, "]");
    const io::Json* taps = rule.find("taps");
    if (taps == nullptr || !taps->is_string() || taps->text().empty()) {
      throw Error(ErrorCode::bad_file, str_cat(where, ": 'taps' must be globs"));
    }
    rules_.push_back(
        {Globs(taps->text()), {positive(rule, "rms", where), positive(rule, "row", where)}});
  }
}

Tolerances Tolerances::load(const std::string& path) { return {io::read_json_file(path), path}; }

Tolerance Tolerances::of(std::string_view tap, int mantissa_bits) const {
  for (const Rule& rule : rules_) {
    if (rule.taps.matches(tap)) {
      return rule.tolerance;
    }
  }
  return of_grid(mantissa_bits);
}

}  // namespace tessera::trace
