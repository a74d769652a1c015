// tessera: the command line. One file per subcommand; errors end here.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <new>
#include <sstream>

#include "base/error.h"
#include "base/mapped_file.h"
#include "commands.h"
#include "interrupt.h"
#include "output.h"

namespace {

int run_program(int argc, char** argv) {
  CLI::App app(
      "Tessera: an inference engine for DeepSeek-V4.1-Flash that proves itself against the "
      "reference",
      "tessera");
  int status = 0;
  app.require_subcommand(1);
  tessera::add_run_command(app, status);
  tessera::add_chat_command(app, status);
  tessera::add_serve_command(app, status);
  tessera::add_tokenize_command(app);
  tessera::add_trace_command(app, status);
  tessera::add_eval_command(app, status);
  tessera::add_diff_command(app, status);
  tessera::add_image_command(app);
  tessera::add_inspect_command(app);
  tessera::add_synth_command(app);
  tessera::add_convert_command(app);
  tessera::add_plan_command(app);
  tessera::add_bench_command(app);
  tessera::add_version_command(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    std::ostringstream help;
    const int done = app.exit(success, help, help);
    tessera::Output().write(help.str());
    return done;
  } catch (const CLI::ParseError& error) {
    tessera::print_error(std::string(error.what()) + "; see --help");
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
    tessera::print_error(error.what());
    return tessera::exit_status(error.code());
  } catch (const std::filesystem::filesystem_error& error) {
    tessera::print_error(error.what());
    return 2;
  } catch (const std::bad_alloc&) {
    tessera::print_error("out of memory; close other programs or use a smaller --context");
    return 3;
  }
}
