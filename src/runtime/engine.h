// The boundary of the engine: requests, events and statistics. Programs, the server and end-to-end
// tests use this header alone.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/residency_statistics.h"
#include "image/policy.h"
#include "intake/budget.h"
#include "intake/fetch_rules.h"
#include "runtime/request.h"
#include "runtime/ticket.h"

namespace tessera {

namespace io {
class Json;
}

// Where the pictures of requests may come from, and how much of them.
struct PictureAccess {
  bool reads_files = true;  // paths of files; else only URLs and inline data
  // With it paths are relative to this folder and lead nowhere else. For requests of others: what
  // is wrong with a path is then Error{bad_request} that says nothing about other files.
  std::string media_root = {};
  intake::FetchRules fetch;  // http(s) URLs: off unless enabled
  intake::BudgetLimits budget = intake::kCommandLineBudget;
  // For fetching and decoding the pictures of one request; URLs have FetchRules::total_timeout too.
  std::optional<std::chrono::milliseconds> deadline = std::nullopt;
};

// How requests that are handed in share the engine.
struct ServingLimits {
  int64_t max_running = 8;           // requests that have memory and take part in steps
  int64_t max_queued = 256;          // requests that have not ended; more are refused at once
  int64_t cache_tokens = 0;          // of all running sequences together; 0: the context
  int64_t answer_room = 64;          // tokens that an answer claims room for at a time
  int64_t rows_beside_answers = 64;  // most rows of prompts in a step that also writes answers
  double encode_share = 0.25;        // of the time, for pictures, while answers are written
  // That encode prompts, and open, decode and resample pictures. With more than one, one of them
  // takes only requests without pictures: no far host keeps a text waiting.
  int prepare_threads = 2;
};

// Since the engine was opened.
struct ServingStatistics {
  int64_t submitted = 0;
  int64_t ended = 0;  // also the cancelled ones
  int64_t failed = 0;
  int64_t unfinished = 0;
  int64_t steps = 0;
  int64_t rows = 0;           // of all steps
  int64_t answer_rows = 0;    // of these, one per token of an answer
  int64_t prompt_tokens = 0;  // of the requests that ended
  int64_t cached_tokens = 0;  // of these, taken from kept states
  int64_t pictures = 0;
  int64_t cached_pictures = 0;  // of these, encoded by earlier requests
  int64_t heartbeat = 0;        // rises as long as the step loop lives
  int64_t waiting = 0;          // requests without memory yet, or swapped out
  int64_t running = 0;
  int64_t swapped_out = 0;       // times that a request gave its memory to earlier ones
  int64_t cache_pages = 0;       // of compressed keys and values and of index keys, allocated
  int64_t used_cache_pages = 0;  // of these, by requests and kept states
  int64_t kept_states = 0;       // in the prefix cache
  int64_t kept_state_bytes = 0;
  int64_t evicted_states = 0;
};

// Which experts the rows of texts and of pictures picked, since the engine was opened. Rows of
// prompts that were left out (docs/engine.md) are not in it; EngineOptions::computes_all_rows
// counts them too.
struct ExpertStatistics {
  int64_t layers = 0;
  int64_t experts = 0;
  std::vector<int64_t> picks;  // [layers][text, pictures][experts]; empty unless asked for
};

// What a model makes of a picture. Sizes are in pixels.
struct PicturePlan {
  int64_t width = 0;  // as decoded
  int64_t height = 0;
  int64_t content_x = 0;  // where the picture stands on the canvas, and how large
  int64_t content_y = 0;
  int64_t content_width = 0;
  int64_t content_height = 0;
  int64_t canvas_width = 0;
  int64_t canvas_height = 0;
  int64_t patch_rows = 0;
  int64_t patch_columns = 0;
  int64_t token_rows = 0;
  int64_t token_columns = 0;
  int64_t span_tokens = 0;  // with start, ends of lines and end
  std::string policy;
  std::vector<std::string> notices;
  std::vector<std::byte> preview;  // the canvas as a PNG file, if asked for
};

// Memory that an engine takes, largest parts first; what is only mapped from files is not in it.
struct MemoryPlan {
  struct Part {
    std::string name;
    int64_t bytes = 0;
    std::string what;  // a line for people
  };
  std::vector<Part> parts;

