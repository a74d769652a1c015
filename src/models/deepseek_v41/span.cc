#include "models/deepseek_v41/span.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "base/str_cat.h"

namespace tessera::deepseek_v41 {
namespace {

void append_span(const Grid& grid, int32_t id, ExpandedPrompt& prompt) {
  TESSERA_CHECK(grid.rows > 0 && grid.columns > 0);
  const int64_t length = span_tokens(grid);
  prompt.spans.push_back({static_cast<int64_t>(prompt.ids.size()), length, grid});
  prompt.ids.insert(prompt.ids.end(), static_cast<size_t>(length), id);
  prompt.types.push_back(kTypeImageStart);
  for (int64_t row = 0; row < grid.rows; ++row) {
    prompt.types.insert(prompt.types.end(), static_cast<size_t>(grid.columns), kTypeImage);
    prompt.types.push_back(kTypeImageNewline);
  }
  prompt.types.push_back(kTypeImageEnd);
}

}  // namespace

ExpandedPrompt expand_images(std::span<const int32_t> prompt_ids, int32_t image_token_id,
                             std::span<const Grid> images, bool has_vision) {
  const int64_t placeholders = std::count(prompt_ids.begin(), prompt_ids.end(), image_token_id);
  if (placeholders != static_cast<int64_t>(images.size())) {
    throw Error(ErrorCode::bad_request, str_cat("Found ", placeholders, " image tokens but got ",
                                                images.size(), " images"));
  }
  if (placeholders > 0 && !has_vision) {
    throw Error(ErrorCode::bad_request,
                "The model config has no vision tower (vision_n_layers == 0) but the prompt "
                "contains images");
  }
  ExpandedPrompt prompt;
  size_t image = 0;
  for (const int32_t id : prompt_ids) {
    if (id == image_token_id) {
      append_span(images[image++], id, prompt);
    } else {
      prompt.ids.push_back(id);
      prompt.types.push_back(kTypeText);
    }
  }
  return prompt;
}

}  // namespace tessera::deepseek_v41
