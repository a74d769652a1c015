#include "runtime/generation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/str_cat.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using deepseek_v41::StepPlan;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

constexpr int64_t kScoredRows = 64;  // rows of one scoring step that give logits

}  // namespace

Generation::Generation(const GenerationContext& context, const Request& request,
                       const Events& events)
    : c_(context),
      request_(request),
      events_(events),
      state_(context.model.network.config, context.pools) {
  sampling_ = {.temperature = request.temperature.value_or(context.defaults.temperature),
               .top_p = request.top_p.value_or(context.defaults.top_p),
               .seed = request.seed};
  result_.seed = request.seed;
  result_.is_thinking = request.is_thinking.value_or(context.defaults.is_thinking);
}

bool Generation::is_cancelled() const {
  return request_.cancel != nullptr && request_.cancel->load(std::memory_order_relaxed);
}

int64_t Generation::max_tokens() const {
  const int64_t left = c_.context - result_.prompt_tokens;
  return std::min(request_.max_tokens.value_or(c_.defaults.max_tokens), left);
}

Result Generation::run() {
  c_.ctx.trace.stop();
  check_ids(request_.scored_ids, "scored token");
  check_ids(request_.fed_ids, "recorded token");
  make_prompt();
  encode_pictures();
  if (is_cancelled() || request_.stops_after_vision) {
    result_.finish_reason = is_cancelled() ? FinishReason::cancelled : FinishReason::stop;
    c_.ctx.trace.stop();
    return std::move(result_);
  }
  place_embeddings();
  if (!request_.scored_ids.empty()) {
    score();
  } else if (!request_.calls.empty()) {
    replay();
  } else {
    prefill();
    decode();
  }
  c_.ctx.trace.stop();
  return std::move(result_);
}

// Prompt ids with image spans; pictures are opened and planned here, since spans depend on their
// sizes.
void Generation::make_prompt() {
  const deepseek_v41::Config& config = c_.model.network.config;
  const deepseek_v41::PromptOptions options = {
      .is_thinking = result_.is_thinking,
      .effort = request_.effort.value_or(c_.defaults.effort),
      .revision = c_.options.encoding};
  deepseek_v41::Prompt prompt =
      request_.raw_prompt.has_value()
          ? c_.encoder.encode_raw(*request_.raw_prompt, request_.raw_images)
          : c_.encoder.encode(request_.messages, options, request_.context);
  result_.prompt_ids = prompt.ids;
  const bool has_vision = config.vision.layers > 0;
  std::vector<deepseek_v41::Grid> grids(prompt.images.size(), {1, 1});
  if (!has_vision || prompt.images.empty()) {  // says so before any picture is opened
    deepseek_v41::expand_images(prompt.ids, static_cast<int32_t>(config.image_token), grids,
                                has_vision);
  }
  for (size_t i = 0; i < prompt.images.size(); ++i) {
    prepared_.push_back(
        prepare_picture(prompt.images[i], request_.image_root, config, c_.options.pass_order));
    grids[i] = prepared_.back().image.plan.canvas.tokens;
  }
  prompt_ = deepseek_v41::expand_images(prompt.ids, static_cast<int32_t>(config.image_token), grids,
                                        has_vision);
  for (const deepseek_v41::ImageSpan& span : prompt_.spans) {
    result_.span_tokens.push_back(span.length);
    result_.image_tokens += span.length;
  }
  result_.prompt_tokens = static_cast<int64_t>(prompt_.ids.size());
  if (result_.prompt_tokens >= c_.context) {
    throw Error(ErrorCode::bad_request,
                str_cat("the prompt has ", result_.prompt_tokens, " tokens (", result_.image_tokens,
                        " of pictures), the context holds ", c_.context,
                        "; shorten it or raise --context"));
  }
  if (result_.prompt_tokens == 0) {
    throw Error(ErrorCode::bad_request, "the prompt is empty");
  }
  if (request_.sink != nullptr) {
    c_.ctx.trace.start(request_.sink, "");
    std::vector<int32_t> types(prompt_.types.begin(), prompt_.types.end());
    const int64_t tokens = result_.prompt_tokens;
    c_.ctx.trace.tap(mutable_view_of(prompt_.ids.data(), {tokens}), "ids");
    c_.ctx.trace.tap(mutable_view_of(types.data(), {tokens}), "types");
  }
}

