#include "models/quantization.h"

#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "io/json.h"

namespace tessera {
namespace {

constexpr int64_t kReleasedBlock = 32;
constexpr int64_t kNvfp4Group = 16;

[[noreturn]] void unsupported(const std::string& where, std::string_view key,
                              std::string_view found, std::string_view expected) {
  throw Error(ErrorCode::unsupported,
              str_cat(where, ": ", key, " is '", found, "', expected ", expected));
}

// The only size of NVFP4's groups.
void check_group_size(const io::ConfigView& v) {
  const int64_t size = v.integer_or("group_size", 1, 4096, kNvfp4Group);
  if (size != kNvfp4Group) {
    throw Error(ErrorCode::bad_file,
                str_cat(v.where(), ": group_size is ", size, ", NVFP4 has groups of 16"));
  }
}

int64_t read_block(const io::ConfigView& v) {
  const std::vector<int64_t> block = v.integers("weight_block_size", 1, 4096);
  if (block.size() != 2 || block[0] != block[1] || block[0] % 32 != 0) {
    throw Error(ErrorCode::bad_file,
                str_cat(v.where(), ": weight_block_size must be two equal multiples of 32"));
  }
  return block[0];
}

// Block-scaled FP8. ModelOpt's mixed checkpoints keep the release's tiles without naming them.
MatrixFormat read_fp8(const io::ConfigView& v, bool is_mixed) {
  MatrixFormat format = {StoredFormat::fp8_e8m0, kReleasedBlock};
  if (!is_mixed || v.has("weight_block_size")) {
    format.block = read_block(v);
  }
  const std::string scales = v.text_or("scale_fmt", is_mixed ? "ue8m0" : "float");
  if (scales != "ue8m0" && scales != "float") {
    unsupported(v.where(), "scale_fmt", scales, "'ue8m0' or 'float'");
  }
  if (scales == "float") {
    format.format = StoredFormat::fp8_f32;
  }
  return format;
}

MatrixFormat read_experts(const io::ConfigView& v, const MatrixFormat& projections) {
  const std::string type = v.text_or("expert_dtype", "fp8");
  if (type == "fp4") {
    return {StoredFormat::mxfp4};
  }
  if (type == "bf16") {
    return {StoredFormat::bf16};
  }
  if (type != "fp8") {
    unsupported(v.where(), "expert_dtype", type, "'fp4', 'fp8' or 'bf16'");
  }
  return projections;
}

std::optional<StoredFormat> read_engram(const io::ConfigView& v) {
  if (!v.has("engram_dtype")) {
    return std::nullopt;
  }
  const std::string type = v.text("engram_dtype");
  if (type == "bf16") {
    return StoredFormat::bf16;
  }
  if (type != "fp4" && type != "fp8") {
    unsupported(v.where(), "engram_dtype", type, "'fp8', 'fp4' or 'bf16'");
  }
  if (v.integer_or("engram_block_size", 1, 4096, 32) != 32 ||
      v.text_or("engram_scale_fmt", "ue8m0") != "ue8m0") {
    throw Error(ErrorCode::unsupported, str_cat(v.where(),
                                                ": Engram tables need engram_block_size 32 and "
                                                "engram_scale_fmt 'ue8m0'"));
  }
  return type == "fp4" ? StoredFormat::mxfp4 : StoredFormat::fp8_e8m0;
}

// Whether ModelOpt's quant_algo (and, for MIXED_PRECISION, that of the experts) makes the routed
// experts NVFP4.
void check_modelopt_algorithm(const io::ConfigView& v, const std::string& algorithm) {
  if (algorithm == "MIXED_PRECISION") {
    const std::string experts = v.text_or("moe_quant_algo", "NVFP4");
    if (experts != "NVFP4") {
      unsupported(v.where(), "moe_quant_algo", experts, "'NVFP4'");
    }
  } else if (algorithm != "NVFP4") {
    unsupported(v.where(), "quant_algo", algorithm, "'NVFP4' or 'MIXED_PRECISION'");
  }
  check_group_size(v);
}

}  // namespace

Quantization read_quantization(const io::ConfigView& v) {
  const std::string method = v.text("quant_method");
  if (method != "fp8" && method != "modelopt") {
    unsupported(v.where(), "quant_method", method, "'fp8' or 'modelopt'");
  }
  const std::string scheme = v.text_or("activation_scheme", "dynamic");
  if (scheme != "dynamic") {
    unsupported(v.where(), "activation_scheme", scheme, "'dynamic'");
  }
  const bool is_modelopt = v.has("quant_algo");
  Quantization q;
  q.projections = read_fp8(v, is_modelopt);
  q.experts = read_experts(v, *q.projections);
  q.draft_experts = q.experts;
  q.engram_tables = read_engram(v);
  if (is_modelopt) {
    check_modelopt_algorithm(v, v.text("quant_algo"));
    q.experts = MatrixFormat{StoredFormat::nvfp4};
    // NVIDIA's export leaves the draft stages as they were.
  }
  return q;
}

void read_hf_quant_config(const std::string& folder, Quantization& quantization) {
  const std::string path = folder + "/hf_quant_config.json";
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, error))) {
    return;
  }
  const io::Json json = io::read_json_file(path);
  if (!json.is_object()) {
    throw Error(ErrorCode::bad_file, str_cat(path, ": expected a JSON object"));
  }
  const io::ConfigView top(json, path);
  const std::optional<io::ConfigView> v = top.child("quantization");
  if (!v.has_value()) {
    throw Error(ErrorCode::bad_file, str_cat(path, ": the object 'quantization' is missing"));
  }
  check_modelopt_algorithm(*v, v->text("quant_algo"));
  const MatrixFormat nvfp4 = {StoredFormat::nvfp4};
  if (quantization.experts.has_value() && !(*quantization.experts == nvfp4)) {
    throw Error(ErrorCode::bad_file,
                str_cat(path,
                        ": quant_algo declares NVFP4 experts, config.json's "
                        "quantization_config declares ",
                        format_text(*quantization.experts),
                        "; one of the two files belongs to another checkpoint"));
  }
  quantization.experts = nvfp4;
}

}  // namespace tessera
