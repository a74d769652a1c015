#include "calibrate.h"

#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "interrupt.h"
#include "output.h"
#include "runtime/engine.h"

namespace tessera {
namespace {

constexpr int64_t kAnswerTokens = 16;
constexpr float kLargestE2m1 = 6.0f;
constexpr float kLargestE4m3 = 448.0f;

}  // namespace

std::map<std::string, float, std::less<>> calibrate_input_scales(const Calibration& calibration) {
  if (calibration.prompts.empty()) {
    throw Error(ErrorCode::bad_request,
                "NVFP4 quantises the experts' inputs by scales that are measured; give requests to "
                "measure on with --calibrate FILE");
  }
  const std::vector<InputCase> cases = read_input_file(calibration.prompts);
  EngineOptions options;
  options.model = calibration.model;
  options.threads = calibration.threads;
  options.computes_all_rows = true;
  options.measures_inputs = true;
  const std::unique_ptr<Engine> engine = Engine::open(options);
  ProgressBar bar(calibration.is_quiet);
  for (size_t i = 0; i < cases.size(); ++i) {
    if (interrupt_flag().load()) {
      throw Error(ErrorCode::cancelled, "interrupted while calibrating; nothing was written");
    }
    Request request = cases[i].request;
    request.max_tokens = kAnswerTokens;
    engine->generate(request);
    bar.update("calibrating", static_cast<int64_t>(i + 1), static_cast<int64_t>(cases.size()));
  }
  std::map<std::string, float, std::less<>> scales;
  for (const auto& [name, largest] : engine->expert_input_ranges()) {
    scales[name] = largest / (kLargestE2m1 * kLargestE4m3);
  }
  return scales;
}

}  // namespace tessera
