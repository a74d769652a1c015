// The vision tower and the aligner at full size, with generated weights.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "model/report.h"
#include "models/deepseek_v41/config.h"

namespace tessera::bench {

struct VisionBenchOptions {
  IsaLevel isa = active_isa();
  int threads = 1;
  int64_t width = 1008;  // canvas, pixels: multiples of the patch side
  int64_t height = 1008;
  int runs = 1;  // of the whole tower; the fastest counts
};

// Floating-point operations of one picture: 2 m n k of every matrix product and 4 n^2 d of
// attention, nothing else.
struct VisionWork {
  double patch_embed = 0;
  double block_linear = 0;
  double attention = 0;
  double aligner = 0;

  double linear() const { return patch_embed + block_linear + aligner; }
  double total() const { return linear() + attention; }
};
VisionWork vision_work(const deepseek_v41::Config& config, int64_t grid_rows, int64_t grid_columns);

// Results `vision`, `vision.linear`, `vision.attention`, `vision.rest` (norms, rotary, activations,
// sums). The limit of the mix is the time it would take at the machine's peaks:
//   (linear + attention / 2) / peak of products of bf16  +  (attention / 2) / fp32 FMA peak,
// because P is not rounded to bf16 before P V. Throws Error{bad_request} for a canvas that no
// picture can have, and for a configuration without a tower.
ModelReport bench_vision(const deepseek_v41::Config& config, const VisionBenchOptions& options);

}  // namespace tessera::bench
