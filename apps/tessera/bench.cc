#include <CLI/CLI.hpp>

#include "commands.h"

namespace tessera {
void add_bench_command(CLI::App&) {}
}  // namespace tessera
