#include "runtime/generation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/stopwatch.h"
#include "base/str_cat.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using deepseek_v41::StepPlan;

}  // namespace

Generation::Generation(const GenerationContext& context, const Request& request,
                       const Events& events)
    : c_(context),
      config_(context.prompt.model.network.config),
      request_(request),
      events_(events),
      state_(config_, context.pools),
      chooser_(c_.prompt, request) {
  result_.seed = request.sampling.seed;
  result_.is_thinking = is_thinking(context.prompt, request);
}

bool Generation::is_cancelled() const {
  return request_.cancel != nullptr && request_.cancel->load(std::memory_order_relaxed);
}

Result Generation::run() {
  c_.ctx.trace.stop();
  check_options(request_, OptionNames::api);
  check_ids(request_.scored_ids, "scored token");
  check_ids(request_.fed_ids, "recorded token");
  try {
    prepare();
    resume();
    encode_pictures();
  } catch (const Error&) {
    if (!is_cancelled()) {  // else the work on a picture stopped as it was asked to
      throw;
    }
  }
  if (!is_cancelled() && !request_.stops_after_vision) {
    rows_.place_spans(c_.prompt.model, prompt_.expanded, pictures_, state_.position);
    if (!request_.scored_ids.empty()) {
      score();
    } else if (!request_.calls.empty()) {
      replay();
    } else {
      prefill();
    }
  }
  result_.is_cancelled = is_cancelled();
  const bool wants_answer =
      request_.scored_ids.empty() && request_.calls.empty() && !request_.stops_after_vision;
  for (int64_t i = 0; wants_answer && i < request_.choices; ++i) {
    answer(i);
  }
  c_.ctx.trace.stop();
  return std::move(result_);
}

// Ids that the caller gives must be tokens of the model.
void Generation::check_ids(const std::vector<int32_t>& ids, const char* what) const {
  for (const int32_t id : ids) {
    if (id < 0 || id >= config_.vocab) {
      throw Error(ErrorCode::bad_request,
                  str_cat(what, " ", id, " is outside the vocabulary of ", config_.vocab));
    }
  }
}

void Generation::prepare() {
  for (const auto& [id, bias] : request_.sampling.logit_bias) {
    check_ids({id}, "logit_bias: token");
  }
  prompt_ = prepare_prompt(c_.prompt, request_, encode_prompt(c_.prompt, request_));
  describe_prompt(prompt_, c_.context, result_);
  for (const std::string& line : result_.notices) {
    if (events_.on_notice) {
      events_.on_notice(line);
    }
  }
  rows_.ids = prompt_.expanded.ids;
  rows_.types = prompt_.expanded.types;
  if (request_.sink != nullptr) {
    c_.ctx.trace.start(request_.sink, "");
    std::vector<int32_t> ids = rows_.ids;
    std::vector<int32_t> types(rows_.types.begin(), rows_.types.end());
    c_.ctx.trace.tap(mutable_view_of(ids.data(), {result_.prompt_tokens}), "ids");
    c_.ctx.trace.tap(mutable_view_of(types.data(), {result_.prompt_tokens}), "types");
  }
}

// Takes the longest beginning that an earlier request left.
void Generation::resume() {
  if (!keeps_states()) {
    return;
  }
  placed_ = placed_pictures(prompt_);
  if (std::optional<deepseek_v41::SequenceState> known = c_.prefixes.find(key())) {
    state_ = std::move(*known);
    state_.sampled = 0;
    result_.cached_tokens = state_.position;
  }
}

// The pictures of which any position is still to be computed.
void Generation::encode_pictures() {
  const Clock::time_point start = Clock::now();
  pictures_.resize(prompt_.pictures.size());
  for (size_t i = 0; i < prompt_.pictures.size() && !is_cancelled(); ++i) {
    const deepseek_v41::ImageSpan& span = prompt_.expanded.spans[i];
    if (span.start + span.length > state_.position) {
      pictures_[i] = encode(i);
      prompt_.pictures[i].image = {};  // pixels and patches are not needed any more
    }
  }
  result_.image_ms = ms_since(start);
}

// nullptr when the request was cancelled meanwhile.
std::shared_ptr<const EncodedPicture> Generation::encode(size_t i) {
  const std::string key = picture_key(request_.tenant, prompt_.pictures[i].content_key);
  const bool uses_cache = c_.picture_cache.is_on() && request_.sink == nullptr;
  if (uses_cache) {
    if (std::shared_ptr<const EncodedPicture> known = c_.picture_cache.find(key)) {
      ++result_.cached_pictures;
      return known;
    }
  }
  const int64_t count = static_cast<int64_t>(prompt_.pictures.size());
  const auto on_tile = [&](int64_t done, int64_t total) {
    if (events_.on_progress) {
      events_.on_progress("picture", static_cast<int64_t>(i) * total + done, count * total);
    }
    return !is_cancelled();
  };
  auto encoded = std::make_shared<EncodedPicture>();
  if (!encode_picture(c_.ctx, c_.prompt.model, c_.buffers.vision, prompt_.pictures[i],
                      static_cast<int64_t>(i), c_.prompt.options.fp32_vision, on_tile, *encoded)) {
    return nullptr;
  }
  if (uses_cache) {
    c_.picture_cache.keep(key, encoded);
  }
  return encoded;
}

