// tessera synth: a small checkpoint that loads, answers and stays healthy; what it refuses; the
// same bytes every time.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <thread>

#include "tests/support/demo.h"
#include "tests/support/edited_model.h"
#include "tests/support/temp_folder.h"
#include "trace/reader.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;
using io::Json;

class SynthCommand : public testing::Test {
 protected:
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> out;
    for (const auto& entry : fs::directory_iterator(model_)) {
      out[entry.path().filename().string()] = read_bytes(entry.path().string());
    }
    return out;
  }

  // What the program answers to "synth ARGUMENTS -o model_".
  ProgramResult synth(Arguments arguments, const ProgramOptions& options = {}) const {
    arguments.insert(arguments.begin(), "synth");
    arguments.insert(arguments.end(), {"-o", model_});
    return run_program(arguments, options);
  }

  TempFolder folder_;
  const std::string model_ = folder_ / "model";
  const std::string demo_config_ = kDemo + "/config.json";
  const std::string tiny_config_ = tiny_model() + "/config.json";
};

double number_at(const TensorView& view, int64_t i) {
  if (view.dtype == DType::bf16) {
    bf16 value;
    std::memcpy(&value, view.data + 2 * i, sizeof(value));
    return static_cast<double>(to_float(value));
  }
  float value;
  std::memcpy(&value, view.data + 4 * i, sizeof(value));
  return static_cast<double>(value);
}

// Every tap of a picture, a prompt and an answer is finite, and the streams keep their size.
TEST_F(SynthCommand, DemoSizedModelIsHealthy) {
  const ProgramResult made = synth({"--config", demo_config_});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(made.err, "");
  EXPECT_EQ(made.out,
            "wrote " + model_ + ": 621 tensors, 9898102 bytes in 12 files of weights, seed 1\n");
  EXPECT_EQ(read_bytes(model_ + "/tokenizer.json"), read_bytes(kDemo + "/tokenizer.json"));
  const Json inspected = json_of({"inspect", model_});
  EXPECT_EQ(integer_of(inspected, "tensors"), 621);
  EXPECT_EQ(integer_of(inspected, "bound"), 621);
  const std::string file = folder_ / "trace.safetensors";
  output_of({"trace", "-o", file, "--model", model_, "--image", picture("p031.png"), "--max-tokens",
             "3", "--ignore-eos", "What is the background colour?"});
  const trace::TraceFile traced(file);
  int64_t streams = 0;
  for (const std::string_view name : traced.names()) {
    const TensorView view = *traced.find(name);
    if (view.dtype != DType::bf16 && view.dtype != DType::f32) {
      continue;
    }
    double sum = 0;
    for (int64_t i = 0; i < view.elements(); ++i) {
      const double value = number_at(view, i);
      // Scores of what may not be picked are minus infinity.
      ASSERT_FALSE(std::isnan(value)) << name;
      sum += std::isinf(value) ? 0 : value * value;
    }
    const size_t layer = name.find("layers.");
    const bool is_stream =
        layer != std::string_view::npos && name.find('.', layer + 7) == std::string_view::npos;
    if (is_stream || name.ends_with(".logits")) {
      ++streams;
      const double rms = std::sqrt(sum / static_cast<double>(view.elements()));
      EXPECT_GT(rms, 0.02) << name;
      EXPECT_LT(rms, 20) << name;
    }
  }
  EXPECT_GE(streams, 3 * 4);
}

TEST_F(SynthCommand, ExcerptWithDraftsAndAnswer) {
  const ProgramResult made =
      synth({"--config", tiny_config_, "--keep-layers", "1,2,5-7", "--experts", "4",
             "--engram-vocab", "50", "--seed", "9", "--threads", "1"});
  ASSERT_EQ(made.status, 0) << made.err;
  const Json config = io::read_json_file(model_ + "/config.json");
  const Json& text = *config.find("text_config");
  EXPECT_EQ(integer_of(text, "num_hidden_layers"), 5);
  EXPECT_EQ(integer_of(text, "n_routed_experts"), 4);
  EXPECT_EQ(integer_of(text, "num_nextn_predict_layers"), 2);
  const Json inspected = json_of({"inspect", model_});
  EXPECT_EQ(integer_of(inspected, "tensors"),
            integer_of(inspected, "bound") +
                static_cast<int64_t>(inspected.find("skipped")->items().size()));
  const Json answer =
      json_of({"run", "--model", model_, "--max-tokens", "4", "--ignore-eos", "hello"});
  EXPECT_EQ(integer_of(answer, "completion_tokens"), 4);
}

