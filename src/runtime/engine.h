// The boundary of the engine: requests, events and statistics. Programs, the server and end-to-end
// tests use this header alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "image/resample.h"
#include "runtime/sampler.h"
#include "tensor/trace.h"
#include "tokenizer/conversation.h"

namespace tessera {

struct EngineOptions {
  std::string model;        // folder of the checkpoint
  int threads = 0;          // 0: available_threads()
  int64_t context = 0;      // most tokens of a sequence; 0: what the model states, at most 32768
  int64_t step_rows = 512;  // most rows of one prefill step
  bool reference_index_slot = false;  // parity switches: docs/numerics.md
  bool samples_image_token = false;
  bool fp32_index_scores = false;
  bool fp32_vision = false;  // no activation of the tower is rounded
  EncodingRevision encoding = EncodingRevision::ref;
  image::PassOrder pass_order = image::PassOrder::pillow13;
};

// What a model says about generation: generation_config.json, or the defaults of docs.
struct GenerationDefaults {
  bool is_thinking = true;
  int effort = 75;  // when thinking
  double temperature = 1.0;
  double top_p = 0.95;
  int64_t max_tokens = 4096;
};

// One forward call of a traced request: positions start .. start + rows - 1.
struct CallPlan {
  int64_t start = 0;
  int64_t rows = 0;
};

struct Request {
  std::vector<Message> messages;  // or raw_prompt
  std::vector<Message> context;   // encoded before the messages
  std::optional<std::string> raw_prompt;
  std::vector<ImageSource> raw_images;  // of raw_prompt
  std::string image_root;               // folder that relative picture paths start from
  std::optional<bool> is_thinking;      // unset: the model's default
  std::optional<int> effort;            // 1 to 100, thinking only; unset: the model's default

  std::optional<int64_t> max_tokens;  // unset: the model's default
  std::optional<double> temperature;
  std::optional<double> top_p;
  uint64_t seed = 0;
  bool ignores_eos = false;

  // Scoring: log-probabilities of these ids after the prompt, teacher-forced, instead of an answer.
  std::vector<int32_t> scored_ids;

  // Tracing. With a sink the whole prompt is one call unless `calls` says otherwise; the token
  // after call i is fed_ids[i] where given.
  TraceSink* sink = nullptr;
  std::vector<CallPlan> calls;
  std::vector<int32_t> fed_ids;
  bool stops_after_vision = false;

  const std::atomic<bool>* cancel = nullptr;  // looked at between tiles and steps
};

enum class FinishReason { stop, length, cancelled };
std::string_view finish_reason_name(FinishReason reason);

struct Result {
  std::string text;          // complete, without the end token
  std::vector<int32_t> ids;  // of the answer, the end token included
  FinishReason finish_reason = FinishReason::stop;
  std::vector<int32_t> prompt_ids;      // before image spans
  int64_t prompt_tokens = 0;            // expanded
  int64_t image_tokens = 0;             // sum of the spans
  std::vector<int64_t> span_tokens;     // per image, delimiters included
  std::vector<double> scored_logprobs;  // of Request::scored_ids
  std::vector<CallPlan> calls;          // forward calls made
  std::vector<int32_t> call_tokens;     // the token chosen after each
  bool is_thinking = false;
  uint64_t seed = 0;
  double image_ms = 0;
  double prefill_ms = 0;
  double decode_ms = 0;
};

// What happens while a request runs; called on the thread that called generate().
struct Events {
  std::function<void(std::string_view text)> on_text;  // complete code points
  std::function<void(std::string_view stage, int64_t done, int64_t total)> on_progress;
};

class Engine {
 public:
  // Throws Error: see Model::load; Error{bad_request} for options that do not fit the model.
  static std::unique_ptr<Engine> open(const EngineOptions& options, const Events& events = {});
  ~Engine();

  // Runs one request to its end. Throws Error{bad_request} before any work for a prompt that cannot
  // be served (too long, images for a model without vision, unreadable picture, ...).
  Result generate(const Request& request, const Events& events = {});

  const GenerationDefaults& defaults() const;
  const std::string& model_folder() const;
  double load_ms() const;
  int threads() const;
  int64_t context() const;
  std::string decode(const std::vector<int32_t>& ids) const;
  // SHA-256 of config.json's bytes, as traces record it.
  std::string config_sha256() const;

 private:
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// One request of an input file.
struct InputCase {
  std::string name;  // may be empty
  Request request;
};
// FILE.json: a message list, a case, or a list of cases; anything else: text with
// <image>path</image> tags. Picture paths are relative to the file. Throws Error{bad_file} or
// {bad_request}.
std::vector<InputCase> read_input_file(const std::string& path);
// A case as a trace's metadata records it; relative picture paths start from `image_root`.
InputCase parse_input_case(std::string_view json, const std::string& image_root);

// 1..100 for "low", "high", "max" or a number in range; nothing otherwise.
std::optional<int> parse_effort_level(std::string_view text);

// The checkpoint folder that a --model argument names: a folder, or "org/name" in the local Hugging
// Face cache (HF_HOME, refs/main). Empty: the demo model installed with the program. Throws
// Error{bad_file}.
std::string resolve_model(const std::string& model);

}  // namespace tessera
