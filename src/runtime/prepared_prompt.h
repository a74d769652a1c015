// The prompt of a request with its pictures opened. Internal to the runtime.
#pragma once

#include <vector>

#include "models/deepseek_v41/completion.h"
#include "models/deepseek_v41/prompt.h"
#include "models/deepseek_v41/span.h"
#include "runtime/engine.h"
#include "runtime/picture_encoder.h"
#include "runtime/prefix_cache.h"

namespace tessera {

struct PromptContext {
  const EngineOptions& options;
  const deepseek_v41::Model& model;
  const deepseek_v41::PromptEncoder& encoder;
  const GenerationDefaults& defaults;
};

struct PreparedPrompt {
  deepseek_v41::ExpandedPrompt expanded;
  std::vector<int32_t> ids;               // before image spans
  std::vector<PreparedPicture> pictures;  // in the order of their spans
  std::vector<std::string> notices;       // about the pictures
  deepseek_v41::CompletionOptions::Start answer_start;
};

bool is_thinking(const PromptContext& context, const Request& request);

// Throws Error{bad_request}.
deepseek_v41::Prompt encode_prompt(const PromptContext& context, const Request& request);

EncodedPrompt to_encoded(deepseek_v41::Prompt prompt);

// Opens, decodes and plans the pictures, since spans depend on their sizes. Throws
// Error{bad_request} or {bad_file}.
PreparedPrompt prepare_prompt(const PromptContext& context, const Request& request,
                              deepseek_v41::Prompt prompt);

// Fills what a result says of its prompt. Throws Error{bad_request} for a prompt that is empty or
// leaves no room for an answer in `context` tokens.
void describe_prompt(const PreparedPrompt& prompt, int64_t context, Result& result);

// Tokens of one answer, with `room` left in the context behind the prompt.
int64_t most_answer_tokens(const Request& request, const GenerationDefaults& defaults,
                           int64_t room);

// Throws Error{bad_request} or {bad_file}.
std::vector<PicturePlan> plan_pictures(const PromptContext& context,
                                       const std::vector<ImageSource>& pictures, bool has_preview);

// Where the pictures stand and what they are.
std::vector<PlacedPicture> placed_pictures(const PreparedPrompt& prompt);

}  // namespace tessera
