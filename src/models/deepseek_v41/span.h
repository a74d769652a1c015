// Image spans: what one image placeholder of a prompt becomes. Specification sections 5.1 and 5.2.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/deepseek_v41/image_plan.h"

namespace tessera::deepseek_v41 {

// Role of a position. Every position of a span carries the image token's id; only this tells
// them apart.
constexpr int8_t kTypeText = -1;
constexpr int8_t kTypeImageStart = 0;
constexpr int8_t kTypeImage = 1;
constexpr int8_t kTypeImageNewline = 2;
constexpr int8_t kTypeImageEnd = 3;

// Positions of an image of rows x columns tokens: START, rows x (columns x IMAGE, NEWLINE), END.
inline int64_t span_tokens(const Grid& tokens) { return tokens.rows * (tokens.columns + 1) + 2; }

struct ImageSpan {
  int64_t start = 0;   // position in the expanded prompt
  int64_t length = 0;  // span_tokens(tokens)
  Grid tokens;
};

struct ExpandedPrompt {
  std::vector<int32_t> ids;      // [tokens]
  std::vector<int8_t> types;     // [tokens]
  std::vector<ImageSpan> spans;  // [images]
};

// Replaces the k-th id equal to `image_token_id` by the span of images[k] (its token grid). Throws
// Error{bad_request} when the numbers of placeholders and images differ, or when there are images
// and the model has no vision tower. Grids have at least one row and one column.
ExpandedPrompt expand_images(std::span<const int32_t> prompt_ids, int32_t image_token_id,
                             std::span<const Grid> images, bool has_vision);

}  // namespace tessera::deepseek_v41
