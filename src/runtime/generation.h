// One request from its pictures to its last token. Internal to the runtime.
#pragma once

#include <memory>
#include <vector>

#include "models/deepseek_v41/forward.h"
#include "runtime/answer_writer.h"
#include "runtime/engine_buffers.h"
#include "runtime/picture_cache.h"
#include "runtime/prepared_prompt.h"
#include "runtime/sequence_rows.h"
#include "runtime/token_chooser.h"

namespace tessera {

struct GenerationContext {
  PromptContext prompt;
  int64_t context;
  ExecContext& ctx;
  deepseek_v41::CachePools& pools;
  PrefixCache& prefixes;
  PictureCache& picture_cache;
  EngineBuffers& buffers;
};

class Generation {
 public:
  Generation(const GenerationContext& context, const Request& request, const Events& events);
  Result run();

 private:
  void prepare();
  void resume();
  void encode_pictures();
  std::shared_ptr<const EncodedPicture> encode(size_t i);
  void prefill();
  void answer(int64_t index);
  void score();
  void replay();
  void check_ids(const std::vector<int32_t>& ids, const char* what) const;

  // One forward call on the next `rows` positions; logits of the last `logit_rows`.
  void step(int64_t rows, int64_t logit_rows);
  std::span<float> logits_of(int64_t row);
  // The next token of a choice, which gets it. Changes the logits.
  int32_t choose(std::span<float> logits, int64_t index, TokenCounts& counts, Choice& choice);
  bool is_cancelled() const;
  bool keeps_states() const {
    return c_.prefixes.is_on() && request_.sink == nullptr && request_.calls.empty();
  }
  PrefixKey key() const { return {request_.tenant, rows_.ids, placed_}; }

  GenerationContext c_;
  const deepseek_v41::Config& config_;
  const Request& request_;
  const Events& events_;
  Result result_;
  PreparedPrompt prompt_;
  std::vector<PlacedPicture> placed_;  // with a prefix cache only
  std::vector<std::shared_ptr<const EncodedPicture>> pictures_;
  SequenceRows rows_;  // prompt, then chosen or given tokens
  deepseek_v41::SequenceState state_;
  TokenChooser chooser_;
};

}  // namespace tessera
