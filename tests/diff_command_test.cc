// tessera diff: verdicts, exit codes, JSON, replay, and traces of other engines.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/str_cat.h"
#include "tests/support/demo.h"
#include "tests/support/json_lines.h"
#include "tests/support/temp_folder.h"
#include "trace/reader.h"
#include "trace/sinks.h"

namespace tessera::test {
namespace {

using io::Json;

std::string tiny(std::string_view name) { return golden_path(str_cat("v41-tiny/", name)); }
std::string case_file(std::string_view name) {
  return tiny(str_cat("cases/", name, ".safetensors"));
}

Json diff_json(Arguments arguments, int status) {
  arguments.insert(arguments.begin(), {"diff", "--json"});
  const ProgramResult result = run_program(arguments);
  EXPECT_EQ(result.status, status) << result.err;
  return io::parse_json(result.out.empty() ? "{}" : result.out, "diff");
}

// A copy of a trace in which a test changes taps.
class Changed {
 public:
  Changed(const std::string& from, const std::string& to) : trace_(from), writer_(to) {}
  void change(const std::string& tap, float value) {
    Tensor copy(DType::f32, trace_.require(tap).shape);
    const std::vector<float> values = trace_.floats(tap);
    std::copy(values.begin(), values.end(), copy.as<float>());
    copy.as<float>()[copy.shape().elements() / 2] += value;
    writer_.add(tap, copy.view());
    skipped_.push_back(tap);
  }
  void drop(const std::string& tap) { skipped_.push_back(tap); }
  void commit() {
    for (const std::string_view name : trace_.names()) {
      if (std::find(skipped_.begin(), skipped_.end(), name) == skipped_.end()) {
        writer_.add(name, trace_.require(name));
      }
    }
    writer_.set_info(trace_.info());
    writer_.commit();
  }

