// The step loop: many requests at once over one model. docs/engine.md says why none of them can
// change another one's tokens. Internal to the runtime.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/generation.h"
#include "runtime/request_task.h"

namespace tessera {

struct SchedulerContext {
  PromptContext prompt;
  int64_t context;       // most tokens of a sequence
  int64_t cache_tokens;  // of all sequences together; the pools hold that many
  int64_t sequences;     // at the same time; the pools have a page more for each
  ExecContext& ctx;
  deepseek_v41::CachePools& pools;
  PrefixCache& prefixes;
  PictureCache& picture_cache;
  EngineBuffers& buffers;
  ModelMutex& model;
};

class Scheduler {
 public:
  // Starts the loop and the threads that prepare pictures.
  explicit Scheduler(const SchedulerContext& context);
  // Ends what still runs, as if it had been cancelled.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Throws Error{queue_full}, and Error{bad_request} for options out of range.
  std::shared_ptr<Ticket> submit(Request request);

  // Waits until everything that was handed in has ended; submit() refuses meanwhile and after.
  void drain();

  ServingStatistics statistics() const;

  // The buffers of steps and pictures, as large as they can be needed. With the model held.
  void make_buffers();

 private:
  using TaskPtr = std::unique_ptr<RequestTask>;

  // Rows of one pass of the model, and whose they are. Its memory serves one step after the other.
  struct Step {
    deepseek_v41::StepPlan plan;
    std::vector<deepseek_v41::RowEnd> ends;
    std::vector<RequestTask::Run> runs;
    std::vector<RequestTask*> owners;  // of the runs
    int64_t answer_rows = 0;
    std::map<RequestTask*, Failure> failures;

    void clear();
  };

  void prepare_loop();
  std::deque<TaskPtr>::iterator next_to_prepare();
  void forget_ahead(RequestTask& task);
  void step_loop();

  // Of the step loop, with the model held.
  void drop_cancelled();
  bool refuse_what_never_fits();
  int64_t claimed_tokens() const;
  bool has_room(const RequestTask& task) const;
  void make_room(const RequestTask& task);
  void admit();
  void swap_out_latest();
  void encode_pictures();
  bool encode_tile();
  void begin_picture(RequestTask& task);
  void advance_picture();
  void plan_step();
  void compute();
  void hand_out();
  void step();
  void publish();
  void end(RequestTask& task);
  void fail(RequestTask& task, Failure failure);
  void fail_and_remove(RequestTask& task, Failure failure);
  // Runs work for one request; what it throws fails that request alone. Returns whether it ran.
  template <typename Work>
  bool guarded(RequestTask& task, const char* stage, const Work& work) {
    try {
      work();
      return true;
    } catch (...) {
      fail_and_remove(task, caught(stage));
      return false;
    }
  }
  // Of the exception that is being handled, with what was going on unless it says so itself.
  static Failure caught(std::string_view stage = {});
  bool is_decoding() const;
  bool has_work() const { return !admitted_.empty() || !swapped_.empty() || !waiting_.empty(); }
  std::array<std::list<TaskPtr>*, 3> lists() { return {&admitted_, &swapped_, &waiting_}; }

  SchedulerContext c_;
  const ServingLimits& limits_;

  mutable std::mutex mutex_;  // what follows is shared by all threads
  std::condition_variable changed_;
  std::condition_variable idle_;
  std::deque<TaskPtr> submitted_;
  std::list<TaskPtr> prepared_;
  int with_pictures_ = 0;         // requests with pictures that are being prepared
  std::set<RequestTask*> ahead_;  // those that are prepared and hold their pixels, without a place
  std::set<std::shared_ptr<Ticket>> unfinished_;  // handed in, not ended
  bool is_draining_ = false;
  bool is_stopping_ = false;
  ServingStatistics statistics_;

  // Of the step loop alone.
  // Each in the order of arrival; all of a list came before all of the next.
  std::list<TaskPtr> admitted_;  // have memory
  std::list<TaskPtr> swapped_;   // had it, and gave it to those before
  std::list<TaskPtr> waiting_;   // prepared
  struct PictureJob {
    RequestTask* task = nullptr;
    size_t picture = 0;
    std::unique_ptr<deepseek_v41::VisionJob<bf16>> job;
  };
  PictureJob picture_;
  Step step_;
  double picture_credit_ms_ = 0;  // encoding time that decoding streams still grant
  double last_step_ms_ = 0;

  std::vector<std::jthread> threads_;
};

}  // namespace tessera
