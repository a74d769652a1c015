// tessera: the command line. One file per subcommand; errors end here.
#include <CLI/CLI.hpp>
#include <iostream>
#include <new>

#include "base/error.h"
#include "base/mapped_file.h"
#include "commands.h"
#include "interrupt.h"

namespace {

int run_program(int argc, char** argv) {
  CLI::App app(
      "Tessera: an inference engine for DeepSeek-V4.1-Flash that proves itself against the "
      "reference",
      "tessera");
  int status = 0;
  app.require_subcommand(1);
  tessera::add_run_command(app, status);
  tessera::add_trace_command(app, status);
  tessera::add_eval_command(app, status);
  tessera::add_image_command(app);
  tessera::add_bench_command(app);
  tessera::add_version_command(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    std::cerr << "tessera: " << error.what() << "; see --help\n";
    return 2;
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  tessera::install_signal_handlers();
  tessera::install_map_fault_handler();
  try {
    return run_program(argc, argv);
  } catch (const tessera::Error& error) {
    std::cerr << "tessera: " << error.what() << "\n";
    return tessera::exit_status(error.code());
  } catch (const std::bad_alloc&) {
    std::cerr << "tessera: out of memory; close other programs or use a smaller --context\n";
    return 3;
  }
}
