#include "runtime/scheduler.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/stopwatch.h"
#include "base/str_cat.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookAgain{50};  // beats of the heart without work

}  // namespace

Scheduler::Scheduler(const SchedulerContext& context)
    : c_(context), limits_(context.prompt.options.serving) {
  threads_.emplace_back([this] { step_loop(); });
  for (int i = 0; i < limits_.prepare_threads; ++i) {
    threads_.emplace_back([this] { prepare_loop(); });
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
      throw QueueFull("the engine is shutting down; ask another one");
    }
    const int64_t count = static_cast<int64_t>(unfinished_.size());
    if (count >= limits_.max_queued) {
      throw QueueFull(str_cat(count, " requests are waiting or running, at most ",
                              limits_.max_queued, " are taken; try again later"));
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
  return now;
}

// Pictures are opened and resampled here, so that the step loop never waits for a file or a host.
void Scheduler::prepare_loop() {
  for (;;) {
    TaskPtr task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return is_stopping_ || !submitted_.empty(); });
      if (is_stopping_) {
        return;
      }
      task = std::move(submitted_.front());
      submitted_.pop_front();
    }
    std::exception_ptr error;
    try {
      task->prepare();
    } catch (...) {
      error = std::current_exception();
    }
    if (error != nullptr && !task->is_cancelled()) {
      fail(*task, error);
    } else if (error != nullptr) {
      end(*task);
    } else {
      const std::lock_guard lock(mutex_);
      prepared_.push_back(std::move(task));
    }
    changed_.notify_all();
  }
}

void Scheduler::step_loop() {
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
    step();
  }
  picture_ = {};
  for (std::list<TaskPtr>* list : {&waiting_, &admitted_}) {
    for (TaskPtr& task : *list) {
      end(*task);
    }
    list->clear();
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
  ++statistics_.ended;
  idle_.notify_all();
}

void Scheduler::fail(RequestTask& task, const std::exception_ptr& error) {
  const std::lock_guard lock(mutex_);
  task.fail(error);
  unfinished_.erase(task.ticket());
  ++statistics_.failed;
  idle_.notify_all();
}

void Scheduler::drop_cancelled() {
  for (std::list<TaskPtr>* list : {&waiting_, &admitted_}) {
    for (auto task = list->begin(); task != list->end();) {
      if (!(*task)->is_cancelled()) {
        ++task;
        continue;
      }
      if (picture_.task == task->get()) {
        picture_ = {};
      }
      if (list == &admitted_) {
        reserved_tokens_ -= (*task)->most_tokens();
      }
      end(**task);
      task = list->erase(task);
    }
  }
}

// In the order of arrival, and only with room for all that a request may need: nothing that runs is
// ever short of memory.
void Scheduler::admit() {
  while (!waiting_.empty()) {
    RequestTask& task = *waiting_.front();
    const int64_t tokens = task.most_tokens();
    if (tokens > c_.cache_tokens) {
      fail(task, std::make_exception_ptr(Error(
                     ErrorCode::bad_request,
                     str_cat("the request may need ", tokens,
                             " tokens (prompt and all answers), "
                             "the caches hold ",
                             c_.cache_tokens, "; lower max_tokens or n, or raise the limit"))));
      waiting_.pop_front();
      continue;
    }
    const bool has_place = static_cast<int64_t>(admitted_.size()) < limits_.max_running;
    if (!has_place || reserved_tokens_ + tokens > c_.cache_tokens) {
      return;
    }
    reserved_tokens_ += tokens;
    task.start(c_.pools,
               c_.kept.is_on() ? c_.kept.find(task.ids(), task.placed(), task.tenant()) : nullptr);
    admitted_.splice(admitted_.end(), waiting_, waiting_.begin());
  }
}

bool Scheduler::is_decoding() const {
  return std::any_of(admitted_.begin(), admitted_.end(), [](const TaskPtr& task) {
    return !task->is_prefilling() && task->active_answers() > 0;
  });
}

// Kept states give way to running sequences.
void Scheduler::make_room(int64_t rows) {
  const int64_t tables = static_cast<int64_t>(c_.prompt.model.network.config.kv_sources.size());
  const int64_t pages = tables * (rows / kPageRows + 2 * limits_.max_running + 2);
  const auto is_short = [&](const PagePool& pool) {
    return pool.pages() > 0 && pool.free_pages() < pages;
  };
  while ((is_short(c_.pools.kv) || is_short(c_.pools.index_keys)) && c_.kept.drop_oldest()) {
  }
}

// One row of every answer, then rows of prompts up to the budget.
Scheduler::Step Scheduler::plan_step() {
  Step step;
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
      task->add_prompt_run(budget, c_.kept.is_on(), step.plan, step.ends, step.runs);
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
  return step;
}

// All rows in one pass of the model.
void Scheduler::compute(Step& step) {
  const deepseek_v41::Config& config = c_.prompt.model.network.config;
  deepseek_v41::plan_needed_rows(step.plan, config, step.ends);
  deepseek_v41::StepBuffers& buffers = step_buffers(
      config, step.plan.rows(), static_cast<int64_t>(step.plan.logit_rows.size()), c_.buffers.step);
  make_room(step.plan.rows());
  for (const RequestTask::Run& run : step.runs) {
    run.state->prepare(config, run.rows);
  }
  deepseek_v41::forward(c_.ctx, c_.prompt.model.network, step.plan, buffers);
  for (size_t i = 0; i < step.runs.size(); ++i) {
    deepseek_v41::commit(config, step.plan, i, step.runs[i].rows, buffers, *step.runs[i].state);
  }
}

// Logits become tokens, states worth keeping are kept. What fails here fails one request.
void Scheduler::hand_out(Step& step) {
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
      if (std::optional<RequestTask::Keepsake> kept = task.keepsake(run);
          kept.has_value() && c_.kept.is_on()) {
        c_.kept.keep(*kept->state, kept->ids, task.placed(), task.tenant());
      }
    } catch (...) {
      step.failures.emplace(&task, std::current_exception());
    }
  }
}

void Scheduler::step() {
  Step step = plan_step();
  if (step.runs.empty()) {
    return;
  }
  const Clock::time_point start = Clock::now();
  try {
    compute(step);
    last_step_ms_ = ms_since(start);
    hand_out(step);
  } catch (...) {  // the step failed, and with it all that were in it
    for (RequestTask* task : step.owners) {
      step.failures.emplace(task, std::current_exception());
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
    reserved_tokens_ -= (*task)->most_tokens();
    failure != step.failures.end() ? fail(**task, failure->second) : end(**task);
    task = admitted_.erase(task);
  }
}

}  // namespace tessera