void Generation::step(int64_t rows, int64_t logit_rows) {
  deepseek_v41::StepBuffers& buffers = step_buffers(config_, rows, logit_rows, c_.buffers.step);
  const size_t first = static_cast<size_t>(state_.position);
  const size_t count = static_cast<size_t>(rows);
  TESSERA_CHECK(first + count <= rows_.ids.size());
  StepPlan plan;
  deepseek_v41::add_run(plan, state_, std::span(rows_.ids).subspan(first, count),
                        std::span(rows_.types).subspan(first, count),
                        std::span(rows_.embeddings).subspan(first, count));
  if (request_.sink != nullptr || !request_.calls.empty() || c_.prompt.options.computes_all_rows) {
    deepseek_v41::plan_all_rows(plan, config_);
  } else {
    // Behind the last kv source only the rows that the end of the prompt can see. The state is
    // complete there and one token before, nowhere else inside the prompt.
    const deepseek_v41::RowEnd end = {
        .position = std::max(result_.prompt_tokens, state_.position + rows),
        .tail = std::max<int64_t>(logit_rows, 1)};
    deepseek_v41::plan_needed_rows(plan, config_, {&end, 1});
  }
  result_.layer_rows += deepseek_v41::layer_rows(plan);
  for (int64_t row = rows - logit_rows; row < rows; ++row) {
    plan.logit_rows.push_back(static_cast<int32_t>(row));
  }
  if (request_.sink != nullptr) {
    c_.ctx.trace.start(request_.sink, str_cat("c", result_.calls.size(), "."));
  }
  c_.prefixes.make_room(deepseek_v41::pages_of_run(config_, rows));
  state_.prepare(config_, rows);
  deepseek_v41::forward(c_.ctx, c_.prompt.model.network, plan, buffers);
  result_.calls.push_back({state_.position, rows});
  deepseek_v41::commit(config_, plan, 0, rows, buffers, state_);
}

std::span<float> Generation::logits_of(int64_t row) {
  return {c_.buffers.step->logits.as<float>() + row * config_.vocab,
          static_cast<size_t>(config_.vocab)};
}

int32_t Generation::choose(std::span<float> logits, int64_t index, TokenCounts& counts,
                           Choice& choice) {
  return chooser_.choose(logits, state_.position, index, state_.sampled++, counts, choice);
}

void Generation::prefill() {
  const Clock::time_point start = Clock::now();
  const int64_t total = result_.prompt_tokens;
  const int64_t most =
      request_.sink != nullptr ? total : std::max<int64_t>(c_.prompt.options.step_rows, 1);
  // The last token is a step of its own where states are kept: the next turn of a conversation
  // often differs from it on (chat specification 7.2, last point).
  const int64_t kept = keeps_states() ? total - 1 : total;
  while (state_.position < total && !is_cancelled()) {
    const int64_t end = state_.position < kept ? kept : total;
    const int64_t rows = std::min(most, end - state_.position);
    step(rows, state_.position + rows == total ? 1 : 0);
    if (state_.position == kept && kept < total) {
      c_.prefixes.keep(state_, key());
    }
    if (events_.on_progress) {
      events_.on_progress("prompt", state_.position, total);
    }
  }
  result_.prefill_ms = ms_since(start);
}

void Generation::answer(int64_t index) {
  Choice& choice = result_.choices.emplace_back();
  if (is_cancelled() || state_.position < result_.prompt_tokens) {
    choice.finish_reason = FinishReason::cancelled;
    result_.is_cancelled = true;
    return;
  }
  const Clock::time_point start = Clock::now();
  // All choices begin with the state and the logits behind the prompt.
  const bool is_last = index + 1 == request_.choices;
  std::optional<deepseek_v41::SequenceState> prompt_state;
  std::vector<float> prompt_logits;
  if (!is_last) {
    prompt_state = state_;
    const std::span<float> logits = logits_of(0);
    prompt_logits.assign(logits.begin(), logits.end());
  }
  AnswerWriter writer(c_.prompt.model.tokenizer,
                      {.start = prompt_.answer_start,
                       .parses_calls = !request_.is_plain_text,
                       .is_json = request_.is_json,
                       .stop = request_.stop},
                      [&](const AnswerDelta& delta) {
                        if (events_.on_delta) {
                          events_.on_delta(index, delta);
                        }
                      });
  TokenCounts counts = chooser_.counts_of(prompt_.ids);
  const int64_t most =
      most_answer_tokens(request_, c_.prompt.defaults, c_.context - result_.prompt_tokens);
  choice.finish_reason = FinishReason::length;
  while (static_cast<int64_t>(choice.ids.size()) < most) {
    if (is_cancelled()) {
      choice.finish_reason = FinishReason::cancelled;
      result_.is_cancelled = true;
      break;
    }
    const int32_t token = choose(logits_of(0), index, counts, choice);
    if (index == 0) {
      result_.call_tokens.push_back(token);
    }
    if (token == config_.eos_token && !request_.ignores_eos) {
      choice.finish_reason = FinishReason::stop;
      break;
    }
    writer.push(token);
    if (!writer.stop_string().empty()) {
      choice.finish_reason = FinishReason::stop;
      break;
    }
    if (static_cast<int64_t>(choice.ids.size()) < most) {
      rows_.push_text(token);
      step(1, 1);
    }
  }
  writer.finish(choice.finish_reason, choice);
  if (keeps_states() && index == 0) {
    c_.prefixes.keep(state_, key());
  }
  if (!is_last) {
    rows_.truncate(static_cast<size_t>(result_.prompt_tokens));
    state_ = std::move(*prompt_state);
    std::copy(prompt_logits.begin(), prompt_logits.end(), logits_of(0).begin());
  }
  result_.decode_ms += ms_since(start);
}

}  // namespace tessera
