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

// One tile of the picture at hand, or the beginning of the next one; false if there is none.
bool Scheduler::encode_tile() {
  RequestTask* task = picture_.task;
  for (auto next = admitted_.begin(); task == nullptr && next != admitted_.end(); ++next) {
    if ((*next)->is_prefilling() && (*next)->next_picture().has_value()) {
      task = next->get();
    }
  }
  if (task == nullptr) {
    return false;
  }
  guarded(*task, "encoding a picture",
          [&] { picture_.task == nullptr ? begin_picture(*task) : advance_picture(); });
  return true;
}

void Scheduler::begin_picture(RequestTask& task) {
  const size_t i = *task.next_picture();
  if (auto known = c_.picture_cache.find(task.picture_key(i))) {
    return task.take_picture(i, std::move(known), true);
  }
  const deepseek_v41::Network& network = c_.prompt.model.network;
  const PreparedPicture& picture = task.picture(i);
  const deepseek_v41::Grid& grid = picture.image.plan.canvas.patches;
  picture_ = {.task = &task,
              .picture = i,
              .job = std::make_unique<deepseek_v41::VisionJob<bf16>>(
                  network, picture.image.patches.as<bf16>(), grid.rows, grid.columns, "image",
                  vision_buffers(network.config, grid.count(), c_.buffers.vision))};
}

void Scheduler::advance_picture() {
  RequestTask& task = *picture_.task;
  const size_t i = picture_.picture;
  deepseek_v41::VisionJob<bf16>& job = *picture_.job;
  const bool is_done = job.advance(c_.ctx, 1);
  task.report_picture(i, job.tiles_done(), job.tiles_total());
  if (is_done) {
    auto encoded = std::make_shared<EncodedPicture>();
    encoded->tokens = task.picture(i).image.plan.canvas.tokens;
    encoded->rows = job.take_out();
    c_.picture_cache.keep(task.picture_key(i), encoded);
    task.take_picture(i, std::move(encoded), false);
    picture_ = {};
  }
}

}  // namespace tessera
