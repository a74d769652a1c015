#include "models/quantization.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

Quantization read(const char* text) {
  const io::Json json = io::parse_json(text, "config.json");
  return read_quantization(io::ConfigView(json, "config.json: quantization_config"));
}

// The message, after a check of the code.
std::string refusal(const char* text, ErrorCode code) {
  try {
    read(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error: " << text;
  return "";
}

constexpr MatrixFormat kFp8 = {StoredFormat::fp8_e8m0, 32};
constexpr MatrixFormat kMxfp4 = {StoredFormat::mxfp4};
constexpr MatrixFormat kNvfp4 = {StoredFormat::nvfp4};

TEST(Quantization, TheRelease) {
  const Quantization q = read(
      R"({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [32, 32],
          "scale_fmt": "ue8m0", "expert_dtype": "fp4"})");
  EXPECT_EQ(q.projections, kFp8);
  EXPECT_EQ(q.experts, kMxfp4);
  EXPECT_EQ(q.draft_experts, kMxfp4);
  EXPECT_EQ(q.engram_tables, std::nullopt);
}

// Checkpoint specification 9: only the backbone's experts are NVFP4.
TEST(Quantization, TheNvfp4Variant) {
  const Quantization q = read(
      R"({"quant_method": "fp8", "quant_algo": "MIXED_PRECISION", "moe_quant_algo": "NVFP4",
          "expert_dtype": "fp4", "group_size": 16, "kv_cache_quant_algo": null,
          "ignore": ["*.attn.*", "*.ffn.shared_experts.*", "head", "mtp.*"],
          "producer": {"name": "modelopt"}})");
  EXPECT_EQ(q.projections, kFp8);
  EXPECT_EQ(q.experts, kNvfp4);
  EXPECT_EQ(q.draft_experts, kMxfp4);
}

TEST(Quantization, V3StyleAndConvertedExperts) {
  const MatrixFormat v3 = {StoredFormat::fp8_f32, 128};
  Quantization q = read(
      R"({"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"})");
  EXPECT_EQ(q.projections, v3);
  EXPECT_EQ(q.experts, v3);
  q = read(R"({"quant_method": "fp8", "weight_block_size": [32, 32], "scale_fmt": "ue8m0",
               "expert_dtype": "fp8"})");
  EXPECT_EQ(q.experts, kFp8);
}

TEST(Quantization, EngramTables) {
  const std::string start =
      R"({"quant_method": "fp8", "weight_block_size": [32, 32], "scale_fmt": "ue8m0",
          "expert_dtype": "fp4", "engram_dtype": )";
  EXPECT_EQ(
      read((start + R"("fp4", "engram_block_size": 32, "engram_scale_fmt": "ue8m0"})").c_str())
          .engram_tables,
      StoredFormat::mxfp4);
  EXPECT_EQ(read((start + R"("bf16"})").c_str()).engram_tables, StoredFormat::bf16);
  EXPECT_NE(refusal((start + R"("fp4", "engram_block_size": 16})").c_str(), ErrorCode::unsupported)
                .find("engram_block_size 32"),
            std::string::npos);
  EXPECT_NE(refusal((start + R"("int4"})").c_str(), ErrorCode::unsupported)
                .find("engram_dtype is 'int4'"),
            std::string::npos);
}

TEST(Quantization, UnknownMethodsAndAlgorithms) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"quant_method": "exl3"})", "quant_method is 'exl3', expected 'fp8' or 'modelopt'"},
      {R"({"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"})",
       "quant_algo is 'W4A8_AWQ', expected 'NVFP4' or 'MIXED_PRECISION'"},
      {R"({"quant_method": "fp8", "quant_algo": "MIXED_PRECISION", "moe_quant_algo": "INT4"})",
       "moe_quant_algo is 'INT4', expected 'NVFP4'"},
      {R"({"quant_method": "fp8", "weight_block_size": [32, 32], "scale_fmt": "e5m3"})",
       "scale_fmt is 'e5m3'"},
      {R"({"quant_method": "fp8", "weight_block_size": [32, 32], "expert_dtype": "int4"})",
       "expert_dtype is 'int4'"},
      {R"({"quant_method": "fp8", "activation_scheme": "static"})",
       "activation_scheme is 'static'"}};
  for (const auto& [text, expected] : cases) {
    EXPECT_NE(refusal(text, ErrorCode::unsupported).find(expected), std::string::npos) << text;
  }
}

TEST(Quantization, BadValues) {
  EXPECT_NE(
      refusal(R"({"quant_method": "fp8", "weight_block_size": [32, 64]})", ErrorCode::bad_file)
          .find("weight_block_size"),
      std::string::npos);
  EXPECT_NE(refusal(R"({"quant_method": "fp8"})", ErrorCode::bad_file).find("weight_block_size"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"quant_method": "fp8", "quant_algo": "NVFP4", "group_size": 32})",
                    ErrorCode::bad_file)
                .find("group_size is 32, NVFP4 has groups of 16"),
            std::string::npos);
}

class HfQuantConfig : public testing::Test {
 protected:
  void write(const char* text) { std::ofstream(folder_ / "hf_quant_config.json") << text; }
  std::string refusal_of(Quantization q) {
    try {
      read_hf_quant_config(folder_.path(), q);
    } catch (const Error& error) {
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }
  test::TempFolder folder_;
};

TEST_F(HfQuantConfig, FillsInWhatConfigJsonLeavesOpen) {
  Quantization q;
  read_hf_quant_config(folder_.path(), q);  // there is none
  EXPECT_EQ(q.experts, std::nullopt);
  write(R"({"producer": {"name": "modelopt"},
            "quantization": {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": []}})");
  read_hf_quant_config(folder_.path(), q);
  EXPECT_EQ(q.experts, kNvfp4);
  EXPECT_EQ(q.projections, std::nullopt);
}

TEST_F(HfQuantConfig, ContradictionNamesBothFacts) {
  write(R"({"quantization": {"quant_algo": "MIXED_PRECISION"}})");
  Quantization q;
  q.experts = kMxfp4;
  const std::string message = refusal_of(q);
  EXPECT_NE(message.find("hf_quant_config.json: quant_algo declares NVFP4 experts, config.json's "
                         "quantization_config declares mxfp4"),
            std::string::npos)
      << message;
}

TEST_F(HfQuantConfig, BadFiles) {
  write("[1]");
  EXPECT_NE(refusal_of({}).find("expected a JSON object"), std::string::npos);
  write("{}");
  EXPECT_NE(refusal_of({}).find("'quantization' is missing"), std::string::npos);
  write(R"({"quantization": {"quant_algo": "FP6"}})");
  EXPECT_NE(refusal_of({}).find("quant_algo is 'FP6'"), std::string::npos);
}

}  // namespace
}  // namespace tessera
