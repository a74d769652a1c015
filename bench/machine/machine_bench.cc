// machine_bench [threads]: the limits of this machine, one a line.
#include <cstdio>

#include "base/str_cat.h"
#include "base/thread_pool.h"
#include "machine/machine_limits.h"

int main(int count, char** arguments) {
  int threads = tessera::available_threads();
  if (count > 2 || (count == 2 && (!tessera::parse_number(arguments[1], threads) || threads < 1))) {
    std::fputs("usage: machine_bench [threads]\n", stderr);
    return 2;
  }
  const std::string text = tessera::bench::limits_text(tessera::bench::measure_machine(threads));
  std::printf("%s\n%s", tessera::cpu_model_name().c_str(), text.c_str());
  return 0;
}
