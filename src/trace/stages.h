// What the taps of a model are, as data: order, kind, inputs, what a row is, and what goes wrong
// there. The comparison knows nothing else about a model.
//
// A stage map is a JSON file (share/stages): {"format": "stages/1", "name", "stages": [...]}. An
// entry is a stage
//   {"tap": "c{k}.layers.{l}.attn", "kind": "values", "grid": "bf16", "rows": "tokens",
//    "parents": [...], "scores": "...", "hints": [...]}
// or a repetition {"each": "l", "stages": [...]} whose entries have {l} in their names. The order
// of the file is the order of the computation, a repetition is run through number by number. A
// parent names its alternatives from the nearest on, separated by '|'; {l-1} is the number before,
// {last l} the largest number in the traces, {*} any number.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace tessera::trace {

enum class StageKind {
  values,    // floating point: compared with a tolerance
  picks,     // lists of indices chosen by scores: compared as sets
  mask,      // the same as a mask of 0 and 1
  integers,  // equal or wrong
  image,     // pixels: equal or wrong, with a signal-to-noise ratio
};
std::string_view stage_kind_name(StageKind kind);

struct Stage {
  std::string tap;
  StageKind kind = StageKind::values;
  int mantissa_bits = 23;  // of the number grid: f32 23, bf16 7, e4m3 3, e2m1 1
  std::string rows;        // tokens, patches, cells, lines, groups, block, last; empty: unknown
  std::string scores;      // picks, mask: the tap they were chosen by, or empty
  std::vector<std::string> parents;
  std::vector<std::string> hints;
};

// A tap that a stage covers.
struct StageMatch {
  const Stage* stage = nullptr;
  std::vector<int64_t> order;              // compares as the computation runs
  std::map<std::string, int64_t> numbers;  // {l} -> 3
};

class StageMap {
 public:
  // Throws Error{bad_file} naming the entry that is wrong.
  explicit StageMap(const io::Json& json, std::string_view file);
  static StageMap load(const std::string& path);

  const std::string& name() const { return name_; }
  std::optional<StageMatch> match(std::string_view tap) const;

  // The names of a match's inputs that `exists` knows; inputs without any alternative are left out.
  // `taps`: all names, for {last l} and {*}.
  std::vector<std::string> parents(const StageMatch& match,
                                   const std::function<bool(std::string_view)>& exists,
                                   const std::vector<std::string_view>& taps) const;
  // The name of the scores of a match; empty without.
  std::string scores(const StageMatch& match) const;

 private:
  struct Entry {
    std::vector<int64_t> position;  // of the entry and the repetitions around it
    std::vector<std::string> each;  // names of these repetitions, outermost first
    Stage stage;
  };
  void add(const io::Json& list, std::vector<int64_t> position, std::vector<std::string> each,
           const std::string& where);

  std::string name_;
  std::vector<Entry> entries_;
};

}  // namespace tessera::trace
