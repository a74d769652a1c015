// One request on its way through the scheduler. Internal to the runtime; belongs to the step loop
// after prepare().
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "models/deepseek_v41/step.h"
#include "runtime/answer_writer.h"
#include "runtime/picture_cache.h"
#include "runtime/prefix_cache.h"
#include "runtime/sequence_rows.h"
#include "runtime/ticket.h"
#include "runtime/token_chooser.h"

namespace tessera {

class RequestTask {
 public:
  using Clock = std::chrono::steady_clock;

  RequestTask(const PromptContext& context, int64_t most_tokens, Request request,
              std::shared_ptr<Ticket> ticket);

  // Opens, decodes and plans the pictures and encodes the prompt. On any thread, once. Throws
  // Error.
  void prepare();

  // Ends the request. After one of these nothing else may be called.
  void finish();
  void fail(Failure failure) { ticket_->fail(std::move(failure)); }
  // Nobody wants it any more, or its deadline has passed.
  bool is_cancelled() const {
    return ticket_->cancelled().load(std::memory_order_relaxed) || is_late();
  }
  const Result& result() const { return result_; }
  const std::shared_ptr<Ticket>& ticket() const { return ticket_; }
  bool has_pictures() const { return has_pictures_; }
  std::string_view tenant() const { return request_.tenant; }
  std::string picture_key(size_t i) const {
    return tessera::picture_key(request_.tenant, prompt_.pictures[i].content_key);
  }

  // Tokens that the caches must have room for until the end.
  int64_t most_tokens() const;
  // Tokens that they must have room for now: the prompt, what was answered, and some more.
  int64_t claimed_tokens() const;
  int64_t sequences() const { return request_.choices + 1; }  // its answers and its prompt

  // Takes a place among the running ones: from here on it has memory.
  void start(deepseek_v41::CachePools& pools, PrefixCache& prefixes);
  // Gives the memory back, and takes it again: what runs goes on as if nothing had been.
  void swap_out();
  void swap_in(deepseek_v41::CachePools& pools);

  // The first picture that has to be encoded still, or nothing.
  std::optional<size_t> next_picture() const;
  const PreparedPicture& picture(size_t i) const { return prompt_.pictures[i]; }
  void take_picture(size_t i, std::shared_ptr<const EncodedPicture> encoded, bool is_cached);
  void report_picture(size_t i, int64_t done, int64_t total);

  bool is_prefilling() const { return answers_.empty(); }
  bool has_ended() const { return !answers_.empty() && active_answers() == 0; }
  int64_t active_answers() const;

  // Rows for a step: the next part of the prompt, up to `most` rows, or one row of each answer that
  // goes on. `ends` gets at least one entry per run.
  struct Run {
    int64_t rows = 0;
    int64_t answer = -1;  // -1: of the prompt
    bool has_logits = false;
    deepseek_v41::SequenceState* state = nullptr;
  };
  void add_prompt_run(int64_t most, bool keeps_states, deepseek_v41::StepPlan& plan,
                      std::vector<deepseek_v41::RowEnd>& ends, std::vector<Run>& runs);
  void add_answer_runs(deepseek_v41::StepPlan& plan, std::vector<deepseek_v41::RowEnd>& ends,
                       std::vector<Run>& runs);

  // After the step was committed. `logits`: of the run, if it has them. Throws Error when they are
  // not numbers.
  void take(const Run& run, std::span<float> logits, double step_ms);

  // Keeps the state for later requests if the run has just reached one that is worth it.
  void keep_state(const Run& run, PrefixCache& prefixes);
  void count_layer_rows(int64_t rows) { result_.layer_rows += rows; }

 private:
  // A position whose state is kept. At an end it is complete; elsewhere it is what the prompt's own
  // rows make it.
  struct Border {
    int64_t position = 0;
    bool is_end = false;
  };
  struct AnswerRun {
    std::optional<deepseek_v41::SequenceState> state;  // until it is done
    std::vector<std::byte> saved = {};                 // while swapped out
    TokenCounts counts;
    std::unique_ptr<AnswerWriter> writer;
    Choice choice;
    bool is_done = false;
  };

  bool is_late() const {
    return request_.deadline.has_value() && Clock::now() - submitted_ >= *request_.deadline;
  }
  void find_borders();
  int64_t most_answer_tokens() const;
  void report(const char* stage, int64_t done, int64_t total);
  void begin_answers(std::span<const float> logits);
  void advance(size_t index, std::span<float> logits);
  void close(AnswerRun& answer, FinishReason reason);

  const PromptContext context_;
  int64_t context_tokens_;
  Request request_;
  std::shared_ptr<Ticket> ticket_;
  TokenChooser chooser_;
  Result result_;
  PreparedPrompt prompt_;
  std::vector<PlacedPicture> placed_;
  std::vector<std::shared_ptr<const EncodedPicture>> pictures_;
  SequenceRows rows_;
  std::vector<Border> borders_;  // ascending
  bool has_pictures_;
  bool has_rows_placed_ = false;
  std::optional<deepseek_v41::SequenceState> state_;  // of the prompt
  std::vector<std::byte> saved_;                      // while swapped out
  std::vector<AnswerRun> answers_;
  Clock::time_point submitted_ = Clock::now();
};

}  // namespace tessera
