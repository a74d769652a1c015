// One request from its pictures to its last token. Internal to the runtime.
#pragma once

#include <memory>
#include <vector>

#include "models/deepseek_v41/forward.h"
#include "models/deepseek_v41/prompt.h"
#include "models/deepseek_v41/span.h"
#include "models/deepseek_v41/vision.h"
#include "runtime/engine.h"
#include "runtime/picture_encoder.h"

namespace tessera {

// Memory of the engine that requests use one after the other; it grows to what the largest one
// needed.
struct EngineBuffers {
  std::unique_ptr<deepseek_v41::StepBuffers> step;
  std::unique_ptr<deepseek_v41::VisionBuffers<bf16>> vision;
};

struct GenerationContext {
  const EngineOptions& options;
  const deepseek_v41::Model& model;
  const deepseek_v41::PromptEncoder& encoder;
  const GenerationDefaults& defaults;
  int64_t context;
  ExecContext& ctx;
  deepseek_v41::CachePools& pools;
  EngineBuffers& buffers;
};

class Generation {
 public:
  Generation(const GenerationContext& context, const Request& request, const Events& events);
  Result run();

 private:
  void make_prompt();
  void encode_pictures();
  void place_embeddings();
  void prefill();
  void decode();
  void score();
  void replay();
  void check_ids(const std::vector<int32_t>& ids, const char* what) const;

  // One forward call on the next `rows` positions of `sequence_`; logits of the last `logit_rows`.
  void step(int64_t rows, int64_t logit_rows);
  std::span<float> logits_of(int64_t row);
  void check_logits(std::span<const float> logits) const;
  int32_t choose(std::span<float> logits);
  bool is_cancelled() const;
  int64_t max_tokens() const;

  GenerationContext c_;
  const Request& request_;
  const Events& events_;
  Result result_;
  deepseek_v41::ExpandedPrompt prompt_;
  std::vector<PreparedPicture> prepared_;
  std::vector<EncodedPicture> pictures_;
  // The sequence so far: prompt, then chosen or given tokens.
  std::vector<int32_t> sequence_;
  std::vector<int8_t> types_;
  std::vector<const std::byte*> embeddings_;
  deepseek_v41::SequenceState state_;
  SamplingOptions sampling_;
  Sampler sampler_;
  int64_t call_ = 0;
};

}  // namespace tessera
