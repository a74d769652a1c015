// Pictures of a request to embedding rows. Internal to the runtime.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "image/policy.h"
#include "models/deepseek_v41/image_plan.h"
#include "models/deepseek_v41/model.h"
#include "models/deepseek_v41/vision.h"
#include "runtime/engine.h"
#include "runtime/picture_loader.h"
#include "tensor/exec_context.h"

namespace tessera {

// A decoded picture, planned and cut into patches.
struct PreparedPicture {
  deepseek_v41::PreparedImage image;
  std::string content_key;  // intake/content_key.h
};

struct EncodedPicture {
  deepseek_v41::Grid tokens;
  Tensor rows;  // bf16 [tokens.count(), text hidden]
};

// Throws Error{bad_file} when no picture can fit the limits of the model in `folder`.
void check_picture_limits(const deepseek_v41::VisionConfig& config, std::string_view folder);

// Decodes and plans picture `i` of a loader by the rules of `policy` and the source's own `detail`.
// Adds what a user should know to `notices`. Throws Error{bad_request} or {bad_file}.
PreparedPicture prepare_picture(PictureLoader& loader, size_t i, const ImageSource& source,
                                const deepseek_v41::Config& config, const image::Policy& policy,
                                std::vector<std::string>& notices);

// Runs the tower on one picture; `index` numbers it in traces. `buffers` is made or enlarged when
// needed (the fp32 tower, a diagnosis, takes its own). on_tile(done, total) after each tile;
// returns false when it asked to stop.
bool encode_picture(ExecContext& ctx, const deepseek_v41::Model& model,
                    std::unique_ptr<deepseek_v41::VisionBuffers<bf16>>& buffers,
                    const PreparedPicture& picture, int64_t index, bool is_fp32,
                    const std::function<bool(int64_t done, int64_t total)>& on_tile,
                    EncodedPicture& encoded);

}  // namespace tessera
