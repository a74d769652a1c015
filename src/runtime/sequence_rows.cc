#include "runtime/sequence_rows.h"

namespace tessera {

void SequenceRows::push_text(int32_t id) {
  ids.push_back(id);
  types.push_back(deepseek_v41::kTypeText);
  embeddings.push_back(nullptr);
}

void SequenceRows::truncate(size_t size) {
  ids.resize(size);
  types.resize(size);
  embeddings.resize(size);
}

void SequenceRows::place_spans(const deepseek_v41::Model& model,
                               const deepseek_v41::ExpandedPrompt& expanded,
                               std::span<const std::shared_ptr<const EncodedPicture>> pictures,
                               int64_t from) {
  const deepseek_v41::VisionWeights& w = model.network.weights.vision;
  embeddings.assign(ids.size(), nullptr);
  const int64_t row_bytes = model.network.config.hidden * static_cast<int64_t>(sizeof(bf16));
  for (size_t i = 0; i < expanded.spans.size(); ++i) {
    const deepseek_v41::ImageSpan& span = expanded.spans[i];
    if (span.start + span.length <= from) {
      continue;
    }
    const std::byte* rows = pictures[i]->rows.view().data;
    for (int64_t p = span.start; p < span.start + span.length; ++p) {
      const size_t at = static_cast<size_t>(p);
      switch (types[at]) {
        case deepseek_v41::kTypeImageStart:
          embeddings[at] = w.image_start;
          break;
        case deepseek_v41::kTypeImageNewline:
          embeddings[at] = w.image_newline;
          break;
        case deepseek_v41::kTypeImageEnd:
          embeddings[at] = w.image_end;
          break;
        default:
          embeddings[at] = rows;
          rows += row_bytes;
      }
    }
  }
}

}  // namespace tessera