TEST_F(SynthCommand, SameBytesEveryTime) {
  ASSERT_EQ(synth({"--config", tiny_config_, "--threads", "1"}).status, 0);
  const std::map<std::string, std::string> first = files();
  ASSERT_EQ(synth({"--config", tiny_config_, "--threads", "3", "--force"}).status, 0);
  EXPECT_TRUE(files() == first);
  ASSERT_EQ(synth({"--config", tiny_config_, "--seed", "2", "--force"}).status, 0);
  EXPECT_FALSE(files() == first);
}

// A folder with something in it is left alone; --force replaces a checkpoint and nothing else.
TEST_F(SynthCommand, ReplacesOnlyWhenForced) {
  folder_.write("model/notes.txt", "mine");
  folder_.write("model/model-00001-of-00099.safetensors", "old");
  folder_.write("model/model_copy.safetensors", "mine");
  expect_error(synth({"--config", tiny_config_}), 2, {model_, "is not empty", "--force"});
  EXPECT_EQ(files().size(), 3U);
  ASSERT_EQ(synth({"--config", tiny_config_, "--force"}).status, 0);
  const std::map<std::string, std::string> now = files();
  EXPECT_EQ(now.at("notes.txt"), "mine");
  EXPECT_EQ(now.at("model_copy.safetensors"), "mine");
  EXPECT_FALSE(now.contains("model-00001-of-00099.safetensors"));
  EXPECT_EQ(integer_of(json_of({"inspect", model_}), "tensors"), 934);
}

TEST_F(SynthCommand, NeverReplacesItsSource) {
  copy_model(tiny_model(), model_);
  const std::map<std::string, std::string> before = files();
  expect_error(synth({"--config", model_ + "/config.json", "--force"}), 2, {"holds the config"});
  expect_error(synth({"--config", tiny_config_, "--tokenizer", model_, "--force"}), 2,
               {"holds the config"});
  EXPECT_TRUE(files() == before);
}

TEST_F(SynthCommand, NeedsAFittingTokenizer) {
  const std::string config = folder_.write("config.json", read_bytes(tiny_config_));
  expect_error(synth({"--config", config}), 2, {"no tokenizer.json beside", "--tokenizer DIR"});
  expect_error(synth({"--config", config, "--tokenizer", kDemo}), 2,
               {"tokenizer.json: ", "vocabulary of 384"});
  expect_error(synth({"--config", demo_config_, "--tokenizer", tiny_model()}), 2,
               {"tokenizer.json"});
  expect_error(synth({"--config", config, "--tokenizer", folder_ / "none"}), 2,
               {"none/tokenizer.json"});
  EXPECT_FALSE(fs::exists(model_));
  EXPECT_EQ(synth({"--config", config, "--tokenizer", tiny_model()}).status, 0);
}

TEST_F(SynthCommand, ChecksTheFreeSpaceFirst) {
  const ProgramResult result = synth({"--config", tiny_config_, "--engram-vocab", "68719476736"});
  expect_error(result, 3, {model_, " bytes, ", " are available", "--engram-vocab"});
  EXPECT_FALSE(fs::exists(model_));
}

// A disk that fills up all the same: what was written goes away, and so does the folder.
TEST_F(SynthCommand, AFullDiskLeavesNothing) {
  ProgramOptions options;
  options.max_file_bytes = 100'000;
  const ProgramResult result = synth({"--config", tiny_config_}, options);
  expect_error(result, 3, {"cannot write"});
  EXPECT_FALSE(fs::exists(model_));
}

TEST_F(SynthCommand, AnInterruptLeavesNothing) {
  // Large enough to take some seconds, so that the signal comes first.
  Program program({"synth", "--config", tiny_config_, "--engram-vocab", "2000000", "--threads", "1",
                   "-o", model_});
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!fs::exists(model_) && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  program.send(SIGINT);
  const ProgramResult result = program.finish();
  expect_error(result, 130, {"interrupted", model_, "have been removed"});
  EXPECT_FALSE(fs::exists(model_));
}

TEST_F(SynthCommand, RefusesWhatCannotWork) {
  expect_error(synth({"--config", tiny_config_, "--keep-layers", "3"}), 2,
               {"layer 3 reads the entries of layer 2", "add 2"});
  expect_error(synth({"--config", tiny_config_, "--keep-layers", "1;2"}), 2, {"--keep-layers"});
  expect_error(synth({"--config", tiny_config_, "--experts", "2"}), 2, {"--experts 2"});
  expect_error(synth({"--config", tiny_config_, "--threads", "-1"}), 2, {"--threads -1"});
  expect_error(synth({"--config", folder_ / "none.json"}), 2, {"none.json"});
  expect_error(run_program({"synth", "--config", tiny_config_, "-o", tiny_config_}), 2,
               {"is no folder"});
  expect_error(run_program({"synth", "--config", tiny_config_, "-o", folder_ / "a/b"}), 2,
               {"cannot make this folder"});
  EXPECT_TRUE(folder_.is_empty());
}

}  // namespace
}  // namespace tessera::test
