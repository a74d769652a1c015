#include "runtime/scheduler.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/stopwatch.h"
#include "base/str_cat.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookAgain{50};  // beats of the heart without work

}  // namespace

Failure Scheduler::caught(std::string_view stage) {
  const std::string_view colon = stage.empty() ? "" : ": ";
  try {
    throw;
  } catch (const Error& error) {
    return {error.code(), str_cat(stage, colon, error.what())};
  } catch (const std::bad_alloc&) {
    return {ErrorCode::out_of_memory, str_cat(stage, colon, "the machine has no memory left")};
  } catch (const std::exception& error) {
    return {ErrorCode::io, str_cat(stage, colon, error.what())};
  }
}

Scheduler::Scheduler(const SchedulerContext& context)
    : c_(context), limits_(context.prompt.options.serving) {
  threads_.emplace_back([this] { step_loop(); });
  for (int i = 0; i < limits_.prepare_threads; ++i) {
    threads_.emplace_back([this] { prepare_loop(); });
  }
}

void Scheduler::make_buffers() {
  const deepseek_v41::Config& config = c_.prompt.model.network.config;
  const int64_t step_rows = c_.prompt.options.step_rows;
  step_buffers(config,
               std::max(step_rows, c_.sequences + std::min(step_rows, limits_.rows_beside_answers)),
               c_.sequences + limits_.max_running, c_.buffers.step);
  if (config.vision.layers > 0) {
    vision_buffers(config, config.vision.most_patches(), c_.buffers.vision);
  }
}

Scheduler::~Scheduler() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    for (const std::shared_ptr<Ticket>& ticket : unfinished_) {
      ticket->cancel();  // nobody waits for a far host
    }
  }
  changed_.notify_all();
  threads_.clear();  // joins
  for (TaskPtr& task : submitted_) {
    task->finish();
  }
  for (TaskPtr& task : prepared_) {
    task->finish();
  }
}

std::shared_ptr<Ticket> Scheduler::submit(Request request) {
  check_options(request, OptionNames::api);
  if (request.sink != nullptr || !request.calls.empty() || !request.scored_ids.empty()) {
    throw Error(ErrorCode::bad_request,
                "traces, replays and scores do not run beside other requests; use generate()");
  }
  auto ticket = std::make_shared<Ticket>();
  auto task = std::make_unique<RequestTask>(c_.prompt, c_.context, std::move(request), ticket);
  {
    const std::lock_guard lock(mutex_);
    if (is_draining_ || is_stopping_) {
      throw Error(ErrorCode::queue_full, "the engine is shutting down; ask another one");
    }
    const int64_t count = static_cast<int64_t>(unfinished_.size());
    if (count >= limits_.max_queued) {
      throw Error(ErrorCode::queue_full,
                  str_cat(count, " requests are waiting or running, at most ", limits_.max_queued,
                          " are taken; try again later"));
    }
    unfinished_.insert(ticket);
    ++statistics_.submitted;
    submitted_.push_back(std::move(task));
  }
  changed_.notify_all();
  return ticket;
}

void Scheduler::drain() {
  std::unique_lock lock(mutex_);
  is_draining_ = true;
  idle_.wait(lock, [&] { return unfinished_.empty(); });
}

ServingStatistics Scheduler::statistics() const {
  const std::lock_guard lock(mutex_);
  ServingStatistics now = statistics_;
  now.unfinished = static_cast<int64_t>(unfinished_.size());
  now.waiting += static_cast<int64_t>(submitted_.size() + prepared_.size());
  return now;
}

// One of several threads is left to requests without pictures, and no more pictures are decoded
// ahead than may run: their pixels are the largest thing that a waiting request has.
std::deque<Scheduler::TaskPtr>::iterator Scheduler::next_to_prepare() {
  const bool takes_pictures =
      (limits_.prepare_threads == 1 || with_pictures_ + 1 < limits_.prepare_threads) &&
      std::ssize(ahead_) < limits_.max_running;
  return std::find_if(submitted_.begin(), submitted_.end(),
                      [&](const TaskPtr& task) { return takes_pictures || !task->has_pictures(); });
}

