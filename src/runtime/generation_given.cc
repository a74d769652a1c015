// Requests whose tokens are given: scoring and replay.
#include "base/error.h"
#include "base/str_cat.h"
#include "runtime/generation.h"

namespace tessera {
namespace {

constexpr int64_t kScoredRows = 64;  // rows of one scoring step that give logits

}  // namespace

void Generation::score() {
  const std::vector<int32_t>& ids = request_.scored_ids;
  const int64_t total = result_.prompt_tokens + static_cast<int64_t>(ids.size());
  if (total > c_.context) {
    throw Error(ErrorCode::context_exceeded,
                str_cat("prompt and scored ids have ", total, " tokens, the context holds ",
                        c_.context, "; raise --context"));
  }
  prefill();
  if (is_cancelled()) {
    return;
  }
  TokenChooser::check_logits(logits_of(0), state_.position);
  result_.scored_logprobs.push_back(log_probability(logits_of(0), ids[0]));
  for (size_t done = 1; done < ids.size();) {
    const size_t rows = std::min<size_t>(kScoredRows, ids.size() - done);
    for (size_t i = 0; i < rows; ++i) {
      rows_.push_text(ids[done - 1 + i]);
    }
    step(static_cast<int64_t>(rows), static_cast<int64_t>(rows));
    for (size_t i = 0; i < rows; ++i) {
      TokenChooser::check_logits(logits_of(static_cast<int64_t>(i)), state_.position);
      result_.scored_logprobs.push_back(
          log_probability(logits_of(static_cast<int64_t>(i)), ids[done + i]));
    }
    done += rows;
  }
}

// The recorded calls, each with the recorded tokens: inside the prompt its own ids, behind it the
// token after the call before.
void Generation::replay() {
  TokenCounts counts;
  Choice chosen;
  for (size_t i = 0; i < request_.calls.size() && !is_cancelled(); ++i) {
    const CallPlan& call = request_.calls[i];
    if (call.start != state_.position || call.rows < 1) {
      throw Error(ErrorCode::bad_request,
                  str_cat("call ", i, " starts at ", call.start, " with ", call.rows,
                          " rows, expected a start of ", state_.position));
    }
    const int64_t end = call.start + call.rows;
    if (end > static_cast<int64_t>(rows_.ids.size())) {
      const bool is_next = end == static_cast<int64_t>(rows_.ids.size()) + 1 && i > 0;
      if (!is_next || end > c_.context) {
        throw Error(ErrorCode::bad_request,
                    str_cat("call ", i, " ends at position ", end, ", the prompt has ",
                            result_.prompt_tokens, " tokens and the context ", c_.context));
      }
      rows_.push_text(i - 1 < request_.fed_ids.size() ? request_.fed_ids[i - 1]
                                                      : result_.call_tokens.back());
    }
    step(call.rows, 1);
    result_.call_tokens.push_back(choose(logits_of(0), 0, counts, chosen));
  }
}

}  // namespace tessera
