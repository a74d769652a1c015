// What a Residency (residency.h) counts.
#pragma once

#include <cstdint>

namespace tessera {

struct ResidencyStatistics {
  int64_t limit_bytes = 0;
  int64_t resident_bytes = 0;    // of the process, now
  int64_t peak_bytes = 0;        // the most that it has been
  int64_t file_bytes = 0;        // of resident_bytes: weights and other mapped files
  int64_t locked_bytes = 0;      // weights that never leave
  int64_t used_bytes = 0;        // of all uses together
  int64_t missed_bytes = 0;      // of these, not in the process when the use began
  int64_t read_ahead_bytes = 0;  // requested from the files before their use
  int64_t dropped_bytes = 0;
  int64_t dropped_ranges = 0;
  int64_t major_faults = 0;    // of the process: touches that waited for the disk
  bool is_over_limit = false;  // memory other than weights left no room at some time
};

}  // namespace tessera
