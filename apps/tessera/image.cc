// tessera image plan: what a model makes of a picture, before any model is loaded.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "base/output_file.h"
#include "base/str_cat.h"
#include "commands.h"
#include "image/geometry.h"
#include "image/policy.h"
#include "image_overlay.h"
#include "intake/decode.h"
#include "intake/notices.h"
#include "intake/png_encode.h"
#include "io/config_view.h"
#include "io/json.h"
#include "io/sha256.h"
#include "models/deepseek_v41/image_plan.h"
#include "output.h"
#include "picture_options.h"
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
  PolicyArguments policy;
  std::string detail;
  std::string png;
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
  deepseek_v41::validate(limits, view.where());
  return limits;
}

Json pair(int64_t a, int64_t b) { return Json::array({Json::number(a), Json::number(b)}); }

// A picture as one policy prepares it.
struct Prepared {
  intake::DecodedImage decoded;
  PreparedImage image;
};

// How far the canvas of a policy lies from the reference's, in levels of a channel.
struct Distance {
  bool has_same_size = false;  // else there is nothing to compare
  double mean = 0;
  int64_t most = 0;
};

struct Report {
  const image::Policy& policy;
  const Prepared& prepared;
  std::optional<Distance> distance;  // unless the policy is the reference
  std::string rgb_sha256;
  std::string canvas_sha256;
  std::string patches_sha256;
};

bool is_pillow(image::Resampler resampler) {
  return resampler == image::Resampler::pillow12 || resampler == image::Resampler::pillow13;
}

std::string resampling_name(const image::Policy& policy) {
  switch (policy.resampler) {
    case image::Resampler::pillow13:
      return "Pillow 13";
    case image::Resampler::pillow12:
      return "Pillow 12";
    case image::Resampler::torch_uint8:
      return "torchvision";
    case image::Resampler::opencv_cubic:
      return "OpenCV";
  }
  TESSERA_UNREACHABLE();
}

Json to_json(const Report& r) {
  const deepseek_v41::ImagePlan& plan = r.prepared.image.plan;
  const image::Box& content = plan.content;
  Json out = Json::object();
  out.set("format", Json::string(std::string(r.prepared.decoded.format)));
  out.set("mode", Json::string(std::string(r.prepared.decoded.mode)));
  out.set("source", pair(plan.source.width, plan.source.height));
  out.set("content", Json::array({Json::number(content.width), Json::number(content.height),
                                  Json::number(content.x), Json::number(content.y)}));
  out.set("canvas", pair(plan.canvas.size.width, plan.canvas.size.height));
  out.set("patches", pair(plan.canvas.patches.rows, plan.canvas.patches.columns));
  out.set("tokens", pair(plan.canvas.tokens.rows, plan.canvas.tokens.columns));
  out.set("span_tokens", Json::number(plan.canvas.span_tokens));
  out.set("policy", Json::string(std::string(r.policy.name)));
  if (is_pillow(r.policy.resampler)) {
    const bool is_old = r.policy.resampler == image::Resampler::pillow12;
    out.set("pillow", Json::number(int64_t{is_old ? 12 : 13}));
  }
  if (r.distance.has_value()) {
    Json distance = Json::object();
    distance.set("same_canvas", Json::boolean(r.distance->has_same_size));
    if (r.distance->has_same_size) {
      distance.set("mean", Json::number(r.distance->mean));
      distance.set("max", Json::number(r.distance->most));
    }
    out.set("vs_reference", std::move(distance));
  }
  out.set("rgb_sha256", Json::string(r.rgb_sha256));
  out.set("canvas_sha256", Json::string(r.canvas_sha256));
  out.set("patches_sha256", Json::string(r.patches_sha256));
  return out;
}

std::string distance_text(const std::optional<Distance>& distance) {
  if (!distance.has_value()) {
    return "";
  }
  if (!distance->has_same_size) {
    return "\n          its canvas has another size than the reference's";
  }
  return str_cat("\n          from the reference's canvas: ", distance->mean,
                 " levels per channel on average, ", distance->most, " at most");
}

