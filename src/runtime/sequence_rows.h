// The tokens of a sequence with what stands for their embeddings. Internal to the runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/deepseek_v41/model.h"
#include "models/deepseek_v41/span.h"
#include "runtime/picture_encoder.h"

namespace tessera {

struct SequenceRows {
  std::vector<int32_t> ids;
  std::vector<int8_t> types;
  std::vector<const std::byte*> embeddings;  // rows of spans; nullptr: the table's

  void push_text(int32_t id);
  void truncate(size_t size);

  // Rows for the spans that end behind `from`: learned delimiters and the pictures' own rows, which
  // outlive this. Pictures of other spans may be nullptr.
  void place_spans(const deepseek_v41::Model& model, const deepseek_v41::ExpandedPrompt& expanded,
                   std::span<const std::shared_ptr<const EncodedPicture>> pictures, int64_t from);
};

}  // namespace tessera
