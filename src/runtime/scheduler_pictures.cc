// The step loop's share of time for pictures.
#include <algorithm>
#include <chrono>
#include <utility>

#include "base/stopwatch.h"
#include "runtime/scheduler.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// Pictures at a time while no answer waits: then new and cancelled requests are looked at.
constexpr double kPictureTurnMs = 20;

}  // namespace

// While answers are being written, pictures get their share of the time and at most one tile more.
void Scheduler::encode_pictures() {
  if (!is_decoding()) {
    picture_credit_ms_ = 0;
    const Clock::time_point start = Clock::now();
    while (ms_since(start) < kPictureTurnMs && encode_tile()) {
    }
    return;
  }
  const double share = limits_.encode_share;
  picture_credit_ms_ =
      std::min(picture_credit_ms_ + last_step_ms_ * share / (1 - share), last_step_ms_);
  while (picture_credit_ms_ > 0) {
    const Clock::time_point start = Clock::now();
    if (!encode_tile()) {
      return;
    }
    picture_credit_ms_ -= ms_since(start);
  }
}

// One tile of the picture at hand, or of the next one; false if there is none.
bool Scheduler::encode_tile() {
  if (picture_.task == nullptr) {
    for (const TaskPtr& task : admitted_) {
      const std::optional<size_t> next =
          task->is_prefilling() ? task->next_picture() : std::nullopt;
      if (!next.has_value()) {
        continue;
      }
      if (auto known = c_.picture_cache.find(task->picture_key(*next))) {
        task->take_picture(*next, std::move(known), true);
        return true;
      }
      const PreparedPicture& picture = task->picture(*next);
      const deepseek_v41::Grid& grid = picture.image.plan.canvas.patches;
      picture_.task = task.get();
      picture_.picture = *next;
      picture_.job = std::make_unique<deepseek_v41::VisionJob<bf16>>(
          c_.prompt.model.network, picture.image.patches.as<bf16>(), grid.rows, grid.columns,
          "image", vision_buffers(c_.prompt.model.network.config, grid.count(), c_.buffers.vision));
      break;
    }
    if (picture_.task == nullptr) {
      return false;
    }
  }
  deepseek_v41::VisionJob<bf16>& job = *picture_.job;
  const bool is_done = job.advance(c_.ctx, 1);
  picture_.task->report_picture(picture_.picture, job.tiles_done(), job.tiles_total());
  if (is_done) {
    const PreparedPicture& picture = picture_.task->picture(picture_.picture);
    auto encoded = std::make_shared<EncodedPicture>();
    encoded->tokens = picture.image.plan.canvas.tokens;
    encoded->rows = job.take_out();
    c_.picture_cache.keep(picture_.task->picture_key(picture_.picture), encoded);
    picture_.task->take_picture(picture_.picture, std::move(encoded), false);
    picture_ = {};
  }
  return true;
}

}  // namespace tessera
