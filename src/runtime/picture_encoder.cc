#include "runtime/picture_encoder.h"

#include "base/error.h"
#include "base/str_cat.h"
#include "intake/content_key.h"
#include "intake/decode.h"
#include "intake/notices.h"
#include "models/deepseek_v41/vision.h"
#include "runtime/engine_buffers.h"

namespace tessera {
namespace {

deepseek_v41::ImageLimits limits_of(const deepseek_v41::VisionConfig& v) {
  deepseek_v41::ImageLimits limits = {.patch = v.patch_px,
                                      .downsample = v.downsample,
                                      .max_tokens = v.max_tokens,
                                      .min_pixels = v.min_pixels,
                                      .max_wh_ratio = std::nullopt};
  if (v.max_wh_ratio.has_value()) {
    limits.max_wh_ratio = static_cast<double>(*v.max_wh_ratio);
  }
  return limits;
}

// Canvas pixels, grids and patches, as the tower gets them.
void tap_input(ExecContext& ctx, const deepseek_v41::PreparedImage& image,
               const std::string& name) {
  if (!ctx.trace.is_on()) {
    return;
  }
  uint8_t* pixels = const_cast<uint8_t*>(image.canvas.pixels());
  ctx.trace.tap(mutable_view_of(pixels, {image.canvas.height(), image.canvas.width(), 3}), name,
                ".pixels");
  int32_t grid[4] = {static_cast<int32_t>(image.plan.canvas.patches.rows),
                     static_cast<int32_t>(image.plan.canvas.patches.columns),
                     static_cast<int32_t>(image.plan.canvas.tokens.rows),
                     static_cast<int32_t>(image.plan.canvas.tokens.columns)};
  ctx.trace.tap(mutable_view_of(grid, {4}), name, ".grid");
  const Tensor& patches = image.patches;
  ctx.trace.tap(mutable_view_of(const_cast<bf16*>(patches.as<bf16>()), patches.shape()), name,
                ".patches");
}

template <typename T>
bool run_tower(ExecContext& ctx, const deepseek_v41::Model& model,
               const deepseek_v41::PreparedImage& image, const std::string& name,
               const std::function<bool(int64_t, int64_t)>& on_tile,
               std::unique_ptr<deepseek_v41::VisionBuffers<T>>& buffers, Tensor& out) {
  const deepseek_v41::Grid& grid = image.plan.canvas.patches;
  deepseek_v41::VisionJob<T> job(model.network, image.patches.as<bf16>(), grid.rows, grid.columns,
                                 name, vision_buffers(model.network.config, grid.count(), buffers));
  while (!job.advance(ctx, 1)) {
    if (!on_tile(job.tiles_done(), job.tiles_total())) {
      return false;
    }
  }
  out = job.take_out();
  return true;
}

}  // namespace

void check_picture_limits(const deepseek_v41::VisionConfig& config, std::string_view folder) {
  deepseek_v41::validate(limits_of(config), str_cat(folder, "/config.json"));
}

PreparedPicture prepare_picture(PictureLoader& loader, size_t i, const ImageSource& source,
                                const deepseek_v41::Config& config, const image::Policy& policy,
                                std::vector<std::string>& notices) {
  const std::string name = loader.name(i);
  std::vector<std::byte> bytes = loader.load(i);
  const intake::DecodedImage decoded =
      intake::decode_image(bytes, name, loader.decode_options(policy));
  bytes = {};
  loader.decoded(decoded.rgb);
  for (std::string& line : intake::notices(decoded, name, policy)) {
    notices.push_back(std::move(line));
  }
  try {
    PreparedPicture picture;
    picture.image =
        deepseek_v41::prepare_image(decoded.rgb, limits_of(config.vision),
                                    {.policy = policy, .is_low_detail = source.detail == "low"});
    const deepseek_v41::Grid& grid = picture.image.plan.canvas.tokens;
    picture.content_key =
        intake::content_key(policy.name, grid.rows, grid.columns, picture.image.canvas);
    return picture;
  } catch (const Error& error) {
    throw Error(error.code(), str_cat(name, ": ", error.what()));
  }
}

bool encode_picture(ExecContext& ctx, const deepseek_v41::Model& model,
                    std::unique_ptr<deepseek_v41::VisionBuffers<bf16>>& buffers,
                    const PreparedPicture& picture, int64_t index, bool is_fp32,
                    const std::function<bool(int64_t done, int64_t total)>& on_tile,
                    EncodedPicture& encoded) {
  const std::string name = str_cat("image", index);
  tap_input(ctx, picture.image, name);
  encoded.tokens = picture.image.plan.canvas.tokens;
  if (!is_fp32) {
    return run_tower<bf16>(ctx, model, picture.image, name, on_tile, buffers, encoded.rows);
  }
  Tensor wide;
  std::unique_ptr<deepseek_v41::VisionBuffers<float>> wide_buffers;
  if (!run_tower<float>(ctx, model, picture.image, name, on_tile, wide_buffers, wide)) {
    return false;
  }
  encoded.rows = Tensor(DType::bf16, wide.shape());
  for (int64_t i = 0; i < wide.shape().elements(); ++i) {
    encoded.rows.as<bf16>()[i] = to_bf16(wide.as<float>()[i]);
  }
  return true;
}

}  // namespace tessera
