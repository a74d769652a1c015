// What tracing costs: the demo model answers with and without a trace of every tap, in alternation,
// one thread. Prints medians and their ratio for prompts up to 512 tokens and for one with a
// picture, and the time of a trace of the vision tower alone.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "runtime/engine.h"
#include "trace/sinks.h"

namespace {

using namespace tessera;  // NOLINT: a program
using Clock = std::chrono::steady_clock;

constexpr int kRuns = 9;
constexpr int64_t kAnswer = 16;

Request request_of(const std::string& text, const std::string& picture) {
  Request request;
  Message message;
  if (!picture.empty()) {
    message.content.emplace_back();
    message.content.back().kind = ContentBlock::Kind::image;
    message.content.back().image.value = picture;
  }
  message.content.emplace_back();
  message.content.back().text = text;
  request.messages.push_back(std::move(message));
  request.sampling.temperature = 0;
  request.max_tokens = kAnswer;
  request.ignores_eos = true;
  return request;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double run(Engine& engine, Request request, const std::string& file) {
  const Clock::time_point start = Clock::now();
  if (file.empty()) {
    engine.generate(request);
  } else {
    trace::Writer writer(file);
    request.sink = &writer;
    engine.generate(request);
    writer.commit();
  }
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void compare(Engine& engine, const std::string& name, const Request& request,
             const std::string& file) {
  std::vector<double> plain, traced, ratios;
  for (int i = 0; i < kRuns; ++i) {
    plain.push_back(run(engine, request, ""));
    traced.push_back(run(engine, request, file));
    ratios.push_back(traced.back() / plain.back());
  }
  const size_t tokens = engine.encode(request, ImageSpans::expand).expanded_ids.size();
  std::cout << str_cat(name, ": ", tokens, " + ", kAnswer, " tokens, ", median(plain),
                       " ms; traced ", median(traced), " ms, ", median(ratios), " times, ",
                       std::filesystem::file_size(file) / 1'000'000, " MB\n");
}

void run_all(const std::string& model, const std::string& folder) {
  EngineOptions options;
  options.model = model;
  options.threads = 1;
  const std::unique_ptr<Engine> engine = Engine::open(options);
  const std::string file = folder + "/trace.safetensors";
  for (const int words : {16, 120, 480}) {
    std::string text;
    for (int i = 0; i < words; ++i) {
      text += i % 3 == 0 ? "red " : i % 3 == 1 ? "cat " : "two ";
    }
    compare(*engine, str_cat(words, " words"), request_of(text, ""), file);
  }
  const std::string picture = model + "/eval/images/p019.jpg";
  const Request request = request_of("Count the carrots.", picture);
  compare(*engine, "picture", request, file);
  Request vision = request;
  vision.stops_after_vision = true;
  std::vector<double> times;
  for (int i = 0; i < kRuns; ++i) {
    times.push_back(run(*engine, vision, file));
  }
  std::cout << str_cat("vision alone, traced: ", median(times), " ms\n");
}

}  // namespace

int main() {
  std::string folder = (std::filesystem::temp_directory_path() / "tessera-bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    std::cerr << "cannot make a folder " << folder << "\n";
    return 3;
  }
  int status = 0;
  try {
    run_all(TESSERA_SOURCE_FOLDER "/models/demo", folder);
  } catch (const Error& error) {
    std::cerr << "trace_bench: " << error.what() << "\n";
    status = 2;
  }
  std::filesystem::remove_all(folder);
  return status;
}
