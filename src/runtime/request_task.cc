#include "runtime/request_task.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/stopwatch.h"

namespace tessera {
namespace {

// Tokens that an answer has memory for from its beginning.
constexpr int64_t kReservedTokens = 8192;

bool has_picture(const std::vector<ContentBlock>& blocks) {
  return std::any_of(blocks.begin(), blocks.end(), [](const ContentBlock& block) {
    return block.kind == ContentBlock::Kind::image || has_picture(block.content);
  });
}

bool has_picture(const Request& request) {
  const auto in = [](const Message& message) { return has_picture(message.content); };
  return !request.raw_images.empty() ||
         std::any_of(request.messages.begin(), request.messages.end(), in) ||
         std::any_of(request.context.begin(), request.context.end(), in);
}

}  // namespace

RequestTask::RequestTask(const PromptContext& context, int64_t most_tokens, Request request,
                         std::shared_ptr<Ticket> ticket)
    : context_(context),
      context_tokens_(most_tokens),
      request_(std::move(request)),
      ticket_(std::move(ticket)),
      chooser_(context_, request_),
      has_pictures_(has_picture(request_)) {
  request_.cancel = &ticket_->cancelled();
  result_.seed = request_.sampling.seed;
  result_.is_thinking = is_thinking(context_, request_);
}

void RequestTask::prepare() {
  prompt_ = prepare_prompt(context_, request_, encode_prompt(context_, request_));
  describe_prompt(prompt_, context_tokens_, result_);
  for (const std::string& line : result_.notices) {
    RequestEvent event;
    event.kind = RequestEvent::Kind::notice;
    event.text = line;
    ticket_->push(std::move(event));
  }
  placed_ = placed_pictures(prompt_);
  pictures_.resize(prompt_.pictures.size());
  rows_.ids = prompt_.expanded.ids;
  rows_.types = prompt_.expanded.types;
  find_borders();
}

// Where other prompts may part from this one: before its first user turn (a system prompt that many
// share), before its last one (the next question about the same), and before its last token (the
// next turn of the conversation: chat specification 7.2, last point). Elsewhere at every interval.
void RequestTask::find_borders() {
  std::set<int64_t> ends = {result_.prompt_tokens - 1};
  const std::optional<int32_t> user = context_.encoder.user_token();
  if (user.has_value()) {
    const auto first = std::find(rows_.ids.begin(), rows_.ids.end(), *user);
    const auto last = std::find(rows_.ids.rbegin(), rows_.ids.rend(), *user);
    if (first != rows_.ids.end()) {
      ends.insert(first - rows_.ids.begin());
      ends.insert(rows_.ids.rend() - last - 1);
    }
  }
  const int64_t interval = context_.options.prefix_interval;
  int64_t next = interval;
  for (const int64_t end : ends) {
    for (; next < end; next += interval) {
      borders_.push_back({.position = next, .is_end = false});
    }
    if (end > 0) {
      borders_.push_back({.position = end, .is_end = true});
    }
    next += next == end ? interval : 0;
  }
}

int64_t RequestTask::most_answer_tokens() const {
  return tessera::most_answer_tokens(request_, context_.defaults,
                                     context_tokens_ - result_.prompt_tokens);
}

int64_t RequestTask::most_tokens() const {
  return result_.prompt_tokens + request_.choices * most_answer_tokens();
}

int64_t RequestTask::claimed_tokens() const {
  const int64_t most = most_answer_tokens();
  const int64_t room = context_.options.serving.answer_room;
  int64_t tokens = result_.prompt_tokens;
  if (answers_.empty()) {
    return tokens + request_.choices * std::min(most, room);
  }
  for (const AnswerRun& answer : answers_) {
    tokens += answer.is_done ? 0 : std::min(most, std::ssize(answer.choice.ids) + room);
  }
  return tokens;
}

void RequestTask::start(deepseek_v41::CachePools& pools, PrefixCache& prefixes) {
  result_.queue_ms = ms_since(submitted_);
  state_ = prefixes.find({request_.tenant, rows_.ids, placed_});
  if (state_.has_value()) {
    state_->sampled = 0;
    result_.cached_tokens = state_->position;
  } else {
    state_.emplace(context_.model.network.config, pools);
  }
}

void RequestTask::swap_out() {
  const deepseek_v41::Config& config = context_.model.network.config;
  for (AnswerRun& answer : answers_) {
    if (answer.state.has_value()) {
      answer.saved = answer.state->serialise(config, &*state_);
      answer.state.reset();
    }
  }
  saved_ = state_->serialise(config);
  state_.reset();
}

void RequestTask::swap_in(deepseek_v41::CachePools& pools) {
  using deepseek_v41::SequenceState;
  const deepseek_v41::Config& config = context_.model.network.config;
  state_ = SequenceState::deserialise(config, pools, std::exchange(saved_, {}));
  for (AnswerRun& answer : answers_) {
    if (!answer.saved.empty()) {
      answer.state =
          SequenceState::deserialise(config, pools, std::exchange(answer.saved, {}), &*state_);
    }
  }
}

std::optional<size_t> RequestTask::next_picture() const {
  for (size_t i = 0; i < pictures_.size(); ++i) {
    const deepseek_v41::ImageSpan& span = prompt_.expanded.spans[i];
    if (pictures_[i] == nullptr && span.start + span.length > state_->position) {
      return i;
    }
  }
  return std::nullopt;
}

void RequestTask::take_picture(size_t i, std::shared_ptr<const EncodedPicture> encoded,
                               bool is_cached) {
  pictures_[i] = std::move(encoded);
  prompt_.pictures[i].image = {};  // pixels and patches are not needed any more
  result_.cached_pictures += is_cached ? 1 : 0;
}

void RequestTask::report_picture(size_t i, int64_t done, int64_t total) {
  const int64_t count = static_cast<int64_t>(pictures_.size());
  report("picture", static_cast<int64_t>(i) * total + done, count * total);
}

void RequestTask::report(const char* stage, int64_t done, int64_t total) {
  RequestEvent event;
  event.kind = RequestEvent::Kind::progress;
  event.text = stage;
  event.done = done;
  event.total = total;
  ticket_->push(std::move(event));
}

int64_t RequestTask::active_answers() const {
  return std::count_if(answers_.begin(), answers_.end(),
                       [](const AnswerRun& answer) { return !answer.is_done; });
}

void RequestTask::add_prompt_run(int64_t most, bool keeps_states, deepseek_v41::StepPlan& plan,
                                 std::vector<deepseek_v41::RowEnd>& ends, std::vector<Run>& runs) {
  if (!has_rows_placed_) {
    rows_.place_spans(context_.model, prompt_.expanded, pictures_, state_->position);
    has_rows_placed_ = true;
  }
  const int64_t total = result_.prompt_tokens;
  // Steps end where a state is to be kept. Behind a state that lacks rings (prefix_cache.h) not
  // every border can be an end.
  int64_t end = total;
  for (const Border& border : borders_) {
    if (!keeps_states || border.position <= state_->position) {
      continue;
    }
    end = std::min(end, border.position);
    if (border.is_end &&
        deepseek_v41::can_reach(context_.model.network.config, *state_, border.position, 1)) {
      ends.push_back({.position = border.position, .tail = 1, .run = runs.size()});
    }
  }
  ends.push_back({.position = total, .tail = 1, .run = runs.size()});
  const int64_t rows = std::min(most, end - state_->position);
  const size_t first = static_cast<size_t>(state_->position);
  const size_t count = static_cast<size_t>(rows);
  deepseek_v41::add_run(plan, *state_, std::span(rows_.ids).subspan(first, count),
                        std::span(rows_.types).subspan(first, count),
                        std::span(rows_.embeddings).subspan(first, count));
  runs.push_back({.rows = rows,
                  .answer = -1,
                  .has_logits = state_->position + rows == total,
                  .state = &*state_});
}

void RequestTask::add_answer_runs(deepseek_v41::StepPlan& plan,
                                  std::vector<deepseek_v41::RowEnd>& ends, std::vector<Run>& runs) {
  for (size_t i = 0; i < answers_.size(); ++i) {
    AnswerRun& answer = answers_[i];
    if (answer.is_done) {
      continue;
    }
    deepseek_v41::SequenceState& state = *answer.state;
    deepseek_v41::add_run(plan, state, {&answer.choice.ids.back(), 1}, {}, {});
    ends.push_back({.position = state.position + 1, .tail = 1, .run = runs.size()});
    runs.push_back(
        {.rows = 1, .answer = static_cast<int64_t>(i), .has_logits = true, .state = &state});
  }
}

void RequestTask::take(const Run& run, std::span<float> logits, double step_ms) {
  if (run.answer >= 0) {
    result_.decode_ms += step_ms;
    advance(static_cast<size_t>(run.answer), logits);
    return;
  }
  result_.prefill_ms += step_ms;
  result_.calls.push_back({state_->position - run.rows, run.rows});
  report("prompt", state_->position, result_.prompt_tokens);
  if (run.has_logits) {
    begin_answers(logits);
  }
}

// Every answer begins with the state and the logits behind the prompt; its pictures are not needed
// any more.
void RequestTask::begin_answers(std::span<const float> logits) {
  rows_.embeddings.clear();
  pictures_.clear();
  answers_.reserve(static_cast<size_t>(request_.choices));
  // Longer answers take more when they get there.
  const int64_t tokens = std::min(most_answer_tokens(), kReservedTokens);
  result_.call_tokens.reserve(static_cast<size_t>(tokens));
  for (int64_t i = 0; i < request_.choices; ++i) {
    answers_.push_back(
        {.state = *state_, .saved = {}, .counts = {}, .writer = nullptr, .choice = {}});
    AnswerRun& answer = answers_.back();
    answer.counts = chooser_.counts_of(prompt_.ids);
    answer.writer = std::make_unique<AnswerWriter>(
        context_.model.tokenizer,
        deepseek_v41::CompletionOptions{.start = prompt_.answer_start,
                                        .parses_calls = !request_.is_plain_text,
                                        .is_json = request_.is_json,
                                        .stop = request_.stop},
        [this, i](const AnswerDelta& delta) {
          RequestEvent event;
          event.choice = i;
          event.delta = delta;
          ticket_->push(std::move(event));
        });
    answer.writer->reserve(tokens);
    answer.choice.ids.reserve(static_cast<size_t>(tokens));
    answer.state->reserve(context_.model.network.config, result_.prompt_tokens + tokens);
    std::vector<float> own(logits.begin(), logits.end());  // choosing changes them
    advance(static_cast<size_t>(i), own);
  }
}

void RequestTask::advance(size_t index, std::span<float> logits) {
  AnswerRun& answer = answers_[index];
  deepseek_v41::SequenceState& state = *answer.state;
  const int32_t token = chooser_.choose(logits, state.position, static_cast<int64_t>(index),
                                        state.sampled++, answer.counts, answer.choice);
  if (index == 0) {
    result_.call_tokens.push_back(token);
  }
  if (token == context_.model.network.config.eos_token && !request_.ignores_eos) {
    return close(answer, FinishReason::stop);
  }
  answer.writer->push(token);
  if (!answer.writer->stop_string().empty()) {
    return close(answer, FinishReason::stop);
  }
  if (static_cast<int64_t>(answer.choice.ids.size()) >= most_answer_tokens()) {
    close(answer, FinishReason::length);
  }
}

void RequestTask::close(AnswerRun& answer, FinishReason reason) {
  answer.writer->finish(reason, answer.choice);
  answer.is_done = true;
}

void RequestTask::keep_state(const Run& run, PrefixCache& prefixes) {
  PrefixKey key = {request_.tenant, rows_.ids, placed_};
  if (run.answer < 0) {
    const bool is_border = std::any_of(borders_.begin(), borders_.end(), [&](const Border& border) {
      return border.position == state_->position;
    });
    if (is_border) {
      prefixes.keep(*state_, key);
    }
    return;
  }
  AnswerRun& answer = answers_[static_cast<size_t>(run.answer)];
  if (!answer.is_done) {
    return;
  }
  if (run.answer == 0 && prefixes.is_on()) {
    std::vector<int32_t> ids = rows_.ids;
    ids.insert(ids.end(), answer.choice.ids.begin(), answer.choice.ids.end());
    key.ids = ids;
    prefixes.keep(*answer.state, key);
  }
  answer.state.reset();
}

void RequestTask::finish() {
  for (int64_t i = 0; i < request_.choices; ++i) {
    if (i < static_cast<int64_t>(answers_.size())) {
      AnswerRun& answer = answers_[static_cast<size_t>(i)];
      if (!answer.is_done) {
        close(answer, FinishReason::cancelled);
        result_.is_cancelled = true;
      }
      result_.choices.push_back(std::move(answer.choice));
    } else {
      result_.choices.emplace_back().finish_reason = FinishReason::cancelled;
      result_.is_cancelled = true;
    }
  }
  answers_.clear();
  state_.reset();
  result_.is_late = result_.is_cancelled && is_late();
  ticket_->finish(std::move(result_));
}

}  // namespace tessera
