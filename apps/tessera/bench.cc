// tessera bench: what the machine can do, and how much of that operations and models reach.
#include <CLI/CLI.hpp>
#include <memory>
#include <vector>

#include "base/data_folder.h"
#include "base/error.h"
#include "base/output_file.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "commands.h"
#include "io/json.h"
#include "machine/machine_limits.h"
#include "model/decode_bench.h"
#include "model/prefill_bench.h"
#include "model/vision_bench.h"
#include "number_option.h"
#include "ops/op_bench.h"
#include "output.h"
#include "serve/serve_bench.h"

namespace tessera {
namespace {

using bench::MachineLimits;
using bench::ModelReport;
using bench::Result;
using io::Json;

struct Arguments {
  int threads = 0;  // 0: what this process may use
  bool is_json = false;
  std::string shapes;  // of `ops`
  std::string filter;
  std::string config;  // of `vision` and `decode`
  std::string size = "1008x1008";
  int runs = 1;
  bench::DecodeBenchOptions decode;
  bench::PrefillBenchOptions prefill;
  std::string model;  // of `serve`
  std::string csv;
  int64_t running = 8;
  std::vector<double> shares = {ServingLimits().encode_share};
  bench::ServeBenchOptions serve;
};

int threads_of(const Arguments& a) {
  if (a.threads < 0 || a.threads > 1024) {
    throw Error(ErrorCode::bad_request,
                str_cat("--threads ", a.threads, ": expected 1 to 1024, or 0 for all"));
  }
  return a.threads == 0 ? available_threads() : a.threads;
}

// One element of the array that --json prints.
Json to_json(const Result& result) {
  Json json = Json::object();
  json.set("name", Json::string(result.name));
  json.set("shape", Json::string(result.shape));
  json.set("threads", Json::number(int64_t{result.threads}));
  json.set("isa", Json::string(std::string(isa_name(result.isa))));
  json.set("ms", Json::number(result.ms));
  json.set("best_ms", Json::number(result.best_ms));
  json.set("gflops", Json::number(result.gflops));
  json.set("gbs", Json::number(result.gbs));
  json.set("limit_share", Json::number(result.limit_share));
  return json;
}

// The machine's own figures as results: each is its own limit.
std::vector<Result> limit_results(const MachineLimits& limits) {
  std::vector<Result> results;
  const auto add = [&](const char* name, double gflops, double gbs) {
    if (gflops > 0 || gbs > 0) {
      Result result;
      result.name = name;
      result.threads = limits.threads;
      result.isa = limits.isa;
      result.gflops = gflops;
      result.gbs = gbs;
      result.limit_share = 1;
      results.push_back(result);
    }
  };
  add("machine.fma", limits.fma_gflops, 0);
  add("machine.dot", limits.dot_gflops, 0);
  add("machine.l2", 0, limits.l2_gbs);
  add("machine.dram", 0, limits.dram_gbs);
  return results;
}

void print_json(const std::vector<Json>& items) {
  Output out;
  out.write(io::dump_compact(Json::array(items)) + "\n");
}

std::vector<Json> json_of(const std::vector<Result>& results) {
  std::vector<Json> items;
  for (const Result& result : results) {
    items.push_back(to_json(result));
  }
  return items;
}

void bench_machine(const Arguments& a) {
  const std::vector<MachineLimits> all = bench::measure_machine(threads_of(a));
  if (!a.is_json) {
    Output out;
    out.write(str_cat(cpu_model_name(), "\n", bench::limits_text(all)));
    return;
  }
  std::vector<Json> items;
  for (const MachineLimits& limits : all) {
    for (Json& item : json_of(limit_results(limits))) {
      items.push_back(std::move(item));
    }
  }
  print_json(items);
}

void bench_ops(const Arguments& a) {
  const std::string path =
      a.shapes.empty() ? find_data(data_places(), "shapes/deepseek_v41.txt", "--shapes FILE")
                       : a.shapes;
  bench::BenchOptions options;
  options.threads = threads_of(a);
  options.filter = a.filter;
  const std::vector<bench::Shape> shapes = bench::read_shapes(path);
  const MachineLimits limits = bench::measure_limits(options.isa, options.threads);
  std::vector<Result> results = limit_results(limits);
  Output out;
  if (!a.is_json) {
    out.write(bench::limits_text({limits}));
  }
  for (const bench::Shape& shape : shapes) {
    for (const Result& result : bench::bench_ops({shape}, options, limits)) {
      results.push_back(result);
      if (!a.is_json) {
        out.write(bench::result_text(result) + "\n");
      }
    }
  }
  if (a.is_json) {
    print_json(json_of(results));
  }
}

deepseek_v41::Config config_of(const Arguments& a) {
  return deepseek_v41::read_config(
      a.config.empty()
          ? find_data(data_places(), "configs/deepseek_v41_flash.json", "--config FILE")
          : a.config);
}

void print_report(const Arguments& a, const ModelReport& report) {
  if (!a.is_json) {
    Output out;
    out.write(bench::report_text(report));
    return;
  }
  std::vector<Json> items = json_of(report.results);
  Json& whole = items.front();
  whole.set("weight_bytes", Json::number(report.weight_bytes));
  whole.set("peak_bytes", Json::number(report.peak_bytes));
  if (report.active_bytes > 0) {
    whole.set("active_bytes", Json::number(report.active_bytes));
  }
  for (Json& item : json_of(limit_results(report.limits))) {
    items.push_back(std::move(item));
  }
  print_json(items);
}

void bench_vision(const Arguments& a) {
  bench::VisionBenchOptions options;
  options.threads = threads_of(a);
  options.runs = a.runs;
  const size_t x = a.size.find('x');
  if (x == std::string::npos ||
      !parse_number(std::string_view(a.size).substr(0, x), options.width) ||
      !parse_number(std::string_view(a.size).substr(x + 1), options.height)) {
    throw Error(ErrorCode::bad_request,
                str_cat("--size ", tessera::quoted(a.size), ": expected WIDTHxHEIGHT in pixels"));
  }
  print_report(a, bench::bench_vision(config_of(a), options));
}

void bench_decode(const Arguments& a) {
  bench::DecodeBenchOptions options = a.decode;
  options.threads = threads_of(a);
  print_report(a, bench::bench_decode(config_of(a), options));
}

Json to_json(const char* kind, const bench::PrefillResult& r, double ms, int64_t rows) {
  Json json = Json::object();
  json.set("name", Json::string(str_cat(kind, " ", r.tokens)));
  json.set("tokens", Json::number(r.tokens));
  json.set("ms", Json::number(ms));
  json.set("layer_rows", Json::number(rows));
  return json;
}

void bench_prefill(const Arguments& a) {
  bench::PrefillBenchOptions options = a.prefill;
  options.threads = threads_of(a);
  options.runs = std::max(a.runs, options.runs);
  Output out;
  std::vector<Json> items;
  for (const bench::PrefillResult& r : bench::bench_prefill(config_of(a), options)) {
    if (!a.is_json) {
      out.write(bench::prefill_text(r) + "\n");
      continue;
    }
    items.push_back(to_json("full", r, r.full_ms, r.full_rows));
    Json half = to_json("half", r, r.half_ms, r.half_rows);
    half.set("formula_rows", Json::number(r.formula_rows));
    half.set("speedup", Json::number(r.speedup));
    half.set("bound", Json::number(r.bound));
    half.set("bits_equal", Json::boolean(r.bits_equal));
    items.push_back(std::move(half));
  }
  if (a.is_json) {
    print_json(items);
  }
}

Json to_json(const bench::Percentiles& p) {
  Json json = Json::object();
  json.set("p50", Json::number(p.p50));
  json.set("p90", Json::number(p.p90));
  json.set("p99", Json::number(p.p99));
  return json;
}

Json to_json(const bench::ServeReport& report) {
  const bench::ServeSummary summary = bench::summary_of(report);
  Json json = Json::object();
  json.set("encode_share", Json::number(report.encode_share));
  json.set("requests", Json::number(static_cast<int64_t>(report.requests.size())));
  json.set("seconds", Json::number(report.seconds));
  json.set("tokens", Json::number(summary.tokens));
  json.set("tokens_per_second", Json::number(summary.tokens_per_second));
  json.set("first_text_ms", to_json(summary.first_text));
  json.set("first_text_picture_ms", to_json(summary.first_picture));
  json.set("between_texts_ms", to_json(summary.gaps));
  json.set("steps", Json::number(report.statistics.steps));
  json.set("rows", Json::number(report.statistics.rows));
  json.set("answer_rows", Json::number(report.statistics.answer_rows));
  return json;
}

void bench_serve(const Arguments& a) {
  EngineOptions options;
  options.model = resolve_model(a.model);
  options.threads = threads_of(a);
  options.serving.max_running = a.running;
  options.serving.max_queued = std::max(a.serve.requests, options.serving.max_queued);
  Output out;
  std::vector<bench::ServeReport> reports;
  std::vector<Json> items;
  for (const double share : a.shares) {
    options.serving.encode_share = share;
    const std::unique_ptr<Engine> engine = Engine::open(options);
    if (reports.empty() && !a.is_json) {
      out.write(engine->memory_plan().text());
    }
    reports.push_back(bench::bench_serve(*engine, a.serve));
    reports.back().encode_share = share;
    items.push_back(to_json(reports.back()));
    if (!a.is_json) {
      out.write(bench::serve_text(reports.back()));
    }
  }
  if (!a.csv.empty()) {
    OutputFile file(a.csv);
    file.write(bench::serve_csv(reports));
    file.commit();
  }
  if (a.is_json) {
    print_json(items);
  }
}

CLI::App& add_kind(CLI::App& bench, const std::shared_ptr<Arguments>& a, const char* name,
                   const char* help, void (*run)(const Arguments&)) {
  CLI::App* kind = bench.add_subcommand(name, help);
  add_number_option(*kind, "--threads", a->threads, "threads (default: what this process may use)");
  kind->add_flag("--json", a->is_json, "print one JSON array");
  kind->footer(str_cat("Examples:\n  tessera bench ", name, "\n  tessera bench ", name,
                       " --threads 4 --json"));
  kind->callback([a, run] { run(*a); });
  return *kind;
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("bench", "speed of this machine, of operations and of full-size models");
  command->require_subcommand(1);
  const auto a = std::make_shared<Arguments>();
  add_kind(*command, a, "machine", "limits: fp32 FMA, bf16 dot products, L2, memory",
           bench_machine);
  CLI::App& ops = add_kind(*command, a, "ops", "operations on shapes of the model", bench_ops);
  ops.add_option("--shapes", a->shapes, "file of shapes (default: DeepSeek-V4.1-Flash)")
      ->type_name("FILE");
  ops.add_option("FILTER", a->filter, "only shapes whose name contains this");
  CLI::App& vision = add_kind(
      *command, a, "vision", "the vision tower with generated weights; needs 1.1 GB", bench_vision);
  vision.add_option("--size", a->size, "canvas in pixels, WIDTHxHEIGHT")->type_name("WIDTHxHEIGHT");
  add_number_option(vision, "--runs", a->runs, "runs, the fastest counts");
  CLI::App& decode =
      add_kind(*command, a, "decode", "one token through layers of full width, generated weights",
               bench_decode);
  add_number_option(decode, "--layers", a->decode.layers,
                    "layers (default: as many as no cache holds)");
  add_number_option(decode, "--experts", a->decode.experts, "experts per layer");
  add_number_option(decode, "--context", a->decode.context,
                    "tokens before the one that is decoded");
  add_number_option(decode, "--steps", a->decode.steps, "steps, the fastest counts");
  CLI::App& prefill =
      add_kind(*command, a, "prefill",
               "prompts through a narrow model of the released depth: full pass against half pass",
               bench_prefill);
  prefill.add_option("--tokens", a->prefill.lengths, "lengths of the prompts (default: 2048,8192)")
      ->type_name("N")
      ->allow_extra_args(false)
      ->delimiter(',');
  add_number_option(prefill, "--chunk", a->prefill.chunk, "most rows of a step");
  CLI::App& serve = add_kind(
      *command, a, "serve",
      "load on the engine: requests that arrive by the clock, texts and pictures", bench_serve);
  serve.add_option("--model", a->model, "checkpoint folder (default: demo model)")
      ->type_name("DIR|ORG/NAME");
  add_number_option(serve, "--rate", a->serve.rate, "requests per second (default 4)");
  add_number_option(serve, "--requests", a->serve.requests, "how many (default 64)");
  add_number_option(serve, "--pictures", a->serve.pictures,
                    "share of them with a picture (default 0.25)");
  add_number_option(serve, "--words", a->serve.prompt_words, "most words of a prompt (default 60)");
  add_number_option(serve, "--max-tokens", a->serve.max_tokens,
                    "tokens of every answer (default 32)");
  add_number_option(serve, "--running", a->running, "requests in a step at most (default 8)");
  serve
      .add_option("--encode-share", a->shares,
                  "share of the time for pictures while answers are written (default 0.25); "
                  "several: one run of the same requests for each")
      ->type_name("SHARE,...")
      ->allow_extra_args(false)
      ->delimiter(',');
  add_number_option(serve, "--seed", a->serve.seed, "seed of arrivals and prompts (default 1)");
  serve.add_option("--csv", a->csv, "write one line per request")->type_name("FILE");
  for (CLI::App* kind : {&vision, &decode, &prefill}) {
    kind->add_option("--config", a->config,
                     "config.json of a DeepSeek-V4.1 model (default: DeepSeek-V4.1-Flash)")
        ->type_name("FILE");
  }
  command->footer(
      "limit_share is the share of the machine's limit, measured in the same run, that was\n"
      "reached. Give the machine nothing else to do.\n"
      "Examples:\n"
      "  tessera bench machine\n"
      "  tessera bench vision --size 504x504 --json\n"
      "  tessera bench decode --experts 16\n"
      "  tessera bench prefill --tokens 2048,8192,32768\n"
      "  tessera bench serve --rate 10 --requests 200 --csv requests.csv");
}

}  // namespace tessera
