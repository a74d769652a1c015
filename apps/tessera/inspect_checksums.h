// Checksums of a checkpoint's weight files, where the way they were fetched has left some.
#pragma once

#include <cstdint>
#include <string>

#include "io/safetensors.h"

namespace tessera {

struct ChecksumResult {
  int64_t files = 0;
  int64_t bytes = 0;
  std::string source;  // where the expected values came from, for people
};

// Reads every weight file once and compares its SHA-256 with the one that is known for it. Looked
// for in this order: a file SHA256SUMS in the folder (as `sha256sum` writes it), the name of the
// blob that a link of the Hugging Face cache points to, and the notes that
// `hf download --local-dir` leaves in .cache/huggingface/download. Throws Error{bad_file} that
// names files which differ or whose checksum is not known, and Error{cancelled} after Ctrl-C.
ChecksumResult verify_checksums(const io::Checkpoint& checkpoint, bool is_quiet);

}  // namespace tessera
