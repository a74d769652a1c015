// A comparison as one web page that needs nothing else: no network, no fonts, no library.
#pragma once

#include <string>

#include "trace/diff.h"
#include "trace/reader.h"
#include "trace/stages.h"

namespace tessera::trace {

// The page (web/diff): the verdict with its cause and hints, every tap in the order of the
// computation, and, for the first taps that are not equal, a histogram of the differences and what
// they are row by row, over the tokens or over the picture. `reference` and `ours` are the traces
// that the report is about; only taps of these panels are read, block by block.
//
// Names and texts of traces reach the page as text only, never as markup; its content security
// policy allows the page's own script and style by their hashes and no request at all. At most
// kMostPageBytes: what does not fit is left out, the least interesting taps first, and the page
// says how many.
//
// `options.token_text` names the rows that are tokens.
constexpr int64_t kMostPageBytes = 8'000'000;
std::string diff_html(const DiffReport& report, const TraceFile& reference, const TraceFile& ours,
                      const StageMap& stages, const DiffOptions& options = {});

}  // namespace tessera::trace