// Pictures are opened and resampled here, so that the step loop never waits for a file or a host.
void Scheduler::prepare_loop() {
  for (;;) {
    TaskPtr task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return is_stopping_ || next_to_prepare() != submitted_.end(); });
      if (is_stopping_) {
        return;
      }
      const auto next = next_to_prepare();
      task = std::move(*next);
      submitted_.erase(next);
      with_pictures_ += task->has_pictures() ? 1 : 0;
    }
    const int pictures = task->has_pictures() ? 1 : 0;
    std::optional<Failure> failure;
    try {
      task->prepare();
    } catch (...) {
      failure = caught();
    }
    if (failure.has_value() && !task->is_cancelled()) {
      fail(*task, std::move(*failure));
    } else if (failure.has_value()) {
      end(*task);
    } else {
      const std::lock_guard lock(mutex_);
      if (pictures > 0) {
        ahead_.insert(task.get());
      }
      prepared_.push_back(std::move(task));
    }
    {
      const std::lock_guard lock(mutex_);
      with_pictures_ -= pictures;
    }
    changed_.notify_all();
  }
}

void Scheduler::step_loop() {
  pthread_setname_np(pthread_self(), "tessera-step");
  {
    const ModelMutex::Lock model(c_.model);
    make_buffers();
  }
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      const auto is_awake = [&] { return is_stopping_ || !prepared_.empty() || has_work(); };
      while (!changed_.wait_for(lock, kLookAgain, is_awake)) {
        ++statistics_.heartbeat;
      }
      ++statistics_.heartbeat;
      if (is_stopping_) {
        break;
      }
      waiting_.splice(waiting_.end(), prepared_);
    }
    const ModelMutex::Lock model(c_.model);
    c_.ctx.trace.stop();
    drop_cancelled();
    admit();
    encode_pictures();
    swap_out_latest();
    step();
    publish();
  }
  picture_ = {};
  for (std::list<TaskPtr>* list : lists()) {
    for (TaskPtr& task : *list) {
      end(*task);
    }
    list->clear();
  }
}

// With the mutex held: another request with pictures may be prepared.
void Scheduler::forget_ahead(RequestTask& task) {
  if (ahead_.erase(&task) > 0) {
    changed_.notify_all();
  }
}

// Counted before anybody can see that it has ended.
void Scheduler::end(RequestTask& task) {
  const std::lock_guard lock(mutex_);
  const Result& result = task.result();
  statistics_.prompt_tokens += result.prompt_tokens;
  statistics_.cached_tokens += result.cached_tokens;
  statistics_.pictures += static_cast<int64_t>(result.span_tokens.size());
  statistics_.cached_pictures += result.cached_pictures;
  task.finish();
  unfinished_.erase(task.ticket());
  forget_ahead(task);
  ++statistics_.ended;
  idle_.notify_all();
}

void Scheduler::fail(RequestTask& task, Failure failure) {
  const std::lock_guard lock(mutex_);
  task.fail(std::move(failure));
  unfinished_.erase(task.ticket());
  forget_ahead(task);
  ++statistics_.failed;
  idle_.notify_all();
}

void Scheduler::fail_and_remove(RequestTask& task, Failure failure) {
  if (picture_.task == &task) {
    picture_ = {};
  }
  fail(task, std::move(failure));
  for (std::list<TaskPtr>* list : lists()) {
    list->remove_if([&task](const TaskPtr& other) { return other.get() == &task; });
  }
}

void Scheduler::drop_cancelled() {
  for (std::list<TaskPtr>* list : lists()) {
    for (auto task = list->begin(); task != list->end();) {
      if (!(*task)->is_cancelled()) {
        ++task;
        continue;
      }
      if (picture_.task == task->get()) {
        picture_ = {};
      }
      end(**task);
      task = list->erase(task);
    }
  }
}

// Of all that have memory.
int64_t Scheduler::claimed_tokens() const {
  int64_t tokens = 0;
  for (const TaskPtr& task : admitted_) {
    tokens += task->claimed_tokens();
  }
  return tokens;
}

