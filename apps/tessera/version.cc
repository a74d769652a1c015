// tessera version: what this binary is made of and what it will use here.
#include <CLI/CLI.hpp>
#include <memory>

#include "base/cpu.h"
#include "base/str_cat.h"
#include "base/thread_pool.h"
#include "build_info.h"
#include "commands.h"
#include "io/json.h"
#include "output.h"

namespace tessera {
namespace {

void print_version(bool is_json) {
  Output out;
  if (is_json) {
    io::Json json = io::Json::object();
    json.set("version", io::Json::string(TESSERA_VERSION));
    json.set("commit", io::Json::string(TESSERA_COMMIT));
    json.set("compiler", io::Json::string(TESSERA_COMPILER));
    json.set("libraries", io::Json::string(TESSERA_LIBRARIES));
    json.set("isa", io::Json::string(std::string(isa_name(active_isa()))));
    json.set("threads", io::Json::number(int64_t{available_threads()}));
    json.set("cpu", io::Json::string(cpu_model_name()));
    out.write(io::dump_compact(json) + "\n");
    return;
  }
  out.write(str_cat("tessera ", TESSERA_VERSION, " (commit ", TESSERA_COMMIT, ")\n",           //
                    "compiler   ", TESSERA_COMPILER, "\n",                                     //
                    "libraries  ", TESSERA_LIBRARIES, "\n",                                    //
                    "processor  ", cpu_model_name(), ", ", available_threads(), " threads\n",  //
                    "kernels    ", isa_name(active_isa()), "\n"));
}

}  // namespace

void add_version_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("version", "commit, compiler, libraries, kernels in use");
  const auto is_json = std::make_shared<bool>(false);
  command->add_flag("--json", *is_json, "print one JSON value");
  command->footer(
      "Examples:\n"
      "  tessera version\n"
      "  tessera version --json");
  command->callback([is_json] { print_version(*is_json); });
  app.add_flag_callback(
      "--version",
      [] {
        print_version(false);
        throw CLI::Success();
      },
      "the same as the subcommand");
}

}  // namespace tessera