  int64_t bytes() const;
  std::string text() const;  // a line per part and the sum
};

struct EngineOptions {
  std::string model;        // folder of the checkpoint
  int threads = 0;          // 0: available_threads()
  int64_t context = 0;      // most tokens of a sequence; 0: what the model states, at most 32768
  int64_t step_rows = 512;  // most rows of one prefill step
  bool reference_index_slot = false;  // parity switches: docs/numerics.md
  bool samples_image_token = false;
  bool fp32_index_scores = false;
  bool nvfp4_e4m3_activations = false;  // inputs of NVFP4 experts in E4M3 instead of as calibrated
  bool counts_experts = false;          // for Engine::expert_statistics()
  bool measures_inputs = false;         // for Engine::expert_input_ranges()
  bool computes_all_rows = false;       // also rows of a prompt that no wanted output reads
  bool fp32_vision = false;             // no activation of the tower is rounded
  EncodingRevision encoding = EncodingRevision::ref;
  image::Policy picture_policy = image::reference_policy();
  PictureAccess pictures = {};
  ServingLimits serving = {};
  int64_t picture_cache_bytes = 0;  // encoded pictures kept for later requests; 0: none
  // States kept between requests, least recently used go first: a request that begins like an
  // earlier one goes on from there (docs/engine.md). 0: none. Ignored with reference_index_slot,
  // where a state depends on how its tokens came to be computed.
  int64_t prefix_cache_bytes = 0;
  int64_t prefix_interval = 512;  // tokens of a prompt from one kept state to the next
  // Of the process: weights leave its memory to stay below (docs/bigger-than-memory.md). 0: none.
  int64_t resident_limit_bytes = 0;
  bool locks_hot_weights = false;  // those that every step reads stay in memory
};

// Throws Error{bad_request} that names the field and its limit. open() does the same, and looks at
// what depends on the model.
void check_options(const EngineOptions& options);

class Engine {
 public:
  // Throws Error: see Model::load; Error{bad_request} for options that do not fit the model.
  static std::unique_ptr<Engine> open(const EngineOptions& options, const Events& events = {});
  ~Engine();

  // Runs one request to its end, alone between the steps of those that were handed in. From one
  // thread at a time. Throws Error{bad_request} before any work for a prompt that cannot
  // be served (too long, images for a model without vision, unreadable picture, ...).
  Result generate(const Request& request, const Events& events = {});

  // Hands a request in and returns at once. Requests run side by side, and none changes the tokens
  // of another: each gets what generate() would give it. Throws Error{queue_full}, and
  // Error{bad_request} for options out of range, Error{unsupported} with reference_index_slot or
  // fp32_vision; what is found later fails the ticket. From any thread.
  std::shared_ptr<Ticket> submit(Request request);
  // Waits until everything that was handed in has ended; submit() refuses from then on.
  void drain();
  ServingStatistics serving_statistics() const;
  // What submit() works with. The buffers are made at the first one and do not grow; scratch memory
  // grows to what the largest step needs and stays.
  MemoryPlan memory_plan() const;
  // Nothing for a model that is small against the memory, without a limit and locks.
  std::optional<ResidencyStatistics> residency_statistics() const;
  ExpertStatistics expert_statistics() const;  // waits for the step or request that is under way
  // The largest magnitude that went into every matrix of the routed experts, by its name; an expert
  // that was never picked has the largest of its layer. Throws Error{bad_request} where a layer saw
  // nothing. Waits too.
  std::map<std::string, float, std::less<>> expert_input_ranges() const;

  // The prompt of a request without running it; with ImageSpans::expand its pictures are opened.
  // Throws as generate() does.
  EncodedPrompt encode(const Request& request, ImageSpans spans) const;

  // What the model makes of pictures, without running it: they are opened and decoded under the
  // rules and budgets of a request. From any thread. Throws as generate() does.
  std::vector<PicturePlan> plan_pictures(const std::vector<ImageSource>& pictures,
                                         bool has_preview) const;

  const GenerationDefaults& defaults() const;
  const std::string& model_folder() const;
  double load_ms() const;
  int threads() const;
  int64_t context() const;
  std::string decode(const std::vector<int32_t>& ids) const;
  std::string_view token_bytes(int32_t id) const;
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
// FILE.json: a message list, a case, a list of cases, or a Chat Completions body (an object with
// messages and fields that only a body has); anything else: text with <image>path</image> tags.
// Picture paths are relative to the file. Throws Error{bad_file} or {bad_request}.
std::vector<InputCase> read_input_file(const std::string& path);
// A case as a trace's metadata records it; relative picture paths start from `image_root`.
InputCase parse_input_case(std::string_view json, const std::string& image_root);

// A Chat Completions body: its conversation and what belongs to the prompt; fields of sampling and
// transport are left unread. Picture paths are relative to the file. Throws Error{bad_file} or
// {bad_request}.
Request read_chat_request(const std::string& path);
// The same from a body that was parsed. `where` stands at the start of messages. Throws
// Error{bad_request}.
enum class PicturePaths { allow, refuse };
Request request_of_chat_body(const io::Json& body, std::string_view where, PicturePaths paths);
// The prompt of a request with nothing but a tokenizer.json: thinking is on unless the request says
// otherwise, and spans stay out.
EncodedPrompt encode_with_tokenizer(const std::string& tokenizer_json, const Request& request,
                                    EncodingRevision revision);

// The JSON list of tools in a file, on the request's first system message (one is put in front if
// there is none); and the schema in a file as its response format. Throw Error{bad_file} or
// {bad_request}.
void attach_tools_file(const std::string& path, Request& request);
void attach_response_format_file(const std::string& path, Request& request);

// 1..100 for "low", "high", "max" or a number in range; nothing otherwise.
std::optional<int> parse_effort_level(std::string_view text);

// The checkpoint folder that a --model argument names: a folder, or "org/name" in the local Hugging
// Face cache (HF_HOME, refs/main). Empty: the demo model installed with the program. Throws
// Error{bad_file}.
std::string resolve_model(const std::string& model);

}  // namespace tessera