void Generation::encode_pictures() {
  const Clock::time_point start = Clock::now();
  pictures_.resize(prepared_.size());
  for (size_t i = 0; i < prepared_.size(); ++i) {
    const auto on_tile = [&](int64_t done, int64_t total) {
      if (events_.on_progress) {
        events_.on_progress("picture", static_cast<int64_t>(i) * total + done,
                            static_cast<int64_t>(prepared_.size()) * total);
      }
      return !is_cancelled();
    };
    if (!encode_picture(c_.ctx, c_.model, c_.buffers.vision, prepared_[i], static_cast<int64_t>(i),
                        c_.options.fp32_vision, on_tile, pictures_[i])) {
      return;
    }
    prepared_[i].image = {};  // pixels and patches are not needed any more
  }
  result_.image_ms = ms_since(start);
}

// Rows that stand for the embedding of the span positions: learned delimiters and aligner rows.
void Generation::place_embeddings() {
  const deepseek_v41::VisionWeights& w = c_.model.network.weights.vision;
  sequence_ = prompt_.ids;
  types_ = prompt_.types;
  embeddings_.assign(sequence_.size(), nullptr);
  const int64_t row_bytes = c_.model.network.config.hidden * static_cast<int64_t>(sizeof(bf16));
  for (size_t i = 0; i < prompt_.spans.size(); ++i) {
    const deepseek_v41::ImageSpan& span = prompt_.spans[i];
    const std::byte* rows = pictures_[i].rows.view().data;
    for (int64_t p = span.start; p < span.start + span.length; ++p) {
      const size_t at = static_cast<size_t>(p);
      switch (types_[at]) {
        case deepseek_v41::kTypeImageStart:
          embeddings_[at] = w.image_start;
          break;
        case deepseek_v41::kTypeImageNewline:
          embeddings_[at] = w.image_newline;
          break;
        case deepseek_v41::kTypeImageEnd:
          embeddings_[at] = w.image_end;
          break;
        default:
          embeddings_[at] = rows;
          rows += row_bytes;
      }
    }
  }
}

// Ids that the caller gives must be tokens of the model.
void Generation::check_ids(const std::vector<int32_t>& ids, const char* what) const {
  for (const int32_t id : ids) {
    if (id < 0 || id >= c_.model.network.config.vocab) {
      throw Error(ErrorCode::bad_request, str_cat(what, " ", id, " is outside the vocabulary of ",
                                                  c_.model.network.config.vocab));
    }
  }
}

void Generation::step(int64_t rows, int64_t logit_rows) {
  const deepseek_v41::Config& config = c_.model.network.config;
  std::unique_ptr<deepseek_v41::StepBuffers>& buffers = c_.buffers.step;
  if (buffers == nullptr || rows > buffers->max_rows || logit_rows > buffers->max_logit_rows) {
    const int64_t most_rows = buffers == nullptr ? rows : std::max(rows, buffers->max_rows);
    const int64_t most_logits =
        buffers == nullptr ? logit_rows : std::max(logit_rows, buffers->max_logit_rows);
    buffers = std::make_unique<deepseek_v41::StepBuffers>(config, most_rows, most_logits);
  }
  const size_t first = static_cast<size_t>(state_.position);
  const size_t count = static_cast<size_t>(rows);
  TESSERA_CHECK(first + count <= sequence_.size());
  StepPlan plan;
  deepseek_v41::add_run(plan, state_, std::span(sequence_).subspan(first, count),
                        std::span(types_).subspan(first, count),
                        std::span(embeddings_).subspan(first, count));
  deepseek_v41::plan_all_rows(plan, config);
  for (int64_t row = rows - logit_rows; row < rows; ++row) {
    plan.logit_rows.push_back(static_cast<int32_t>(row));
  }
  if (request_.sink != nullptr) {
    c_.ctx.trace.start(request_.sink, str_cat("c", call_, "."));
  }
  state_.prepare(config, rows);
  deepseek_v41::forward(c_.ctx, c_.model.network, plan, *buffers);
  result_.calls.push_back({state_.position, rows});
  deepseek_v41::commit(config, plan, 0, rows, *buffers, state_);
  ++call_;
}

std::span<float> Generation::logits_of(int64_t row) {
  const int64_t vocab = c_.model.network.config.vocab;
  return {c_.buffers.step->logits.as<float>() + row * vocab, static_cast<size_t>(vocab)};
}

// Damaged weights or scales end here, not in an endless answer of token 0.
void Generation::check_logits(std::span<const float> logits) const {
  for (const float x : logits) {
    if (std::isnan(x)) {
      throw Error(ErrorCode::bad_file,
                  str_cat("the model computed NaN at position ", state_.position - 1,
                          "; its weights are damaged (check the files against their checksums)"));
    }
  }
}

// The next token. The image token is never chosen: re-encoded, it would count as a placeholder.
int32_t Generation::choose(std::span<float> logits) {
  check_logits(logits);
  const int64_t image_token = c_.model.network.config.image_token;
  if (!c_.options.samples_image_token && image_token >= 0) {
    logits[static_cast<size_t>(image_token)] = -std::numeric_limits<float>::infinity();
  }
  return sampler_.sample(logits, sampling_, 0, state_.sampled++);
}