std::string to_text(const Report& r) {
  const deepseek_v41::ImagePlan& plan = r.prepared.image.plan;
  const deepseek_v41::Grid& patches = plan.canvas.patches;
  const deepseek_v41::Grid& tokens = plan.canvas.tokens;
  const int64_t padding =
      plan.canvas.size.width * plan.canvas.size.height - plan.content.width * plan.content.height;
  return str_cat(
      "picture   ", plan.source.width, " x ", plan.source.height, " pixels, ",
      r.prepared.decoded.format, " (", r.prepared.decoded.mode, ")\ncontent   ", plan.content.width,
      " x ", plan.content.height, " at (", plan.content.x, ", ", plan.content.y, ")\ncanvas    ",
      plan.canvas.size.width, " x ", plan.canvas.size.height, ", ", padding,
      " pixels of grey padding\npatches   ", patches.rows, " rows x ", patches.columns,
      " columns = ", patches.count(), "\ntokens    ", tokens.rows, " rows x ", tokens.columns,
      " columns = ", tokens.count(), "\nspan      ", plan.canvas.span_tokens,
      " tokens with start, ", tokens.rows, " line ends and end\npolicy    ", r.policy.name,
      ", resampling of ", resampling_name(r.policy), distance_text(r.distance),
      "\nSHA-256   rgb     ", r.rgb_sha256, "\n          canvas  ", r.canvas_sha256,
      "\n          patches ", r.patches_sha256, "\n");
}

Prepared prepare(const std::vector<std::byte>& bytes, const Options& options,
                 const image::Policy& policy, const ImageLimits& limits) {
  Prepared out;
  out.decoded = intake::decode_image(bytes, options.file, {.policy = policy});
  out.image = prepare_image(out.decoded.rgb, limits,
                            {.policy = policy, .is_low_detail = options.detail == "low"});
  return out;
}

Distance distance_between(const image::Image& a, const image::Image& b) {
  Distance out;
  out.has_same_size = a.size() == b.size();
  if (!out.has_same_size) {
    return out;
  }
  const int64_t count = static_cast<int64_t>(a.bytes().size());
  int64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t d = std::abs(int64_t{a.pixels()[i]} - int64_t{b.pixels()[i]});
    sum += d;
    out.most = std::max(out.most, d);
  }
  out.mean = static_cast<double>(sum) / static_cast<double>(count);
  return out;
}

// Both drawings on one sheet, the reference's at the left.
image::Image side_by_side(const image::Image& left, const image::Image& right) {
  constexpr int64_t kGap = 16;
  image::Image sheet({left.width() + kGap + right.width(), std::max(left.height(), right.height())},
                     {255, 255, 255});
  image::paste(left, 0, 0, sheet);
  image::paste(right, left.width() + kGap, 0, sheet);
  return sheet;
}

void run_plan(const Options& options) {
  check_detail(options.detail);
  const image::Policy policy = policy_of(options.policy);
  const ImageLimits limits = read_limits(options.model);
  const std::vector<std::byte> bytes = intake::read_image_file(options.file);
  const Prepared prepared = prepare(bytes, options, policy, limits);
  std::optional<Prepared> reference;
  if (policy.name != image::reference_policy().name) {
    reference = prepare(bytes, options, image::reference_policy(), limits);
  }
  const TensorView patches = prepared.image.patches.view();
  Report report{
      .policy = policy,
      .prepared = prepared,
      .distance = {},
      .rgb_sha256 = io::sha256_hex(prepared.decoded.rgb.bytes()),
      .canvas_sha256 = io::sha256_hex(prepared.image.canvas.bytes()),
      .patches_sha256 = io::sha256_hex({patches.data, static_cast<size_t>(patches.bytes())}),
  };
  if (reference.has_value()) {
    report.distance = distance_between(prepared.image.canvas, reference->image.canvas);
  }
  if (!options.png.empty()) {
    image::Image drawing = draw_plan(prepared.image, limits);
    if (reference.has_value()) {
      drawing = side_by_side(draw_plan(reference->image, limits), drawing);
    }
    OutputFile out(options.png);
    out.write(intake::encode_png(drawing));
    out.commit();
  }
  Output().write(options.is_json ? io::dump_compact(to_json(report)) + "\n" : to_text(report));
  for (const std::string& line : intake::notices(prepared.decoded, options.file, policy)) {
    log_line(LogLevel::warning, line);
  }
}

}  // namespace

void add_image_command(CLI::App& app) {
  CLI::App* image = app.add_subcommand("image", "Look at pictures the way a model does");
  image->require_subcommand(1);
  CLI::App* plan = image->add_subcommand(
      "plan", "Canvas, patches and token cost of a picture, with hashes to compare");
  const auto options = std::make_shared<Options>();
  plan->add_option("FILE", options->file, "Picture (JPEG, PNG, WebP, GIF, BMP, TIFF or PNM)")
      ->required();
  plan->add_option("--model", options->model,
                   "Checkpoint folder, org/name in the local Hugging Face cache, or a config.json "
                   "(default: demo model)")
      ->type_name("DIR|ORG/NAME|FILE");
  add_policy_options(*plan, options->policy);
  plan->add_option("--detail", options->detail,
                   "what the request asks for: low, high, auto or original (policy recipe)")
      ->type_name("low|high|auto|original");
  plan->add_option("--png", options->png,
                   "Draw canvas, patches and tokens into this file; with another policy than the "
                   "reference, both")
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
