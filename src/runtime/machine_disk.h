// How fast a file can be read that is not in the page cache.
#pragma once

#include <string>

namespace tessera {

struct DiskSpeed {
  double bytes_per_second = 0;  // large reads, front to back
  double reads_per_second = 0;  // of 4 KiB at random places
};

// Reads for about a second and a half past the page cache (O_DIRECT; where the file system has
// none, after asking it to forget the pages), with `threads` threads as a step reads. All zeros for
// a file of less than 64 MiB, too small to tell. Throws Error{bad_file} for a file that cannot be
// read.
DiskSpeed measure_disk(const std::string& path, int threads);

}  // namespace tessera
