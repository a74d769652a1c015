// tessera diff: the first tensor in which two traces depart.
#include "trace/diff.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/data_folder.h"
#include "base/error.h"
#include "base/output_file.h"
#include "base/str_cat.h"
#include "commands.h"
#include "interrupt.h"
#include "io/json.h"
#include "output.h"
#include "request_options.h"
#include "trace/diff_html.h"
#include "trace/reader.h"
#include "trace_run.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr double kLearnFactor = 8;  // tolerance over measured noise

struct Arguments {
  ModelArguments model;
  std::vector<std::string> traces;  // REFERENCE OURS
  std::string run;                  // REFERENCE of --run
  std::string forced;
  std::vector<std::string> learn;  // A B
  std::string out;
  std::string stages;
  std::string tolerance;
  std::string image_root;
  std::string map;
  std::string html;
  bool shows_all = false;
};

// The map that covers the most taps of a trace.
std::string best_stage_map(const trace::TraceFile& reference) {
  const std::string folder = find_data(data_places(), "stages", "--stages FILE");
  std::string best;
  size_t most = 0;
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    const trace::StageMap map = trace::StageMap::load(file.string());
    const auto covered = static_cast<size_t>(
        std::count_if(reference.taps().begin(), reference.taps().end(),
                      [&](std::string_view tap) { return map.match(tap).has_value(); }));
    if (covered > most) {
      most = covered;
      best = file.string();
    }
  }
  if (best.empty()) {
    throw Error(ErrorCode::bad_file, str_cat(reference.name(),
                                             ": no stage map covers any of its taps; give --stages "
                                             "FILE, or name the taps as docs/numerics.md does"));
  }
  return best;
}

// share/tolerance/NAME.json or NAME.forced.json, where there is one for the map.
trace::Tolerances tolerances_for(const Arguments& a, const std::string& stages, bool is_forced) {
  if (!a.tolerance.empty()) {
    return trace::Tolerances::load(a.tolerance);
  }
  const fs::path map(stages);
  const fs::path file = map.parent_path().parent_path() / "tolerance" /
                        str_cat(map.stem().string(), is_forced ? ".forced.json" : ".json");
  std::error_code ignored;
  return fs::exists(file, ignored) ? trace::Tolerances::load(file.string()) : trace::Tolerances();
}

// A file that goes with the process.
class TemporaryTrace {
 public:
  TemporaryTrace() : folder_((fs::temp_directory_path() / "tessera-diff-XXXXXX").string()) {
    if (mkdtemp(folder_.data()) == nullptr) {
      throw Error(ErrorCode::io, str_cat("cannot make a folder ", folder_));
    }
  }
  ~TemporaryTrace() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  TemporaryTrace(const TemporaryTrace&) = delete;
  TemporaryTrace& operator=(const TemporaryTrace&) = delete;
  std::string path() const { return folder_ + "/trace.safetensors"; }

 private:
  std::string folder_;
};

struct Session {
  const Arguments& a;
  trace::TraceFile reference;
  std::string stages_file;
  trace::StageMap stages;
  std::unique_ptr<Engine> names;  // texts of tokens, if a model was named

  Session(const Arguments& arguments, const std::string& file)
      : a(arguments),
        reference(file),
        stages_file(a.stages.empty() ? best_stage_map(reference) : a.stages),
        stages(trace::StageMap::load(stages_file)) {
    if (!a.model.model.empty()) {
      names = Engine::open(engine_options(a.model));
    }
  }

  trace::DiffOptions options() const {
    trace::DiffOptions options;
    if (names != nullptr) {
      options.token_text = [this](int64_t id) { return names->decode({static_cast<int32_t>(id)}); };
    }
    return options;
  }

  trace::DiffReport compare(const trace::TraceFile& ours) const {
    ProgressBar bar(a.model.is_quiet);
    trace::DiffOptions options = this->options();
    options.on_progress = [&](int64_t done, int64_t total) { bar.update("diff", done, total); };
    const bool is_forced = ours.metadata_value("forced") != nullptr;
    return trace::diff(reference, ours, stages, tolerances_for(a, stages_file, is_forced), options);
  }

  // The page of --html, if it is asked for.
  void write_page(const trace::DiffReport& report, const trace::TraceFile& ours) const {
    if (!a.html.empty()) {
      OutputFile file(a.html);
      file.write(trace::diff_html(report, reference, ours, stages, options()));
      file.commit();
    }
  }
};