bool Scheduler::has_room(const RequestTask& task) const {
  int64_t sequences = task.sequences();
  for (const TaskPtr& other : admitted_) {
    sequences += other->sequences();
  }
  return std::ssize(admitted_) < limits_.max_running && sequences <= c_.sequences &&
         claimed_tokens() + task.claimed_tokens() <= c_.cache_tokens;
}

// What is kept gives way to what runs.
void Scheduler::make_room(const RequestTask& task) {
  const deepseek_v41::Config& config = c_.prompt.model.network.config;
  c_.prefixes.make_room(deepseek_v41::pages_of_run(config, task.claimed_tokens()) +
                        task.sequences() * std::ssize(config.kv_sources));
}

// Fails the first waiting request if it could not even run alone; false if there is none like that.
bool Scheduler::refuse_what_never_fits() {
  if (waiting_.empty() || waiting_.front()->most_tokens() <= c_.cache_tokens) {
    return false;
  }
  fail(*waiting_.front(),
       {ErrorCode::bad_request,
        str_cat("the request may need ", waiting_.front()->most_tokens(),
                " tokens (prompt and all answers), the caches hold ", c_.cache_tokens,
                "; lower max_tokens or n, or raise the limit")});
  waiting_.pop_front();
  return true;
}

// In the order of arrival, and only with room for the prompt and the beginning of all answers.
void Scheduler::admit() {
  while (!swapped_.empty() && has_room(*swapped_.front())) {
    RequestTask& task = *swapped_.front();
    make_room(task);
    if (guarded(task, "taking a request back", [&] { task.swap_in(c_.pools); })) {
      admitted_.splice(admitted_.end(), swapped_, swapped_.begin());
    }
  }
  while (swapped_.empty() && !waiting_.empty()) {
    if (refuse_what_never_fits()) {
      continue;
    }
    if (!has_room(*waiting_.front())) {
      break;
    }
    RequestTask& task = *waiting_.front();
    if (guarded(task, "admitting a request", [&] { task.start(c_.pools, c_.prefixes); })) {
      admitted_.splice(admitted_.end(), waiting_, waiting_.begin());
      const std::lock_guard lock(mutex_);
      forget_ahead(task);
    }
  }
}

// Answers have grown into the room of others: who came last gives way. The first one always fits.
void Scheduler::swap_out_latest() {
  while (admitted_.size() > 1 && claimed_tokens() > c_.cache_tokens) {
    admitted_.back()->swap_out();
    swapped_.splice(swapped_.begin(), admitted_, std::prev(admitted_.end()));
    const std::lock_guard lock(mutex_);
    ++statistics_.swapped_out;
  }
}

// What others may see of the loop's own lists and of the cache.
void Scheduler::publish() {
  const PrefixStatistics kept = c_.prefixes.statistics();
  const std::lock_guard lock(mutex_);
  statistics_.running = std::ssize(admitted_);
  statistics_.waiting = std::ssize(swapped_) + std::ssize(waiting_);
  const PagePool& kv = c_.pools.kv;
  const PagePool& keys = c_.pools.index_keys;
  statistics_.cache_pages = kv.pages() + keys.pages();
  statistics_.used_cache_pages = statistics_.cache_pages - kv.free_pages() - keys.free_pages();
  statistics_.kept_states = kept.snapshots;
  statistics_.kept_state_bytes = kept.bytes;
  statistics_.evicted_states = kept.evicted;
}

bool Scheduler::is_decoding() const {
  return std::any_of(admitted_.begin(), admitted_.end(), [](const TaskPtr& task) {
    return !task->is_prefilling() && task->active_answers() > 0;
  });
}

void Scheduler::Step::clear() {
  plan.clear();
  ends.clear();
  runs.clear();
  owners.clear();
  answer_rows = 0;
  failures.clear();
}

