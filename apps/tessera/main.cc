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

// One line, whatever file names and arguments are part of the message.
void print_error(std::string_view message) {
  std::string line = tessera::escape_controls(message);
  for (size_t at = line.find('\n'); at != std::string::npos; at = line.find('\n', at)) {
    line.replace(at, 1, "\\n");
  }
  std::cerr << "tessera: " << line << "\n";
}

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
    std::ostringstream help;
    const int done = app.exit(success, help, help);
    tessera::Output().write(help.str());
    return done;
  } catch (const CLI::ParseError& error) {
    print_error(std::string(error.what()) + "; see --help");
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
    print_error(error.what());
    return tessera::exit_status(error.code());
  } catch (const std::filesystem::filesystem_error& error) {
    print_error(error.what());
    return 2;
  } catch (const std::bad_alloc&) {
    print_error("out of memory; close other programs or use a smaller --context");
    return 3;
  }
}