 private:
  trace::TraceFile trace_;
  trace::Writer writer_;
  std::vector<std::string> skipped_;
};

TEST(DiffCommand, EqualTracesExitWithZero) {
  const std::string file = case_file("text_5");
  const Json json = diff_json({file, file}, 0);
  expect_members(json, {{"verdict", Json::Kind::string},
                        {"first", Json::Kind::null},
                        {"line", Json::Kind::string},
                        {"forced", Json::Kind::boolean},
                        {"warnings", Json::Kind::array},
                        {"tensors", Json::Kind::array}});
  EXPECT_EQ(text_of(json, "verdict"), "equal");
  EXPECT_EQ(run_program({"diff", file, file}).out.substr(0, 13), "no divergence");
}

TEST(DiffCommand, ADivergenceIsNamedAndExitsWithOne) {
  const TempFolder folder;
  Changed changed(case_file("image_one"), folder / "ours.safetensors");
  changed.change("image0.vision.blocks.1.mlp", 3);
  changed.change("c0.layers.0.attn", 3);
  changed.drop("c0.layers.2.attn.o");
  changed.commit();
  const Json json = diff_json({case_file("image_one"), folder / "ours.safetensors"}, 1);
  EXPECT_EQ(text_of(json, "verdict"), "diverged");
  const Json& first = *json.find("first");
  EXPECT_EQ(text_of(first, "name"), "image0.vision.blocks.1.mlp");
  EXPECT_EQ(text_of(first, "cause"), "inputs equal");
  EXPECT_TRUE(text_of(first, "label").starts_with("image 0, patch (")) << text_of(first, "label");
  EXPECT_FALSE(first.find("hints")->items().empty());
  bool is_listed = false;
  for (const Json& tap : json.find("tensors")->items()) {
    is_listed = is_listed || (text_of(tap, "name") == "c0.layers.2.attn.o" &&
                              text_of(tap, "status") == "missing");
  }
  EXPECT_TRUE(is_listed);
  const ProgramResult text =
      run_program({"diff", case_file("image_one"), folder / "ours.safetensors", "--html",
                   folder / "page.html"});
  const std::string page = read_bytes(folder / "page.html");
  EXPECT_TRUE(page.starts_with("<!doctype html>") || page.starts_with("<!DOCTYPE html>"));
  EXPECT_NE(page.find("image0.vision.blocks.1.mlp"), std::string::npos);
  EXPECT_EQ(text.status, 1);
  EXPECT_TRUE(text.out.starts_with("first divergence: image0.vision.blocks.1.mlp row "))
      << text.out;
  EXPECT_NE(text.out.find("\n  often: "), std::string::npos);
  EXPECT_NE(text.out.find("c0.layers.0.attn "), std::string::npos);
}

// Our model repeats the reference's requests: no stage fed the reference's inputs departs.
TEST(DiffCommand, RunRepeatsTheRecordedRequest) {
  for (const char* name : {"text_5", "image_one"}) {
    const Json json = diff_json({"--run", case_file(name), "--model", tiny("model")}, 0);
    EXPECT_NE(text_of(json, "verdict"), "diverged") << text_of(json, "line");
    EXPECT_TRUE(json.find("forced")->as_boolean().value());
    EXPECT_NE(json.find("free_run"), nullptr);
    EXPECT_GT(json.find("tensors")->items().size(), 100U);
  }
}

TEST(DiffCommand, LearnsTolerances) {
  const TempFolder folder;
  Changed changed(case_file("text_5"), folder / "other.safetensors");
  changed.change("c0.layers.0.attn", 0.5);
  changed.commit();
  const std::string other = folder / "other.safetensors";
  EXPECT_EQ(run_program({"diff", case_file("text_5"), other}).status, 1);
  const std::string rules = folder / "rules.json";
  EXPECT_EQ(run_program({"diff", "--learn", case_file("text_5"), other, "-o", rules}).status, 0);
  EXPECT_EQ(run_program({"diff", "--tolerance", rules, case_file("text_5"), other}).status, 0);
}

// A folder of raw floats with a mapping, as another engine may dump them.
TEST(DiffCommand, ComparesDumpsOfOtherEngines) {
  const TempFolder folder;
  const trace::TraceFile reference(case_file("text_5"));
  for (const std::string tap : {"c0.layers.0.attn", "c0.norm"}) {
    std::vector<float> values = reference.floats(tap);
    if (tap == "c0.norm") {
      values[3] += 1;
    }
    const std::string name = tap == "c0.norm" ? "final_norm" : "blk_0_attn_out";
    folder.write("dumps/" + name + ".f32",
                 {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
    folder.write("dumps/" + name + ".shape", list_text(reference.require(tap).shape.dims()));
  }
  const std::string map = folder.write(
      "map.json", R"({"blk_*_attn_out": "c0.layers.{1}.attn", "final_norm": "c0.norm"})");
  const Json json = diff_json({case_file("text_5"), folder / "dumps", "--map", map}, 1);
  EXPECT_EQ(text_of(*json.find("first"), "name"), "c0.norm");
  EXPECT_EQ(integer_of(*json.find("first"), "row"), 0);
}

TEST(DiffCommand, BadInput) {
  const TempFolder folder;
  const std::string file = case_file("text_5");
  expect_error(run_program({"diff"}), 2, {"--run", "--learn"});
  expect_error(run_program({"diff", file}), 2, {"REFERENCE and OURS"});
  expect_error(run_program({"diff", file, "/no/such/file"}), 2, {"/no/such/file"});
  expect_error(run_program({"diff", file, folder.write("x.safetensors", "no trace")}), 2,
               {"x.safetensors"});
  expect_error(run_program({"diff", "--stages", folder.write("s.json", "{}"), file, file}), 2,
               {"s.json", "stages/1"});
  expect_error(run_program({"diff", "--tolerance", folder.write("t.json", "{}"), file, file}), 2,
               {"t.json", "tolerance/1"});
  expect_error(run_program({"diff", "--map", "m.json", file, file}), 2, {"mapping"});
  const std::string cut = read_bytes(file).substr(0, 5000);
  expect_error(run_program({"diff", file, folder.write("cut.safetensors", cut)}), 2,
               {"cut.safetensors"});
  trace::Writer writer(folder / "other.safetensors");
  Tensor one(DType::f32, {1});
  writer.add("some.name", one.view());
  writer.commit();
  expect_error(run_program({"diff", file, folder / "other.safetensors"}), 2, {"no tap in common"});
  expect_error(run_program({"diff", folder / "other.safetensors", file}), 2, {"stage map"});
}

}  // namespace
}  // namespace tessera::test
