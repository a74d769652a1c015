#include "base/error.h"
#include "models/deepseek_v41/conversion.h"

namespace tessera::deepseek_v41 {
namespace {

constexpr MatrixFormat kBf16 = {StoredFormat::bf16};
constexpr MatrixFormat kFp8 = {StoredFormat::fp8_e8m0, 32};
constexpr MatrixFormat kMxfp4 = {StoredFormat::mxfp4};
constexpr MatrixFormat kNvfp4 = {StoredFormat::nvfp4};

io::Json parse(std::string_view text) { return io::parse_json(text, "quantization_config"); }

}  // namespace

std::optional<ConversionTarget> conversion_target(std::string_view name) {
  if (name == "bf16") {
    return ConversionTarget{"bf16", kBf16, kBf16, kBf16, StoredFormat::bf16};
  }
  if (name == "fp8") {
    return ConversionTarget{"fp8", kFp8, kFp8, kFp8, StoredFormat::fp8_e8m0};
  }
  if (name == "mxfp4") {
    return ConversionTarget{"mxfp4", kFp8, kMxfp4, kMxfp4, StoredFormat::fp8_e8m0};
  }
  if (name == "nvfp4") {
    return ConversionTarget{"nvfp4", kFp8, kNvfp4, kMxfp4, StoredFormat::fp8_e8m0};
  }
  return std::nullopt;
}

io::Json converted_config(const io::Json& config, const ConversionTarget& target) {
  if (config.find("text_config") == nullptr) {
    throw Error(ErrorCode::unsupported,
                "config.json is in the flat dialect, which cannot declare the formats of a "
                "converted checkpoint; use the folder with the nested one");
  }
  io::Json converted = config;
  std::erase_if(converted.members(),
                [](const io::Json::Member& m) { return m.first == "quantization_config"; });
  if (target.name == "bf16") {
    return converted;
  }
  io::Json declared = parse(
      R"({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [32, 32],
          "scale_fmt": "ue8m0"})");
  declared.set("expert_dtype", io::Json::string(target.name == "fp8" ? "fp8" : "fp4"));
  if (target.name == "nvfp4") {
    declared.set("quant_algo", io::Json::string("MIXED_PRECISION"));
    declared.set("moe_quant_algo", io::Json::string("NVFP4"));
    declared.set("group_size", io::Json::number(int64_t{16}));
    declared.set("kv_cache_quant_algo", io::Json());
    declared.set("ignore", parse(R"(["*.attn.*", "*.ffn.shared_experts.*", "head", "mtp.*"])"));
  }
  converted.set("quantization_config", std::move(declared));
  return converted;
}

}  // namespace tessera::deepseek_v41
