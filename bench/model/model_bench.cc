// model_bench [vision|decode] [--threads N] [--size WIDTHxHEIGHT]: the model at full size with
// generated weights. Without a name both are run.
#include <cstdio>
#include <string_view>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/thread_pool.h"
#include "model/decode_bench.h"
#include "model/vision_bench.h"

namespace {

using namespace tessera;

struct Arguments {
  std::string_view name;  // empty: all
  bench::VisionBenchOptions vision;
  bench::DecodeBenchOptions decode;
};

bool parse_size(std::string_view text, bench::VisionBenchOptions& options) {
  const size_t x = text.find('x');
  return x != std::string_view::npos && parse_number(text.substr(0, x), options.width) &&
         parse_number(text.substr(x + 1), options.height);
}

// False: the arguments make no sense.
bool parse(int count, char** arguments, Arguments& a) {
  a.vision.threads = available_threads();
  for (int i = 1; i < count; ++i) {
    const std::string_view word = arguments[i];
    if (word == "vision" || word == "decode") {
      a.name = word;
    } else if (word == "--threads" && i + 1 < count) {
      if (!parse_number(std::string_view(arguments[++i]), a.vision.threads) ||
          a.vision.threads < 1) {
        return false;
      }
    } else if (word == "--size" && i + 1 < count) {
      if (!parse_size(arguments[++i], a.vision)) {
        return false;
      }
    } else {
      return false;
    }
  }
  a.decode.threads = a.vision.threads;
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  Arguments a;
  if (!parse(count, arguments, a)) {
    std::fputs("usage: model_bench [vision|decode] [--threads N] [--size WIDTHxHEIGHT]\n", stderr);
    return 2;
  }
  try {
    const deepseek_v41::Config config = deepseek_v41::read_config(TESSERA_RELEASED_CONFIG);
    if (a.name != "decode") {
      std::fputs(bench::report_text(bench::bench_vision(config, a.vision)).c_str(), stdout);
    }
    if (a.name != "vision") {
      std::fputs(bench::report_text(bench::bench_decode(config, a.decode)).c_str(), stdout);
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "model_bench: %s\n", error.what());
    return exit_status(error.code());
  }
  return 0;
}
