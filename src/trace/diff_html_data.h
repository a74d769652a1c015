// The data of the page, as JSON. Internal to the module.
#pragma once

#include <string>

#include "trace/diff.h"
#include "trace/reader.h"
#include "trace/stages.h"

namespace tessera::trace {

// An object with
//   reference, ours, model (name of the stage map), verdict, forced, warnings,
//   first     number of the tap of the verdict, or -1
//   total     taps of the report; counts: how many of them by status
//   stages    [{"kind", "rows", "hints"}]
//   fields    names of the fields of a tap; metrics: of its metrics
//   taps      lists of fields, in the order of the computation, without the last ones where they
//   are
//             empty: number in the report, name, status, stage (or -1), the reference's shape, ours
//             (null: the same), the same for dtypes, tolerance [rms, row], metrics, parents
//             (numbers; names of what the report lacks), first element [row, column, reference,
//             ours], row label, note
//   panels    what tap_panel() gave, each with the number of its tap
//   labels    of the rows of a call, by its name ("c0"; "" for the prompt)
//   pictures  {"image0": {"width", "height", "full_width", "full_height", "rgb" (base64)}}
//   calls     [[start, rows]] of the reference
// Numbers have 4 significant digits (elements: all of them); "inf", "-inf" and "nan" are strings.
// Strings have gone through clean_text().
std::string page_data(const DiffReport& report, const TraceFile& reference, const TraceFile& ours,
                      const StageMap& stages, const DiffOptions& options);

}  // namespace tessera::trace
