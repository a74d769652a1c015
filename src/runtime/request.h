// What the engine is asked and what it answers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/sampler.h"
#include "tensor/trace.h"
#include "tokenizer/answer.h"
#include "tokenizer/conversation.h"

namespace tessera {

// What a model says about generation: generation_config.json, or the defaults of docs.
struct GenerationDefaults {
  bool is_thinking = true;
  int effort = 75;  // when thinking
  double temperature = 1.0;
  int64_t top_k = 0;  // 0: all
  double top_p = 0.95;
  double repetition_penalty = 1.0;
  int64_t max_tokens = 4096;
};

// One forward call of a traced request: positions start .. start + rows - 1.
struct CallPlan {
  int64_t start = 0;
  int64_t rows = 0;
};

// How tokens are chosen (sampler.h); what is unset is the model's default.
struct SamplingRequest {
  std::optional<double> temperature;         // 0 to 100
  std::optional<int64_t> top_k;              // at least 0
  std::optional<double> top_p;               // 0 to 1
  std::optional<double> min_p;               // 0 to 1
  std::optional<double> repetition_penalty;  // 0.01 to 100
  double presence_penalty = 0;               // -100 to 100, as is frequency_penalty
  double frequency_penalty = 0;
  std::vector<std::pair<int32_t, double>> logit_bias;  // token id, -1000 to 1000
  uint64_t seed = 0;
};

struct Request {
  std::vector<Message> messages;  // or raw_prompt
  std::vector<Message> context;   // encoded before the messages
  std::optional<std::string> raw_prompt;
  std::vector<ImageSource> raw_images;  // of raw_prompt
  // The raw prompt is text from others: spellings of control tokens in it are ordinary characters,
  // the begin token is put in front, and the answer is text in which no calls are looked for.
  bool is_plain_text = false;
  std::string image_root;           // folder that relative picture paths start from
  std::optional<bool> is_thinking;  // unset: the model's default
  std::optional<int> effort;        // 1 to 100, thinking only; unset: the model's default
  bool forces_calls = false;        // the answer begins inside a calls block; not with thinking
  bool is_json = false;             // the answer is JSON text: what stands around it is blanked

  SamplingRequest sampling;
  std::optional<int64_t> max_tokens;  // unset: the model's default
  int64_t min_tokens = 0;             // the end token is not chosen before
  std::vector<std::string> stop;      // end the answer when they appear in its content
  bool ignores_eos = false;
  std::optional<int64_t> logprobs;  // log-probabilities, with this many of the likeliest tokens
  int64_t choices = 1;              // answers to the same prompt, each with its own random numbers

  // Scoring: log-probabilities of these ids after the prompt, teacher-forced, instead of an answer.
  std::vector<int32_t> scored_ids;

  // Tracing. With a sink the whole prompt is one call unless `calls` says otherwise; the token
  // after call i is fed_ids[i] where given.
  TraceSink* sink = nullptr;
  std::vector<CallPlan> calls;
  std::vector<int32_t> fed_ids;
  bool stops_after_vision = false;

  // Requests of one tenant use what others of it left in the caches, and only those: what is kept
  // tells nobody else that a text or picture has been here.
  std::string tenant;
  const std::atomic<bool>* cancel = nullptr;  // looked at between tiles and steps
  // From submit() on; what is late ends like a cancelled request, with Result::is_late.
  std::optional<std::chrono::milliseconds> deadline;
};

// How a message names an option: top_p, or --top-p.
enum class OptionNames { api, command_line };
// Throws Error{bad_request} naming the option that is out of its range.
void check_options(const Request& request, OptionNames names);

constexpr int64_t kMaxStopStrings = 16;
constexpr int64_t kMaxTopLogprobs = 20;
constexpr int64_t kMaxChoices = 128;

enum class FinishReason { stop, length, tool_calls, cancelled };
std::string_view finish_reason_name(FinishReason reason);

// A chosen token with the logarithm of its probability in the softmax of the model's logits, before
// temperature, penalties and bias; and the likeliest tokens there.
struct ChosenToken {
  TokenLogprob token;
  std::vector<TokenLogprob> top;
};

// One answer.
struct Choice {
  Answer answer;             // taken apart (models/deepseek_v41/completion.h)
  std::string text;          // all of it as generated, without the end token
  std::vector<int32_t> ids;  // the end token included
  FinishReason finish_reason = FinishReason::stop;
  std::string stop_string;            // that ended it, if one did
  std::vector<ChosenToken> logprobs;  // per id, if asked for
};

struct Result {
  std::vector<Choice> choices;          // Request::choices; none when scoring
  std::vector<int32_t> prompt_ids;      // before image spans
  int64_t prompt_tokens = 0;            // expanded
  int64_t cached_tokens = 0;            // of these, taken from a kept state
  int64_t image_tokens = 0;             // sum of the spans
  int64_t cached_pictures = 0;          // encoded by an earlier request
  std::vector<int64_t> span_tokens;     // per image, delimiters included
  std::vector<std::string> notices;     // what a user should know about the pictures, a line each
  std::vector<double> scored_logprobs;  // of Request::scored_ids
  int64_t layer_rows = 0;               // rows that left layers, in all steps
  std::vector<CallPlan> calls;          // forward calls made for the prompt and the first choice
  std::vector<int32_t> call_tokens;     // the token chosen after each
  bool is_cancelled = false;
  bool is_late = false;  // the deadline ended it
  bool is_thinking = false;
  uint64_t seed = 0;
  double queue_ms = 0;  // from being handed in to having memory
  double image_ms = 0;
  double prefill_ms = 0;
  double decode_ms = 0;

  int64_t completion_tokens() const;  // of all choices
};

// What happens while a request runs; called on the thread that called generate().
struct Events {
  std::function<void(int64_t choice, const AnswerDelta& delta)> on_delta;
  std::function<void(std::string_view stage, int64_t done, int64_t total)> on_progress;
  std::function<void(std::string_view line)> on_notice;  // Result::notices, before the work begins
};

// How a request is encoded.
struct EncodedPrompt {
  std::string text;
  std::vector<int32_t> ids;                                 // before image spans
  std::vector<std::pair<int64_t, int64_t>> special_ranges;  // code points that are control tokens
  std::vector<ImageSource> images;
  // With pictures opened and their spans in place:
  struct Span {
    int64_t start = 0;
    int64_t length = 0;
    int64_t rows = 0;  // token grid
    int64_t columns = 0;
  };
  std::vector<int32_t> expanded_ids;
  std::vector<int8_t> types;  // per expanded id: -1 text, 0 start, 1 image, 2 newline, 3 end
  std::vector<Span> spans;
};
enum class ImageSpans { leave_out, expand };

}  // namespace tessera
