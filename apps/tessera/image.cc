// tessera image plan: what a model makes of a picture, before any model is loaded.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/output_file.h"
#include "base/str_cat.h"
#include "commands.h"
#include "image_overlay.h"
#include "intake/decode.h"
#include "intake/png_encode.h"
#include "io/config_view.h"
#include "io/json.h"
#include "io/sha256.h"
#include "models/deepseek_v41/image_plan.h"
#include "number_option.h"
#include "output.h"
#include "runtime/engine.h"

namespace tessera {
namespace {

using deepseek_v41::ImageLimits;
using deepseek_v41::PreparedImage;
using io::Json;

constexpr int64_t kLargestNumber = int64_t{1} << 40;  // validate() applies the real bounds

struct Options {
  std::string file;
  std::string model;
  std::string policy = "reference";
  std::string png;
  int pillow = 13;
  bool is_json = false;
};

// Both dialects of config.json: Hugging Face's with a vision_config object, and the flat one of the
// reference program with a prefix on each key.
ImageLimits read_limits(const std::string& model) {
  std::error_code ignored;
  const bool is_file = std::filesystem::is_regular_file(model, ignored);
  const std::string path = is_file ? model : resolve_model(model) + "/config.json";
  const Json config = io::read_json_file(path);
  const io::ConfigView top(config, path);
  const std::optional<io::ConfigView> nested = top.child("vision_config");
  const io::ConfigView& view = nested ? *nested : top;
  const auto key = [&nested](const char* nested_key, const char* flat_key) {
    return nested ? nested_key : flat_key;
  };
  const auto number = [&view](const char* name) { return view.integer(name, 0, kLargestNumber); };
  ImageLimits limits;
  limits.patch = number(key("patch_size", "vision_patch_size"));
  limits.downsample = number(key("downsample_ratio", "vision_downsample_ratio"));
  limits.max_tokens = number(key("max_image_tokens", "vision_max_n_token"));
  limits.min_pixels = number(key("min_pixels", "vision_min_pixels"));
  if (const char* name = key("max_wh_ratio", "vision_max_wh_ratio"); view.has(name)) {
    limits.max_wh_ratio = view.number(name);
  }
  deepseek_v41::validate(limits);
  return limits;
}

Json pair(int64_t a, int64_t b) { return Json::array({Json::number(a), Json::number(b)}); }

struct Report {
  const intake::DecodedImage& decoded;
  const PreparedImage& prepared;
  std::string rgb_sha256;
  std::string canvas_sha256;
  std::string patches_sha256;
};

Json to_json(const Report& r, const Options& options) {
  const deepseek_v41::ImagePlan& plan = r.prepared.plan;
  const image::Box& content = plan.content;
  Json out = Json::object();
  out.set("format", Json::string(std::string(r.decoded.format)));
  out.set("mode", Json::string(std::string(r.decoded.mode)));
  out.set("source", pair(plan.source.width, plan.source.height));
  out.set("content", Json::array({Json::number(content.width), Json::number(content.height),
                                  Json::number(content.x), Json::number(content.y)}));
  out.set("canvas", pair(plan.canvas.size.width, plan.canvas.size.height));
  out.set("patches", pair(plan.canvas.patches.rows, plan.canvas.patches.columns));
  out.set("tokens", pair(plan.canvas.tokens.rows, plan.canvas.tokens.columns));
  out.set("span_tokens", Json::number(plan.canvas.span_tokens));
  out.set("policy", Json::string(options.policy));
  out.set("pillow", Json::number(int64_t{options.pillow}));
  out.set("rgb_sha256", Json::string(r.rgb_sha256));
  out.set("canvas_sha256", Json::string(r.canvas_sha256));
  out.set("patches_sha256", Json::string(r.patches_sha256));
  return out;
}

std::string to_text(const Report& r, const Options& options) {
  const deepseek_v41::ImagePlan& plan = r.prepared.plan;
  const deepseek_v41::Grid& patches = plan.canvas.patches;
  const deepseek_v41::Grid& tokens = plan.canvas.tokens;
  const int64_t padding =
      plan.canvas.size.width * plan.canvas.size.height - plan.content.width * plan.content.height;
  return str_cat("picture   ", plan.source.width, " x ", plan.source.height, " pixels, ",
                 r.decoded.format, " (", r.decoded.mode, ")\ncontent   ", plan.content.width, " x ",
                 plan.content.height, " at (", plan.content.x, ", ", plan.content.y,
                 ")\ncanvas    ", plan.canvas.size.width, " x ", plan.canvas.size.height, ", ",
                 padding, " pixels of grey padding\npatches   ", patches.rows, " rows x ",
                 patches.columns, " columns = ", patches.count(), "\ntokens    ", tokens.rows,
                 " rows x ", tokens.columns, " columns = ", tokens.count(), "\nspan      ",
                 plan.canvas.span_tokens, " tokens with start, ", tokens.rows,
                 " line ends and end\npolicy    ", options.policy, ", resampling of Pillow ",
                 options.pillow, "\nSHA-256   rgb     ", r.rgb_sha256, "\n          canvas  ",
                 r.canvas_sha256, "\n          patches ", r.patches_sha256, "\n");
}

void run_plan(const Options& options) {
  if (options.policy != "reference") {
    throw Error(ErrorCode::unsupported,
                str_cat("--policy ", options.policy,
                        ": expected reference, the only policy of this version"));
  }
  if (options.pillow != 12 && options.pillow != 13) {
    throw Error(
        ErrorCode::bad_request,
        str_cat("--pillow ", options.pillow, ": expected 12 (order of passes up to 12.3) or 13"));
  }
  const ImageLimits limits = read_limits(options.model);
  const intake::DecodedImage decoded =
      intake::decode_image(intake::read_image_file(options.file), options.file);
  const PreparedImage prepared =
      prepare_image(decoded.rgb, limits,
                    options.pillow == 12 ? image::PassOrder::pillow12 : image::PassOrder::pillow13);
  const TensorView patches = prepared.patches.view();
  const Report report{
      .decoded = decoded,
      .prepared = prepared,
      .rgb_sha256 = io::sha256_hex(decoded.rgb.bytes()),
      .canvas_sha256 = io::sha256_hex(prepared.canvas.bytes()),
      .patches_sha256 = io::sha256_hex({patches.data, static_cast<size_t>(patches.bytes())}),
  };
  if (!options.png.empty()) {
    OutputFile out(options.png);
    out.write(intake::encode_png(draw_plan(prepared, limits)));
    out.commit();
  }
  Output().write(options.is_json ? io::dump_compact(to_json(report, options)) + "\n"
                                 : to_text(report, options));
}

}  // namespace

void add_image_command(CLI::App& app) {
  CLI::App* image = app.add_subcommand("image", "Look at pictures the way a model does");
  image->require_subcommand(1);
  CLI::App* plan = image->add_subcommand(
      "plan", "Canvas, patches and token cost of a picture, with hashes to compare");
  const auto options = std::make_shared<Options>();
  plan->add_option("FILE", options->file, "Picture (JPEG or PNG)")->required();
  plan->add_option("--model", options->model,
                   "Checkpoint folder, org/name in the local Hugging Face cache, or a config.json "
                   "(default: demo model)")
      ->type_name("DIR|ORG/NAME|FILE");
  plan->add_option("--policy", options->policy, "Rules of preparation: reference");
  add_number_option(*plan, "--pillow", options->pillow,
                    "Order of the resampling passes of Pillow 12 or 13 (default 13)");
  plan->add_option("--png", options->png, "Draw canvas, patches and tokens into this file")
      ->type_name("FILE");
  plan->add_flag("--json", options->is_json, "Print one JSON value");
  for (CLI::App* command : {image, plan}) {
    command->footer(
        "Examples:\n"
        "  tessera image plan photo.jpg\n"
        "  tessera image plan photo.jpg --model DIR --png plan.png");
  }
  plan->callback([options] { run_plan(*options); });
}

}  // namespace tessera
