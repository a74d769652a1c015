// image_bench [--runs N] [--width N] [--height N] [--policy NAME]: a JPEG of 12 megapixels to the
// patch rows of DeepSeek-V4.1, one thread: medians of N runs (9) after one that is not counted.
//
// image_bench --write FILE: writes that JPEG instead. image_bench --paced: one run for each line on
// standard input, which is answered by a line of milliseconds: decode, prepare, patchify; so that
// scripts/oracle/bench_image.py can run another program in turn.
//
// `prepare` is plan, resize, padding and patch rows; `patchify` its last part again, by itself.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu.h"
#include "base/error.h"
#include "base/stopwatch.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "image/drawn_jpeg.h"
#include "image/patchify.h"
#include "intake/decode.h"
#include "models/deepseek_v41/image_plan.h"

namespace {

using namespace tessera;  // NOLINT: a program
using Clock = std::chrono::steady_clock;

struct Options {
  int runs = 9;
  int64_t width = 4000;
  int64_t height = 3000;
  image::Policy policy = image::reference_policy();
  std::string write;
  bool is_paced = false;
};

// False: the arguments make no sense.
bool parse(int count, char** arguments, Options& options) {
  const auto number = [](std::string_view text, auto& value) {
    return parse_number(text, value) && value >= 1;
  };
  for (int i = 1; i < count; ++i) {
    const std::string_view name = arguments[i];
    if (name == "--paced") {
      options.is_paced = true;
      continue;
    }
    if (++i == count) {
      return false;
    }
    const std::string_view value = arguments[i];
    if (name == "--write") {
      options.write = value;
    } else if (name == "--policy") {
      options.policy = image::find_policy(value);
    } else if (!((name == "--runs" && number(value, options.runs)) ||
                 (name == "--width" && number(value, options.width)) ||
                 (name == "--height" && number(value, options.height)))) {
      return false;
    }
  }
  return true;
}

struct Times {
  double decode_ms;
  double prepare_ms;
  double patchify_ms;
  deepseek_v41::ImagePlan plan;
};

Times run_once(std::span<const std::byte> jpeg, const image::Policy& policy) {
  const deepseek_v41::ImageLimits limits;
  Times times{};
  Clock::time_point start = Clock::now();
  const intake::DecodedImage decoded =
      intake::decode_image(jpeg, "drawn picture", {.policy = policy});
  times.decode_ms = ms_since(start);
  start = Clock::now();
  const deepseek_v41::PreparedImage prepared =
      prepare_image(decoded.rgb, limits, {.policy = policy});
  times.prepare_ms = ms_since(start);
  start = Clock::now();
  const Tensor again = image::patchify(prepared.canvas, limits.patch, image::signed_unit_table());
  times.patchify_ms = ms_since(start);
  times.plan = prepared.plan;
  return times;
}

void run_paced(std::span<const std::byte> jpeg, const image::Policy& policy) {
  for (std::string line; std::getline(std::cin, line);) {
    const Times times = run_once(jpeg, policy);
    std::cout << str_cat(times.decode_ms, " ", times.prepare_ms, " ", times.patchify_ms)
              << std::endl;
  }
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void run(std::span<const std::byte> jpeg, const Options& options) {
  std::vector<double> decode, prepare, patchify, total;
  Times times = run_once(jpeg, options.policy);
  for (int i = 0; i < options.runs; ++i) {
    times = run_once(jpeg, options.policy);
    decode.push_back(times.decode_ms);
    prepare.push_back(times.prepare_ms);
    patchify.push_back(times.patchify_ms);
    total.push_back(times.decode_ms + times.prepare_ms);
  }
  const image::Size from = times.plan.source;
  const image::Size to = times.plan.canvas.size;
  std::printf(
      "%lld x %lld JPEG, %zu bytes, to a canvas of %lld x %lld; policy %s, level %s, "
      "1 thread\n",
      static_cast<long long>(from.width), static_cast<long long>(from.height), jpeg.size(),
      static_cast<long long>(to.width), static_cast<long long>(to.height),
      std::string(options.policy.name).c_str(), std::string(isa_name(active_isa())).c_str());
  std::printf(
      "decode   %7.1f ms\nprepare  %7.1f ms, of which patchify %.1f ms\ntotal    %7.1f ms\n",
      median(decode), median(prepare), median(patchify), median(total));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Options options;
    if (!parse(argc, argv, options)) {
      std::cerr << "usage: image_bench [--runs N] [--width N] [--height N] [--policy NAME] "
                   "[--write FILE | --paced]\n";
      return 2;
    }
    const std::vector<std::byte> jpeg =
        bench::encode_jpeg(bench::draw_clouds({options.width, options.height}));
    if (!options.write.empty()) {
      std::ofstream file(options.write, std::ios::binary);
      file.write(reinterpret_cast<const char*>(jpeg.data()),
                 static_cast<std::streamsize>(jpeg.size()));
      return file.good() ? 0 : 3;
    }
    if (options.is_paced) {
      run_paced(jpeg, options.policy);
    } else {
      run(jpeg, options);
    }
  } catch (const Error& error) {
    std::cerr << "image_bench: " << error.what() << "\n";
    return 2;
  }
  return 0;
}
