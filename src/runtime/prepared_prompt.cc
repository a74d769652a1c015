#include "runtime/prepared_prompt.h"

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"
#include "intake/png_encode.h"

namespace tessera {
namespace {

using Start = deepseek_v41::CompletionOptions::Start;

// In which part of an answer the model goes on behind this prompt.
Start start_of(const deepseek_v41::Prompt& prompt, const Request& request) {
  if (request.forces_calls) {
    return Start::calls;
  }
  if (request.is_plain_text) {
    return Start::continued_answer;
  }
  const std::string_view text = prompt.text;
  const bool is_open = !request.messages.empty() && request.messages.back().is_open;
  if (text.ends_with("<think>")) {
    return is_open ? Start::continued_reasoning : Start::reasoning;
  }
  if (text.ends_with("</think>")) {
    return Start::answer;
  }
  return is_open || request.raw_prompt.has_value() ? Start::continued_answer : Start::answer;
}

deepseek_v41::Prompt encode(const deepseek_v41::PromptEncoder& encoder,
                            const GenerationDefaults& defaults, EncodingRevision revision,
                            const Request& request) {
  if (request.raw_prompt.has_value() && request.is_plain_text) {
    return encoder.encode_plain(*request.raw_prompt);
  }
  if (request.raw_prompt.has_value()) {
    return encoder.encode_raw(*request.raw_prompt, request.raw_images);
  }
  return encoder.encode(request.messages,
                        {.is_thinking = request.is_thinking.value_or(defaults.is_thinking),
                         .effort = request.effort.value_or(defaults.effort),
                         .revision = revision,
                         .starts_calls = request.forces_calls},
                        request.context);
}

}  // namespace

bool is_thinking(const PromptContext& context, const Request& request) {
  return request.is_thinking.value_or(context.defaults.is_thinking);
}

deepseek_v41::Prompt encode_prompt(const PromptContext& context, const Request& request) {
  return encode(context.encoder, context.defaults, context.options.encoding, request);
}

PreparedPrompt prepare_prompt(const PromptContext& context, const Request& request,
                              deepseek_v41::Prompt prompt) {
  const deepseek_v41::Config& config = context.model.network.config;
  const int32_t image_token = static_cast<int32_t>(config.image_token);
  const bool has_vision = config.vision.layers > 0;
  PreparedPrompt prepared;
  prepared.answer_start = start_of(prompt, request);
  std::vector<deepseek_v41::Grid> grids(prompt.images.size(), {1, 1});
  if (!has_vision || prompt.images.empty()) {  // says so before any picture is opened
    deepseek_v41::expand_images(prompt.ids, image_token, grids, has_vision);
  }
  PictureLoader loader(prompt.images, request.image_root, context.options.pictures, request.cancel);
  loader.fetch_all();
  for (size_t i = 0; i < prompt.images.size(); ++i) {
    prepared.pictures.push_back(prepare_picture(loader, i, prompt.images[i], config,
                                                context.options.picture_policy, prepared.notices));
    grids[i] = prepared.pictures.back().image.plan.canvas.tokens;
  }
  prepared.expanded = deepseek_v41::expand_images(prompt.ids, image_token, grids, has_vision);
  prepared.ids = std::move(prompt.ids);
  return prepared;
}

EncodedPrompt to_encoded(deepseek_v41::Prompt prompt) {
  EncodedPrompt encoded;
  encoded.text = std::move(prompt.text);
  encoded.ids = std::move(prompt.ids);
  encoded.images = std::move(prompt.images);
  for (const deepseek_v41::TextRange& range : prompt.special_ranges) {
    encoded.special_ranges.emplace_back(range.begin, range.end);
  }
  return encoded;
}

EncodedPrompt encode_with_tokenizer(const std::string& tokenizer_json, const Request& request,
                                    EncodingRevision revision) {
  const Tokenizer tokenizer = Tokenizer::load(tokenizer_json);
  const std::optional<int32_t> image_token = tokenizer.token_id(deepseek_v41::kImagePlaceholder);
  if (!image_token.has_value()) {
    throw Error(ErrorCode::bad_file,
                str_cat(tokenizer_json, ": no token ", deepseek_v41::kImagePlaceholder,
                        "; expected the tokenizer of a DeepSeek-V4.1 model"));
  }
  const deepseek_v41::PromptEncoder encoder(tokenizer, *image_token);
  return to_encoded(encode(encoder, GenerationDefaults(), revision, request));
}

void describe_prompt(const PreparedPrompt& prompt, int64_t context, Result& result) {
  result.prompt_ids = prompt.ids;
  result.notices = prompt.notices;
  for (const deepseek_v41::ImageSpan& span : prompt.expanded.spans) {
    result.span_tokens.push_back(span.length);
    result.image_tokens += span.length;
  }
  result.prompt_tokens = static_cast<int64_t>(prompt.expanded.ids.size());
  if (result.prompt_tokens >= context) {
    throw Error(
        ErrorCode::context_exceeded,
        str_cat("the prompt has ", result.prompt_tokens, " tokens (", result.image_tokens,
                " of pictures), the context holds ", context, "; shorten it or raise --context"));
  }
  if (result.prompt_tokens == 0) {
    throw Error(ErrorCode::bad_request, "the prompt is empty");
  }
}

int64_t most_answer_tokens(const Request& request, const GenerationDefaults& defaults,
                           int64_t room) {
  return std::min(request.max_tokens.value_or(defaults.max_tokens), room);
}

std::vector<PicturePlan> plan_pictures(const PromptContext& context,
                                       const std::vector<ImageSource>& pictures, bool has_preview) {
  const deepseek_v41::Config& config = context.model.network.config;
  if (config.vision.layers == 0) {
    throw Error(ErrorCode::bad_request, "this model takes no pictures");
  }
  const std::string no_root;
  PictureLoader loader(pictures, no_root, context.options.pictures, nullptr);
  loader.fetch_all();
  std::vector<PicturePlan> plans;
  for (size_t i = 0; i < pictures.size(); ++i) {
    PicturePlan& plan = plans.emplace_back();
    const PreparedPicture prepared = prepare_picture(loader, i, pictures[i], config,
                                                     context.options.picture_policy, plan.notices);
    const deepseek_v41::ImagePlan& image = prepared.image.plan;
    plan.width = image.source.width;
    plan.height = image.source.height;
    plan.content_x = image.content.x;
    plan.content_y = image.content.y;
    plan.content_width = image.content.width;
    plan.content_height = image.content.height;
    plan.canvas_width = image.canvas.size.width;
    plan.canvas_height = image.canvas.size.height;
    plan.patch_rows = image.canvas.patches.rows;
    plan.patch_columns = image.canvas.patches.columns;
    plan.token_rows = image.canvas.tokens.rows;
    plan.token_columns = image.canvas.tokens.columns;
    plan.span_tokens = image.canvas.span_tokens;
    plan.policy = context.options.picture_policy.name;
    if (has_preview) {
      plan.preview = intake::encode_png(prepared.image.canvas);
    }
  }
  return plans;
}

std::vector<PlacedPicture> placed_pictures(const PreparedPrompt& prompt) {
  std::vector<PlacedPicture> placed;
  for (size_t i = 0; i < prompt.pictures.size(); ++i) {
    const deepseek_v41::ImageSpan& span = prompt.expanded.spans[i];
    placed.push_back({span.start, span.length, prompt.pictures[i].content_key});
  }
  return placed;
}

}  // namespace tessera
