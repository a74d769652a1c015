// ops_bench [--shapes FILE] [--threads N] [--isa LEVEL] [--seconds S] [FILTER]
#include <cstdio>
#include <string_view>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/thread_pool.h"
#include "ops/op_bench.h"

namespace {

using namespace tessera;

// False: the arguments make no sense.
bool parse(int count, char** arguments, bench::BenchOptions& options, std::string& shapes) {
  for (int i = 1; i < count; ++i) {
    const std::string_view name = arguments[i];
    if (name.substr(0, 2) != "--") {
      options.filter = name;
      continue;
    }
    if (++i == count) {
      return false;
    }
    const std::string_view value = arguments[i];
    if (name == "--shapes") {
      shapes = value;
    } else if (name == "--threads") {
      if (!parse_number(value, options.threads) || options.threads < 1) {
        return false;
      }
    } else if (name == "--seconds") {
      if (!parse_number(value, options.seconds)) {
        return false;
      }
    } else if (name == "--isa") {
      bool found = false;
      for (const IsaLevel isa : supported_isas()) {
        if (isa_name(isa) == value) {
          options.isa = isa;
          found = true;
        }
      }
      if (!found) {
        return false;
      }
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  bench::BenchOptions options;
  options.threads = available_threads();
  std::string shapes = TESSERA_SHAPES_DIR "/deepseek_v41.txt";
  if (!parse(count, arguments, options, shapes)) {
    std::fputs(
        "usage: ops_bench [--shapes FILE] [--threads N] [--isa LEVEL] [--seconds S] [FILTER]\n",
        stderr);
    return 2;
  }
  try {
    const std::vector<bench::Shape> list = bench::read_shapes(shapes);
    const bench::MachineLimits limits = bench::measure_limits(options.isa, options.threads);
    std::fputs(bench::limits_text({limits}).c_str(), stdout);
    for (const bench::Shape& shape : list) {
      for (const bench::Result& result : bench::bench_ops({shape}, options, limits)) {
        std::puts(bench::result_text(result).c_str());
        std::fflush(stdout);
      }
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "ops_bench: %s\n", error.what());
    return exit_status(error.code());
  }
  return 0;
}
