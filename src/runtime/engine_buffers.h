// Memory of the engine that steps use one after the other; it grows to what the largest one needed.
// Internal to the runtime.
#pragma once

#include <memory>
#include <mutex>

#include "models/deepseek_v41/model.h"
#include "models/deepseek_v41/step.h"
#include "models/deepseek_v41/vision.h"

namespace tessera {

struct EngineBuffers {
  std::unique_ptr<deepseek_v41::StepBuffers> step;
  std::unique_ptr<deepseek_v41::VisionBuffers<bf16>> vision;
};

// Whoever computes holds the model: the step loop for a step, generate() for a request. Who waits
// longer comes first, so the loop, which asks again at once, keeps nobody out.
class ModelMutex {
 public:
  class Lock {
   public:
    explicit Lock(ModelMutex& mutex) : mutex_(mutex) {
      const std::lock_guard next(mutex_.next_);
      mutex_.model_.lock();
    }
    ~Lock() { mutex_.model_.unlock(); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    ModelMutex& mutex_;
  };

 private:
  std::mutex next_;  // held while waiting for the model
  std::mutex model_;
};

// The buffers, with room for so much at least.
deepseek_v41::StepBuffers& step_buffers(const deepseek_v41::Config& config, int64_t rows,
                                        int64_t logit_rows,
                                        std::unique_ptr<deepseek_v41::StepBuffers>& buffers);

template <typename T>
deepseek_v41::VisionBuffers<T>& vision_buffers(
    const deepseek_v41::Config& config, int64_t patches,
    std::unique_ptr<deepseek_v41::VisionBuffers<T>>& buffers) {
  if (buffers == nullptr || buffers->patches < patches) {
    buffers = std::make_unique<deepseek_v41::VisionBuffers<T>>(config, patches);
  }
  return *buffers;
}

}  // namespace tessera
