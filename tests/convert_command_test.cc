// tessera convert: the demo model in every format answers, NVFP4 with E4M3 inputs exactly as
// released; interrupted work goes on; what is refused is refused before anything is written.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/demo.h"
#include "tests/support/edited_model.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;
using io::Json;

const std::string kCalibration = kDemo + "/calibration.json";

class ConvertCommand : public testing::Test {
 protected:
  std::string converted(const std::string& to, const std::string& from = kDemo) {
    const std::string out = folder_ / to;
    Arguments arguments = {"convert", from, "--to", to, "-o", out};
    if (to == "nvfp4") {
      arguments.insert(arguments.end(), {"--calibrate", kCalibration});
    }
    output_of(arguments);
    return out;
  }

  // Logits of every token of an answer about a picture, as text.
  std::string answer(const std::string& model, const Arguments& more = {}) const {
    Arguments arguments = {
        "run",           "--model", model,        "--image", picture("p001.png"),        "--json",
        "--temperature", "0",       "--logprobs", "3",       "What does the image show?"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Json json = io::parse_json(output_of(arguments), "answer");
    const Json* logprobs = json.find("logprobs");
    EXPECT_NE(logprobs, nullptr);
    return logprobs == nullptr ? "" : io::dump_compact(*logprobs);
  }

  TempFolder folder_;
};

// No value changes, and FP8 and MXFP4 have one rule for their inputs.
TEST_F(ConvertCommand, Fp8AnswersAsTheRelease) {
  const std::string model = converted("fp8");
  EXPECT_EQ(answer(model), answer(kDemo));
  const std::string text = output_of({"inspect", model, "--checksums"});
  EXPECT_NE(text.find("known from SHA256SUMS"), std::string::npos) << text;
}

TEST_F(ConvertCommand, Bf16PassesTheEvaluation) {
  output_of({"eval", kEval, "--model", converted("bf16")});  // status 0: passed
}

// The cast loses nothing, so that only the rule for the inputs differs.
TEST_F(ConvertCommand, Nvfp4AnswersAsTheReleaseUnderItsInputRule) {
  const std::string model = converted("nvfp4");
  const std::string released = answer(kDemo);
  EXPECT_EQ(answer(model, {"--nvfp4-activations", "e4m3"}), released);
  EXPECT_NE(answer(model), released);  // calibrated: W4A4
  EXPECT_TRUE(fs::exists(model + "/hf_quant_config.json"));
}

TEST_F(ConvertCommand, UnfinishedWorkGoesOn) {
  // The demo in two files, and a folder in the way of the second.
  const std::string from = folder_ / "from";
  copy_model(kDemo, from);
  fs::remove(from + "/model.safetensors");
  Json map = Json::object();
  int64_t bytes = 0;
  {
    const io::SafetensorsFile file(kDemo + "/model.safetensors");
    io::SafetensorsWriter first(from + "/model-00001-of-00002.safetensors");
    io::SafetensorsWriter second(from + "/model-00002-of-00002.safetensors");
    for (const io::TensorEntry& entry : file.tensors()) {
      const bool is_expert = entry.name.find(".experts.") != std::string::npos;
      (is_expert ? second : first).add(entry.name, file.view(entry));
      map.set(entry.name, Json::string(is_expert ? "model-00002-of-00002.safetensors"
                                                 : "model-00001-of-00002.safetensors"));
      bytes += entry.end - entry.begin;
    }
    first.commit();
    second.commit();
  }
  Json metadata = Json::object();
  metadata.set("total_size", Json::number(bytes));
  Json index = Json::object();
  index.set("metadata", std::move(metadata));
  index.set("weight_map", std::move(map));
  folder_.write("from/model.safetensors.index.json", io::dump_compact(index));
  const std::string out = folder_ / "out";
  const std::string blocked = out + "/model-00002-of-00002.safetensors";
  const Arguments arguments = {"convert", from, "--to", "bf16", "-o", out};
  fs::create_directories(blocked);
  expect_error(run_program({"convert", from, "--to", "bf16", "-o", out, "--force"}), 2,
               {"model-00002-of-00002.safetensors"});
  EXPECT_FALSE(fs::exists(out + "/model.safetensors.index.json"));
  expect_error(run_program({"convert", from, "--to", "fp8", "-o", out}), 2,
               {"unfinished conversion of the same model to another format", "--force"});
  expect_error(run_program({"convert", kDemo, "--to", "bf16", "-o", out}), 2,
               {"unfinished conversion of another checkpoint"});
  fs::remove(blocked);
  const auto first_written = fs::last_write_time(out + "/model-00001-of-00002.safetensors");
  output_of(arguments);
  EXPECT_EQ(fs::last_write_time(out + "/model-00001-of-00002.safetensors"), first_written);
  EXPECT_FALSE(fs::exists(out + "/conversion.json"));
  output_of({"inspect", out, "--checksums"});
  EXPECT_EQ(answer(out), answer(converted("bf16")));
}

TEST_F(ConvertCommand, Refusals) {
  const std::string out = folder_ / "out";
  expect_error(run_program({"convert", kDemo, "--to", "int4", "-o", out}), 2,
               {"--to int4: expected bf16, fp8, mxfp4 or nvfp4"});
  expect_error(run_program({"convert", kDemo, "--to", "nvfp4", "-o", out}), 2,
               {"--calibrate FILE"});
  expect_error(run_program({"convert", kDemo, "--to", "bf16", "-o", kDemo}), 2,
               {"is the checkpoint itself"});
  EXPECT_FALSE(fs::exists(out));
  fs::create_directories(out);
  folder_.write("out/notes.txt", "mine");
  expect_error(run_program({"convert", kDemo, "--to", "bf16", "-o", out}), 2,
               {"is not empty", "--force"});
  output_of({"convert", kDemo, "--to", "bf16", "-o", out, "--force"});
  EXPECT_TRUE(fs::exists(out + "/notes.txt"));
}

}  // namespace
}  // namespace tessera::test