int print(const Arguments& a, const trace::DiffReport& report, const trace::DiffReport* forced) {
  Output out;
  // With both at hand the forced run names the culprit: the free one mixes it with its victims.
  const trace::DiffReport& main = forced != nullptr ? *forced : report;
  if (a.model.is_json) {
    io::Json json = trace::to_json(main);
    if (forced != nullptr) {
      json.set("free_run", trace::to_json(report));
    }
    out.write(io::dump_compact(json) + "\n");
  } else {
    out.write_foreign(trace::to_text(main, a.shows_all));
    if (forced != nullptr) {
      out.write_foreign(str_cat("\nfree run: ", report.line, "\n"));
    }
  }
  return main.verdict == trace::DiffVerdict::diverged ? 1 : 0;
}

// Replays the reference's request with our model, free and with the reference's values fed.
int run_and_compare(const Arguments& a) {
  const Session session(a, a.run);
  const TemporaryTrace free_trace, forced_trace;
  TraceArguments replay;
  replay.model = a.model;
  replay.replay = a.run;
  replay.image_root = a.image_root;
  replay.out = free_trace.path();
  if (const int status = write_trace(replay); status != 0) {
    return status;
  }
  replay.force = a.run;
  replay.out = forced_trace.path();
  if (const int status = write_trace(replay); status != 0) {
    return status;
  }
  const trace::TraceFile ours(free_trace.path());
  const trace::TraceFile forced(forced_trace.path());
  const trace::DiffReport report = session.compare(ours);
  const trace::DiffReport culprit = session.compare(forced);
  session.write_page(culprit, forced);
  return print(a, report, &culprit);
}

int learn(const Arguments& a) {
  const trace::TraceFile first(a.learn[0]);
  const trace::TraceFile second(a.learn[1]);
  const trace::StageMap stages =
      trace::StageMap::load(a.stages.empty() ? best_stage_map(first) : a.stages);
  const std::string text =
      io::dump_compact(trace::learn_tolerances(first, second, stages, kLearnFactor)) + "\n";
  if (a.out.empty()) {
    Output().write(text);
  } else {
    OutputFile file(a.out);
    file.write(text);
    file.commit();
  }
  return 0;
}

int run(const Arguments& a) {
  const int forms =
      (a.traces.empty() ? 0 : 1) + (a.run.empty() ? 0 : 1) + (a.learn.empty() ? 0 : 1);
  if (forms != 1 || (!a.traces.empty() && a.traces.size() != 2)) {
    throw Error(ErrorCode::bad_request,
                "give REFERENCE and OURS, or --run TRACE, or --learn A B (see --help)");
  }
  if (!a.learn.empty()) {
    return learn(a);
  }
  if (!a.run.empty()) {
    return run_and_compare(a);
  }
  const Session session(a, a.traces[0]);
  const trace::TraceFile ours(a.traces[1], a.map);
  const trace::DiffReport report = session.compare(ours);
  if (a.forced.empty()) {
    session.write_page(report, ours);
    return print(a, report, nullptr);
  }
  const trace::TraceFile forced_file(a.forced);
  const trace::DiffReport forced = session.compare(forced_file);
  session.write_page(forced, forced_file);
  return print(a, report, &forced);
}

}  // namespace

void add_diff_command(CLI::App& app, int& status) {
  CLI::App* command =
      app.add_subcommand("diff", "name the first tensor in which two traces depart");
  const auto a = std::make_shared<Arguments>();
  command->add_option("TRACES", a->traces, "REFERENCE[,OVERLAY...] and OURS")->type_name("FILE");
  command->add_option("--run", a->run, "replay this trace's request with our model and compare")
      ->type_name("FILE");
  command
      ->add_option("--forced", a->forced,
                   "our trace with the reference's values fed (tessera trace --force)")
      ->type_name("FILE");
  command->add_option("--learn", a->learn, "two runs of one implementation: write tolerances")
      ->expected(2)
      ->type_name("FILE");
  command->add_option("-o,--output", a->out, "tolerance file to write (--learn)")
      ->type_name("FILE");
  command->add_option("--html", a->html, "page to write: timeline, metrics, heat maps")
      ->type_name("FILE");
  command->add_option("--stages", a->stages, "stage map (default: the one that fits)")
      ->type_name("FILE");
  command->add_option("--tolerance", a->tolerance, "tolerances (default: those shipped)")
      ->type_name("FILE");
  command->add_option("--image-root", a->image_root, "where relative picture paths of --run start")
      ->type_name("DIR");
  command
      ->add_option("--map", a->map, "names of the files, if OURS is a folder of .npy or .f32 dumps")
      ->type_name("FILE");
  command->add_flag("--all", a->shows_all, "list every tap, also equal ones");
  add_model_options(*command, a->model);
  command->footer(
      "Examples:\n"
      "  tessera diff reference.safetensors ours.safetensors --html report.html\n"
      "  tessera diff --run reference.safetensors --model DIR\n"
      "  tessera diff reference.safetensors dumps/ --map names.json\n"
      "  tessera diff --learn run1.safetensors run2.safetensors -o noise.json");
  command->callback([a, &status] { status = run(*a); });
}

}  // namespace tessera
