// tessera plan: where a model's parts go on a machine, and how fast it will be there, before
// anything is loaded.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/data_folder.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "base/thread_pool.h"
#include "commands.h"
#include "models/deepseek_v41/cost.h"
#include "number_option.h"
#include "output.h"
#include "plan_report.h"
#include "runtime/engine.h"
#include "runtime/machine.h"
#include "runtime/machine_plan.h"
#include "size_option.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string model;
  std::string machine;
  std::optional<int64_t> memory;
  std::optional<int64_t> memory_bandwidth;
  std::optional<int64_t> disk_bandwidth;
  std::optional<int64_t> disk_reads;
  std::optional<double> flops;
  std::optional<int64_t> threads;
  PlanRequest request;
  bool is_quiet = false;
  bool is_json = false;
};

std::string config_path(const std::string& model) {
  if (model.empty()) {
    return find_data(data_places(), "configs/deepseek_v41_flash.json", "config.json");
  }
  std::error_code ignored;
  return fs::is_regular_file(model, ignored) ? model
                                             : str_cat(resolve_model(model), "/config.json");
}

// The largest file of weights beside the configuration; empty without one.
std::string largest_weights(const std::string& config) {
  std::string largest;
  uintmax_t most = 0;
  const fs::path folder = fs::path(config).parent_path();
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(folder.empty() ? "." : folder, error)) {
    if (entry.path().extension() == ".safetensors" && entry.is_regular_file(error) &&
        entry.file_size(error) > most) {
      most = entry.file_size(error);
      largest = entry.path().string();
    }
  }
  return largest;
}

Machine named_machine(const std::string& name) {
  std::error_code ignored;
  if (fs::is_regular_file(name, ignored)) {
    return read_machine(name);
  }
  return read_machine(find_data(data_places(), str_cat("machines/", name, ".json"),
                                "--machine FILE, or one of the names there"));
}

Machine machine_of(const Options& o, const std::string& path, const deepseek_v41::Config& config) {
  if (!o.machine.empty()) {
    return named_machine(o.machine);
  }
  ProgressBar bar(o.is_quiet);
  return measure_machine(config,
                         {.threads = static_cast<int>(o.threads.value_or(available_threads())),
                          .file = largest_weights(path),
                          .on_progress = [&bar](std::string_view what, double share) {
                            bar.update(str_cat("measuring this machine: ", what),
                                       static_cast<int64_t>(share * 100), 100);
                          }});
}

template <typename T>
void override_figure(const std::optional<T>& value, const char* option, Figure& figure) {
  if (value.has_value()) {
    if (!(*value > 0)) {
      throw Error(ErrorCode::bad_request, str_cat(option, " ", *value, ": expected more than 0"));
    }
    figure = {static_cast<double>(*value), option};
  }
}

void override_figures(const Options& o, Machine& machine) {
  override_figure(o.memory, "--memory", machine.memory_bytes);
  override_figure(o.memory_bandwidth, "--memory-bandwidth", machine.memory_bandwidth);
  override_figure(o.disk_bandwidth, "--disk-bandwidth", machine.disk_bandwidth);
  override_figure(o.disk_reads, "--disk-reads-per-second", machine.disk_reads_per_second);
  if (o.threads.has_value() && !o.machine.empty()) {
    machine.scale_threads(static_cast<double>(*o.threads), "--threads");
  }
  Figure flops;
  override_figure(o.flops, "--flops", flops);
  if (flops.is_known()) {
    machine.scale_flops(flops.value, flops.source);
  }
}

void check_range(const char* option, int64_t value, int64_t smallest, int64_t largest) {
  if (value < smallest || value > largest) {
    throw Error(ErrorCode::bad_request,
                str_cat(option, " ", value, ": expected ", smallest, " to ", largest));
  }
}

void run(const Options& o) {
  constexpr int64_t kMostTokens = int64_t{1} << 24;
  check_range("--prompt", o.request.prompt, 1, kMostTokens);
  check_range("--picture", o.request.most_picture, 0, kMostTokens);
  check_range("--step-rows", o.request.engine.step_rows, 1, kMostTokens);
  check_range("--threads", o.threads.value_or(1), 1, 1024);
  const std::string path = config_path(o.model);
  const deepseek_v41::Config config = deepseek_v41::read_config(path);
  const deepseek_v41::CostModel cost(config);
  Machine machine = machine_of(o, path, config);
  override_figures(o, machine);
  const MachinePlan plan = make_plan(cost, machine, o.request);
  const PlanReport report = {.model = path,
                             .cost = cost,
                             .machine = machine,
                             .plan = plan,
                             .step_rows = o.request.engine.step_rows};
  Output out;
  if (o.is_json) {
    out.write(io::dump_compact(plan_json(report)) + "\n");
  } else {
    out.write_foreign(plan_text(report));
  }
}

}  // namespace

void add_plan_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "plan", "what a machine will do with a model: memory, context, speed; nothing is loaded");
  const auto o = std::make_shared<Options>();
  command
      ->add_option("--model,MODEL", o->model,
                   "config.json, or a folder that has it (default: DeepSeek-V4.1-Flash)")
      ->type_name("DIR|config.json");
  command
      ->add_option("--machine", o->machine,
                   "file of a machine, or the name of one that is shipped: server-12-channel, "
                   "desktop-64gb-nvme (default: this machine is measured, about 5 seconds)")
      ->type_name("FILE|NAME");
  add_size_option(*command, "--memory", o->memory,
                  "memory for weights, caches and buffers (default: what is available)");
  add_size_option(*command, "--memory-bandwidth", o->memory_bandwidth,
                  "bytes per second that all threads read from memory");
  add_size_option(*command, "--disk-bandwidth", o->disk_bandwidth,
                  "bytes per second in large reads");
  add_number_option(*command, "--disk-reads-per-second", o->disk_reads,
                    "reads of 4 KiB per second at random places");
  add_number_option(*command, "--flops", o->flops,
                    "operations per second of products of bf16 weights with many rows; other "
                    "kernels keep their proportion");
  add_number_option(*command, "--threads", o->threads,
                    "threads (default: what this process may use, or those of the machine file)");
  add_number_option(*command, "--context", o->request.engine.context, "most tokens of a sequence");
  add_number_option(*command, "--prompt", o->request.prompt, "tokens of the text (default 1024)");
  add_number_option(*command, "--picture", o->request.most_picture,
                    "most tokens of the picture, which is square (default: the model's most)");
  add_number_option(*command, "--step-rows", o->request.engine.step_rows,
                    "most rows of a step (default 512)");
  command->add_flag("--quiet", o->is_quiet, "no progress on the terminal");
  command->add_flag("--json", o->is_json, "print one JSON value");
  command->footer(
      "64G is 64 GiB, 64GB is 64 * 10^9 bytes. How the predictions are made: docs/plan.md.\n"
      "Examples:\n"
      "  tessera plan\n"
      "  tessera plan DIR --context 100000 --prompt 8000\n"
      "  tessera plan config.json --memory 64G --disk-bandwidth 3G --disk-reads-per-second 300000\n"
      "  tessera plan --machine server-12-channel --json");
  command->callback([o] { run(*o); });
}

}  // namespace tessera