void Generation::prefill() {
  const Clock::time_point start = Clock::now();
  const int64_t total = result_.prompt_tokens;
  const int64_t most =
      request_.sink != nullptr ? total : std::max<int64_t>(c_.options.step_rows, 1);
  while (state_.position < total && !is_cancelled()) {
    const int64_t rows = std::min(most, total - state_.position);
    step(rows, state_.position + rows == total ? 1 : 0);
    if (events_.on_progress) {
      events_.on_progress("prompt", state_.position, total);
    }
  }
  result_.prefill_ms = ms_since(start);
}

void Generation::decode() {
  const Clock::time_point start = Clock::now();
  StreamDecoder decoder(c_.model.tokenizer);
  const auto emit = [&](const std::string& text) {
    result_.text += text;
    if (events_.on_text && !text.empty()) {
      events_.on_text(text);
    }
  };
  const int64_t most = max_tokens();
  result_.finish_reason = FinishReason::length;
  while (static_cast<int64_t>(result_.ids.size()) < most) {
    if (is_cancelled()) {
      result_.finish_reason = FinishReason::cancelled;
      break;
    }
    const int32_t token = choose(logits_of(0));
    result_.call_tokens.push_back(token);
    result_.ids.push_back(token);
    if (token == c_.model.network.config.eos_token && !request_.ignores_eos) {
      result_.finish_reason = FinishReason::stop;
      break;
    }
    emit(decoder.push(token));
    if (static_cast<int64_t>(result_.ids.size()) == most) {
      break;
    }
    sequence_.push_back(token);
    types_.push_back(deepseek_v41::kTypeText);
    embeddings_.push_back(nullptr);
    step(1, 1);
  }
  emit(decoder.flush());
  result_.decode_ms = ms_since(start);
}

void Generation::score() {
  const std::vector<int32_t>& ids = request_.scored_ids;
  const int64_t total = result_.prompt_tokens + static_cast<int64_t>(ids.size());
  if (total > c_.context) {
    throw Error(ErrorCode::bad_request,
                str_cat("prompt and scored ids have ", total, " tokens, the context holds ",
                        c_.context, "; raise --context"));
  }
  prefill();
  if (is_cancelled()) {
    result_.finish_reason = FinishReason::cancelled;
    return;
  }
  check_logits(logits_of(0));
  result_.scored_logprobs.push_back(log_probability(logits_of(0), ids[0]));
  for (size_t done = 1; done < ids.size();) {
    const size_t rows = std::min<size_t>(kScoredRows, ids.size() - done);
    for (size_t i = 0; i < rows; ++i) {
      sequence_.push_back(ids[done - 1 + i]);
      types_.push_back(deepseek_v41::kTypeText);
      embeddings_.push_back(nullptr);
    }
    step(static_cast<int64_t>(rows), static_cast<int64_t>(rows));
    for (size_t i = 0; i < rows; ++i) {
      check_logits(logits_of(static_cast<int64_t>(i)));
      result_.scored_logprobs.push_back(
          log_probability(logits_of(static_cast<int64_t>(i)), ids[done + i]));
    }
    done += rows;
  }
}

// The recorded calls, each with the recorded tokens: inside the prompt its own ids, behind it the
// token after the call before.
void Generation::replay() {
  for (size_t i = 0; i < request_.calls.size() && !is_cancelled(); ++i) {
    const CallPlan& call = request_.calls[i];
    if (call.start != state_.position || call.rows < 1) {
      throw Error(ErrorCode::bad_request,
                  str_cat("call ", i, " starts at ", call.start, " with ", call.rows,
                          " rows, expected a start of ", state_.position));
    }
    const int64_t end = call.start + call.rows;
    if (end > static_cast<int64_t>(sequence_.size())) {
      const bool is_next = end == static_cast<int64_t>(sequence_.size()) + 1 && i > 0;
      if (!is_next || end > c_.context) {
        throw Error(ErrorCode::bad_request,
                    str_cat("call ", i, " ends at position ", end, ", the prompt has ",
                            result_.prompt_tokens, " tokens and the context ", c_.context));
      }
      sequence_.push_back(i - 1 < request_.fed_ids.size() ? request_.fed_ids[i - 1]
                                                          : result_.call_tokens.back());
      types_.push_back(deepseek_v41::kTypeText);
      embeddings_.push_back(nullptr);
    }
    step(call.rows, 1);
    result_.call_tokens.push_back(choose(logits_of(0)));
  }
  if (result_.calls.size() < request_.calls.size()) {
    result_.finish_reason = FinishReason::cancelled;
  }
  result_.ids = result_.call_tokens;
}

}  // namespace tessera