// One row of every answer, then rows of prompts up to the budget.
void Scheduler::plan_step() {
  Step& step = step_;
  step.clear();
  const auto own = [&](RequestTask& task) { step.owners.resize(step.runs.size(), &task); };
  for (const TaskPtr& task : admitted_) {
    if (!task->is_prefilling()) {
      task->add_answer_runs(step.plan, step.ends, step.runs);
      own(*task);
    }
  }
  step.answer_rows = step.plan.rows();
  int64_t budget = c_.prompt.options.step_rows;
  if (step.answer_rows > 0) {
    budget = std::min(budget, limits_.rows_beside_answers);
  }
  for (const TaskPtr& task : admitted_) {
    if (budget > 0 && task->is_prefilling() && !task->next_picture().has_value()) {
      const int64_t before = step.plan.rows();
      task->add_prompt_run(budget, c_.prefixes.is_on(), step.plan, step.ends, step.runs);
      own(*task);
      budget -= step.plan.rows() - before;
    }
  }
  for (size_t i = 0; i < step.runs.size(); ++i) {
    if (step.runs[i].has_logits) {
      const deepseek_v41::StepRun& run = step.plan.runs[i];
      step.plan.logit_rows.push_back(static_cast<int32_t>(run.first_row + run.rows - 1));
    }
  }
}

// All rows in one pass of the model.
void Scheduler::compute() {
  Step& step = step_;
  const deepseek_v41::Config& config = c_.prompt.model.network.config;
  if (c_.prompt.options.computes_all_rows) {
    deepseek_v41::plan_all_rows(step.plan, config);
  } else {
    deepseek_v41::plan_needed_rows(step.plan, config, step.ends);
  }
  deepseek_v41::StepBuffers& buffers = step_buffers(
      config, step.plan.rows(), static_cast<int64_t>(step.plan.logit_rows.size()), c_.buffers.step);
  int64_t pages = 0;
  for (const RequestTask::Run& run : step.runs) {
    pages += deepseek_v41::pages_of_run(config, run.rows);
  }
  c_.prefixes.make_room(pages);
  for (const RequestTask::Run& run : step.runs) {
    run.state->prepare(config, run.rows);
  }
  deepseek_v41::forward(c_.ctx, c_.prompt.model.network, step.plan, buffers);
  for (size_t i = 0; i < step.runs.size(); ++i) {
    deepseek_v41::commit(config, step.plan, i, step.runs[i].rows, buffers, *step.runs[i].state);
  }
}

// Logits become tokens, states worth keeping are kept. What fails here fails one request.
void Scheduler::hand_out() {
  Step& step = step_;
  const size_t vocab = static_cast<size_t>(c_.prompt.model.network.config.vocab);
  float* logits = c_.buffers.step->logits.as<float>();
  for (size_t i = 0; i < step.runs.size(); ++i) {
    const RequestTask::Run& run = step.runs[i];
    RequestTask& task = *step.owners[i];
    std::span<float> own;
    if (run.has_logits) {
      own = {logits, vocab};
      logits += vocab;
    }
    try {
      task.take(run, own, last_step_ms_);
      task.keep_state(run, c_.prefixes);
    } catch (...) {
      step.failures.emplace(&task, caught());
    }
  }
}

void Scheduler::step() {
  plan_step();
  Step& step = step_;
  if (step.runs.empty()) {
    return;
  }
  const Clock::time_point start = Clock::now();
  try {
    compute();
    last_step_ms_ = ms_since(start);
    hand_out();
  } catch (...) {  // the step failed, and with it all that were in it
    const Failure failure = caught("computing a step");
    for (RequestTask* task : step.owners) {
      step.failures.emplace(task, failure);
    }
  }
  {
    const std::lock_guard lock(mutex_);
    ++statistics_.steps;
    statistics_.rows += step.plan.rows();
    statistics_.answer_rows += step.answer_rows;
  }
  for (auto task = admitted_.begin(); task != admitted_.end();) {
    const auto failure = step.failures.find(task->get());
    if (failure == step.failures.end() && !(*task)->has_ended()) {
      ++task;
      continue;
    }
    failure != step.failures.end() ? fail(**task, std::move(failure->second)) : end(**task);
    task = admitted_.erase(task);
  }
}

}  // namespace tessera
