// plan_bench FOLDER [--threads N] [--prompt WORDS] [--answer TOKENS] [--picture PIXELS] [--runs N]
// [--clock wall|processor]: what `tessera plan` predicts for a checkpoint on this machine, and what
// the engine does. Each run measures the machine before and after the engine's work; medians of all
// runs are compared. Exit status 1: a prediction is more than 25 % off.
//
// On a machine that others use, `--threads 1 --clock processor` leaves their time out of both
// sides.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/base64.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "base/thread_pool.h"
#include "intake/png_encode.h"
#include "models/deepseek_v41/cost.h"
#include "runtime/engine.h"
#include "runtime/machine.h"
#include "runtime/machine_plan.h"

namespace {

using namespace tessera;

constexpr double kGoal = 0.25;
constexpr int64_t kStepRows = 512;

struct Arguments {
  std::string folder;
  int threads = available_threads();
  int64_t prompt = 900;  // words; random numbers, so about two tokens each
  int64_t answer = 24;
  int64_t picture = 504;  // side; 0: none
  int runs = 5;
  double (*clock)() = steady_seconds;
};

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// What one run predicted or measured.
struct Figures {
  double tokens_per_second = 0;
  double text_seconds = 0;     // to the first token
  double picture_seconds = 0;  // of the tower and the aligner
};

struct Run {
  Figures predicted;
  Figures measured;
  int64_t prompt_tokens = 0;
  int64_t steps = 0;                   // one token each
  std::optional<PicturePlan> picture;  // nothing: not asked for
};

bool parse(int count, char** arguments, Arguments& a) {
  for (int i = 1; i < count; ++i) {
    const std::string_view word = arguments[i];
    if (!word.starts_with("--")) {
      a.folder = word;
      continue;
    }
    if (++i == count) {
      return false;
    }
    const std::string_view value = arguments[i];
    if (word == "--clock" && (value == "processor" || value == "wall")) {
      a.clock = value == "wall" ? steady_seconds : processor_seconds;
      continue;
    }
    const bool is_number = word == "--threads"   ? parse_number(value, a.threads)
                           : word == "--prompt"  ? parse_number(value, a.prompt)
                           : word == "--answer"  ? parse_number(value, a.answer)
                           : word == "--picture" ? parse_number(value, a.picture)
                           : word == "--runs"    ? parse_number(value, a.runs)
                                                 : false;
    if (!is_number) {
      return false;
    }
  }
  return !a.folder.empty() && a.threads > 0 && a.prompt > 0 && a.answer > 1 && a.runs > 0;
}

Request text_request(const Arguments& a, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string text;
  for (int64_t i = 0; i < a.prompt; ++i) {
    text += str_cat(random() % 10000, " ");
  }
  Request request;
  request.raw_prompt = text;
  request.is_plain_text = true;
  request.max_tokens = a.answer;
  request.ignores_eos = true;
  request.sampling.temperature = 1;  // other tokens, other experts
  request.sampling.top_p = 1;        // generated weights like all tokens alike: do not sort them
  request.sampling.seed = seed;
  return request;
}

ImageSource picture_source(int64_t side, uint64_t seed) {
  image::Image picture({side, side});
  for (int64_t y = 0; y < side; ++y) {
    for (int64_t i = 0; i < picture.row_bytes(); ++i) {
      picture.row(y)[i] = static_cast<uint8_t>(i * y / 97 + static_cast<int64_t>(seed));
    }
  }
  ImageSource source;
  source.kind = ImageSource::Kind::base64;
  source.value = to_base64(intake::encode_png(picture));
  return source;
}

void run_text(const Arguments& a, Engine& engine, uint64_t seed, Run& run) {
  double first = 0;  // token
  Events events;
  events.on_progress = [&](std::string_view stage, int64_t done, int64_t total) {
    if (stage == "prompt" && done == total) {
      first = a.clock();
    }
  };
  const double start = a.clock();
  const Result result = engine.generate(text_request(a, seed), events);
  const double end = a.clock();
  run.prompt_tokens = result.prompt_tokens;
  run.steps = std::count_if(result.calls.begin(), result.calls.end(), [&](const CallPlan& call) {
    return call.start >= result.prompt_tokens;
  });
  run.measured.text_seconds = first - start;
  run.measured.tokens_per_second = static_cast<double>(run.steps) / (end - first);
}

void run_picture(const Arguments& a, Engine& engine, uint64_t seed, Run& run) {
  const ImageSource source = picture_source(a.picture, seed);
  run.picture = engine.plan_pictures({source}, false).front();
  Request request;
  ContentBlock& block = request.messages.emplace_back().content.emplace_back();
  block.kind = ContentBlock::Kind::image;
  block.image = source;
  request.stops_after_vision = true;
  const double start = a.clock();
  engine.generate(request);
  run.measured.picture_seconds = a.clock() - start;
}

// The checkpoint lies in memory once it was used: no placements, nothing is read from disk.
Figures predict(const deepseek_v41::CostModel& cost, const Machine& machine, const Run& run) {
  StepTime prompt;
  for (const deepseek_v41::StepWork& step : cost.prompt(run.prompt_tokens, kStepRows)) {
    prompt += step_time(step, machine, {});
  }
  const StepTime token = step_time(cost.decode(run.prompt_tokens + run.steps / 2), machine, {});
  const double picture =
      run.picture.has_value()
          ? picture_time(cost.picture(run.picture->patch_rows, run.picture->patch_columns), machine)
                .seconds()
          : 0;
  return {1 / token.seconds(), prompt.seconds(), picture};
}

Figures mean(const Figures& a, const Figures& b) {
  return {(a.tokens_per_second + b.tokens_per_second) / 2, (a.text_seconds + b.text_seconds) / 2,
          (a.picture_seconds + b.picture_seconds) / 2};
}

void print_machine(const Machine& machine) {
  std::printf("memory %.1f GB/s;", machine.memory_bandwidth.value * 1e-9);
  for (int i = 0; i < kKernels; ++i) {
    const Kernel kernel = static_cast<Kernel>(i);
    std::printf(" %s", std::string(kernel_name(kernel)).c_str());
    for (const KernelSpeed::Point& point : machine.speed(kernel).points) {
      std::printf(" %.1f", point.flops_per_second * 1e-9);
    }
  }
  std::printf(" GFLOP/s\n");
}

double median(const std::vector<Run>& runs, Figures Run::*side, double Figures::*figure) {
  std::vector<double> values;
  for (const Run& run : runs) {
    values.push_back(run.*side.*figure);
  }
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Whether the prediction is as near as it should be.
bool report(const std::vector<Run>& runs, const char* name, double Figures::*figure) {
  const double predicted = median(runs, &Run::predicted, figure);
  const double measured = median(runs, &Run::measured, figure);
  if (measured == 0) {
    return true;
  }
  const double ratio = predicted / measured;
  std::printf("%-24s predicted %9.3f  measured %9.3f  ratio %.3f\n", name, predicted, measured,
              ratio);
  return std::abs(ratio - 1) <= kGoal;
}

int compare(const Arguments& a) {
  EngineOptions options;
  options.model = a.folder;
  options.threads = a.threads;
  options.step_rows = kStepRows;
  const std::unique_ptr<Engine> engine = Engine::open(options);
  const deepseek_v41::CostModel cost(deepseek_v41::read_config(a.folder + "/config.json"));
  const bool has_picture = a.picture > 0 && cost.config().vision.layers > 0;
  engine->generate(text_request(a, 0));  // brings the weights into memory
  std::vector<Run> runs;
  for (int i = 1; i <= a.runs; ++i) {
    const uint64_t seed = static_cast<uint64_t>(i);
    Run& run = runs.emplace_back();
    const auto measure = [&] {
      const Machine machine = measure_machine(
          cost.config(), {.threads = a.threads, .file = {}, .clock = a.clock, .on_progress = {}});
      print_machine(machine);
      return machine;
    };
    const Machine before = measure();
    run_text(a, *engine, seed, run);
    if (has_picture) {
      run_picture(a, *engine, seed, run);
    }
    const Machine after = measure();
    run.predicted = mean(predict(cost, before, run), predict(cost, after, run));
    std::printf(
        "run %d: %lld tokens, first after %.3f s (predicted %.3f), then %.3f tokens/s "
        "(%.3f), picture %.3f s (%.3f)\n",
        i, static_cast<long long>(run.prompt_tokens), run.measured.text_seconds,
        run.predicted.text_seconds, run.measured.tokens_per_second, run.predicted.tokens_per_second,
        run.measured.picture_seconds, run.predicted.picture_seconds);
    std::fflush(stdout);
  }
  std::printf("medians of %d runs, %d threads\n", a.runs, a.threads);
  bool is_near = report(runs, "answer, tokens/s", &Figures::tokens_per_second);
  is_near &= report(runs, "text, s to first token", &Figures::text_seconds);
  is_near &= report(runs, "picture, s", &Figures::picture_seconds);
  return is_near ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  Arguments a;
  if (!parse(count, arguments, a)) {
    std::fputs(
        "usage: plan_bench FOLDER [--threads N] [--prompt WORDS] [--answer TOKENS] "
        "[--picture PIXELS] [--runs N] [--clock wall|processor]\n",
        stderr);
    return 2;
  }
  try {
    return compare(a);
  } catch (const Error& error) {
    std::fprintf(stderr, "plan_bench: %s\n", error.what());
    return exit_status(error.code());
  }
}
