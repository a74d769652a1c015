#include <algorithm>
#include <cstring>
#include <random>

#include "base/aligned_buffer.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/linear/linear.h"
#include "ops/op_bench.h"

namespace tessera::bench {
namespace {

// Weights of one shape, in as many copies as no cache holds: a decode step finds its weights in
// DRAM.
class Layers {
 public:
  Layers(const std::string& format, int64_t outputs, int64_t inputs, int64_t copies)
      : format_(format), outputs_(outputs), inputs_(inputs) {
    if (format == "fp8") {
      code_bytes_ = outputs * inputs;
      scale_bytes_ = ceil_div(outputs, 32) * ceil_div(inputs, 32);
    } else if (format == "fp8_scaled") {
      code_bytes_ = outputs * inputs;
      scale_bytes_ = ceil_div(outputs, 128) * ceil_div(inputs, 128) * 4;
    } else if (format == "mxfp4" || format == "nvfp4") {
      code_bytes_ = outputs * inputs / 2;
      scale_bytes_ = outputs * inputs / (format == "mxfp4" ? 32 : 16);
    } else if (format == "bf16" || format == "f16" || format == "f32") {
      code_bytes_ = outputs * inputs * (format == "f32" ? 4 : 2);
    } else {
      throw Error(
          ErrorCode::bad_request,
          str_cat("format ", format, ": expected bf16, f16, f32, fp8, fp8_scaled, mxfp4 or nvfp4"));
    }
    data_ = AlignedBuffer(copies * bytes());
    fill();
    for (int64_t copy = 0; copy < copies; ++copy) {
      layers_.push_back(layer(data_.data() + copy * bytes()));
    }
  }

  int64_t bytes() const { return code_bytes_ + scale_bytes_; }
  const std::vector<Linear>& layers() const { return layers_; }

 private:
  // Codes: bytes whose floats are moderate numbers in every format (no NaN, no infinity); so are
  // scales of bytes of 120.
  void fill() {
    std::mt19937_64 random(1);
    std::byte* at = data_.data();
    const int64_t words = data_.bytes() / 8;
    for (int64_t i = 0; i < words; ++i) {
      const uint64_t word = random() & 0xbfbfbfbfbfbfbfbfU;
      std::memcpy(at + i * 8, &word, sizeof(word));
    }
    for (int64_t copy = 0; copy * bytes() < data_.bytes() && bytes() > 0; ++copy) {
      std::byte* scales = at + copy * bytes() + code_bytes_;
      std::fill(scales, scales + scale_bytes_, std::byte{120});
    }
  }

  Linear layer(const std::byte* data) const {
    Linear made;
    made.weight.outputs = outputs_;
    made.weight.inputs = inputs_;
    if (format_ == "fp8") {
      made.weight.format = WeightFp8Block{data, data + code_bytes_, 32};
    } else if (format_ == "fp8_scaled") {
      made.weight.format = WeightFp8Scaled{data, data + code_bytes_};
    } else if (format_ == "nvfp4") {
      made.weight.format = WeightNvfp4{data, data + code_bytes_, 0x1p-8f};
    } else if (format_ == "f16") {
      made.weight.format = WeightF16{data};
    } else if (format_ == "mxfp4") {
      made.weight.format = WeightMxfp4{data, data + code_bytes_};
    } else if (format_ == "bf16") {
      made.weight.format = WeightBf16{data};
    } else {
      made.weight.format = WeightF32{data};
    }
    return made;
  }

  std::string format_;
  int64_t outputs_, inputs_;
  int64_t code_bytes_ = 0, scale_bytes_ = 0;
  AlignedBuffer data_;
  std::vector<Linear> layers_;
};

}  // namespace

Result bench_linear(const Shape& shape, const BenchOptions& options, const MachineLimits& limits) {
  const int64_t rows = shape.sizes[0], outputs = shape.sizes[1], inputs = shape.sizes[2];
  const int64_t calls = shape.sizes[3];
  const Layers one(shape.format, outputs, inputs, 1);
  // Many rows use every weight many times: where it comes from does not matter.
  const int64_t wanted = rows > 64 ? 0 : 2 * cache_sizes().last_level_bytes;
  const int64_t sets = std::clamp<int64_t>(wanted / (one.bytes() * calls) + 1, 1, 4096);
  const Layers layers(shape.format, outputs, inputs, sets * calls);

  std::vector<bf16> x(static_cast<size_t>(rows * inputs));
  std::mt19937 random(2);
  for (bf16& v : x) {
    v = to_bf16(static_cast<float>(static_cast<int>(random() % 2001) - 1000) * 0.001f);
  }
  std::vector<bf16> y(static_cast<size_t>(calls * rows * outputs));
  ThreadPool threads(options.threads);
  Arena scratch;
  ExecContext ctx{threads, scratch, options.isa, {}};
  std::vector<LinearCall> list(static_cast<size_t>(calls));
  int64_t next = 0;
  Result result;
  result.name = shape.name;
  result.shape = str_cat(shape.format, " ", calls > 1 ? str_cat(calls, "*") : "", rows, "x",
                         outputs, "x", inputs);
  const double work = static_cast<double>(calls * rows * outputs) * static_cast<double>(inputs);
  time_runs(
      options, limits, 2 * work, static_cast<double>(calls * one.bytes()),
      [&] {
        for (int64_t i = 0; i < calls; ++i) {
          list[static_cast<size_t>(i)] = {x.data(), rows,
                                          &layers.layers()[static_cast<size_t>(next * calls + i)],
                                          y.data() + i * rows * outputs, DType::bf16};
        }
        next = (next + 1) % sets;
        linear_many(ctx, list);
      },
      result);
  return result;
}

}  // namespace tessera::bench
