// `tessera trace`: what it writes, replays and refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/sha256.h"
#include "runtime/engine.h"
#include "tensor/trace.h"
#include "tests/support/demo.h"
#include "tests/support/edited_model.h"
#include "tests/support/temp_folder.h"
#include "trace/reader.h"

namespace tessera::test {
namespace {

using io::Json;
using Kind = io::Json::Kind;

class Trace : public testing::Test {
 protected:
  // Tensors of both traces are equal to the last bit.
  static void expect_equal(const trace::TraceFile& a, const trace::TraceFile& b) {
    EXPECT_EQ(a.names(), b.names());
    for (const std::string_view name : a.names()) {
      const std::optional<TensorView> x = a.find(name);
      const std::optional<TensorView> y = b.find(name);
      ASSERT_TRUE(x.has_value() && y.has_value()) << name;
      ASSERT_EQ(x->shape, y->shape) << name;
      ASSERT_EQ(x->dtype, y->dtype) << name;
      EXPECT_TRUE(std::equal(x->data, x->data + x->bytes(), y->data)) << name;
    }
  }

  TempFolder folder_;
  const std::string out_ = folder_ / "out.safetensors";
};

TEST_F(Trace, WritesWhatItsReaderReads) {
  const Arguments request = {"--image", picture("p031.png"), "What is the background colour?"};
  Arguments arguments = {"trace", "-o", out_};
  arguments.insert(arguments.end(), request.begin(), request.end());
  EXPECT_EQ(output_of(arguments), "");
  const trace::TraceFile traced(out_);
  Arguments run = {"run"};
  run.insert(run.end(), request.begin(), request.end());
  const Json answer = json_of(run);
  const int64_t prompt = integer_of(answer, "prompt_tokens");

  const trace::TraceInfo& info = traced.info();
  EXPECT_EQ(info.producer, "tessera");
  const std::string config = read_bytes(kDemo + "/config.json");
  EXPECT_EQ(info.model, io::sha256_hex(std::as_bytes(std::span(config))));
  EXPECT_EQ(info.activations, "bf16");
  EXPECT_EQ(info.index_keys, "own");
  EXPECT_EQ(info.tokens, integers_of(answer, "ids"));
  ASSERT_EQ(info.calls.size(), info.tokens.size());
  EXPECT_EQ(info.calls[0], (trace::TraceCall{0, prompt}));
  EXPECT_EQ(info.calls[1], (trace::TraceCall{prompt, 1}));
  ASSERT_NE(info.request.find("messages"), nullptr);
  EXPECT_EQ(*traced.metadata_value("format"), "trace/1");

  EXPECT_EQ(static_cast<int64_t>(traced.integers("ids").size()), prompt);
  const std::vector<int64_t> types = traced.integers("types");
  EXPECT_EQ(std::count_if(types.begin(), types.end(), [](int64_t t) { return t >= 0; }),
            integer_of(answer, "image_tokens"));
  EXPECT_EQ(traced.require("c0.embed").shape, (Shape{prompt, 256}));
  EXPECT_EQ(traced.require("c1.logits").shape, (Shape{1, 1024}));
  EXPECT_EQ(traced.require("image0.pixels").shape[2], 3);
  EXPECT_TRUE(traced.find("image0.vision.norm").has_value());
  EXPECT_TRUE(traced.find("c0.layers.6.ffn.gate.topk").has_value());

  // Its own record repeats it to the last bit, also with another number of threads.
  const std::string again = folder_ / "again.safetensors";
  EXPECT_EQ(output_of({"trace", "-o", again, "--replay", out_, "--threads", "1"}), "");
  const trace::TraceFile replayed(again);
  EXPECT_EQ(replayed.info().tokens, info.tokens);
  EXPECT_EQ(replayed.info().calls, info.calls);
  expect_equal(traced, replayed);
}

TEST_F(Trace, ReplaysTheReferencesRecord) {
  const std::string reference = golden_path("v41-tiny/cases/image_one.safetensors");
  EXPECT_EQ(output_of({"trace", "-o", out_, "--replay", reference, "--model", tiny_model()}), "");
  const trace::TraceFile recorded(reference);
  const trace::TraceFile ours(out_);
  EXPECT_EQ(ours.info().tokens, recorded.info().tokens);
  EXPECT_EQ(ours.info().calls, recorded.info().calls);
  EXPECT_EQ(ours.info().model, recorded.info().model);
  EXPECT_EQ(ours.info().index_keys, "reference");
  int compared = 0;
  for (const std::string_view name : recorded.names()) {
    if (name.find(".dspark.") != std::string_view::npos) {
      continue;  // draft stages are bound, not computed
    }
    const std::optional<TensorView> view = ours.find(name);
    ASSERT_TRUE(view.has_value()) << name;
    EXPECT_EQ(view->shape, recorded.require(name).shape) << name;
    ++compared;
  }
  EXPECT_GT(compared, 500);
  EXPECT_EQ(ours.integers("ids"), recorded.integers("ids"));
  EXPECT_EQ(ours.integers("types"), recorded.integers("types"));
  // Without the shared slot of the reference, its other record.
  const std::string own = folder_ / "own.safetensors";
  EXPECT_EQ(
      output_of({"trace", "-o", own, "--model", tiny_model(), "--replay",
                 reference + "," + golden_path("v41-tiny/cases/image_one.own_index.safetensors")}),
      "");
  EXPECT_EQ(trace::TraceFile(own).info().index_keys, "own");
}

TEST_F(Trace, WritesOnlyWhatIsWanted) {
  const Arguments request = {"--image", picture("p031.png"), "What is the background colour?"};
  Arguments arguments = {"trace", "-o", out_, "--only", "vision"};
  arguments.insert(arguments.end(), request.begin(), request.end());
  output_of(arguments);
  const trace::TraceFile vision(out_);
  EXPECT_TRUE(vision.find("image0.aligner").has_value());
  for (const std::string_view name : vision.names()) {
    EXPECT_TRUE(name == "ids" || name == "types" || name.starts_with("image0.")) << name;
  }
  EXPECT_TRUE(vision.info().calls.empty());
  output_of({"trace", "-o", out_, "--taps", "c0.embed,c*.logits", "Thanks"});
  const trace::TraceFile some(out_);
  EXPECT_TRUE(some.find("c0.embed").has_value());
  EXPECT_EQ(some.names().size(), 1 + some.info().calls.size());
  // Both forms of the tower.
  arguments.insert(arguments.end(), {"--activations", "f32"});
  output_of(arguments);
  const trace::TraceFile wide(out_);
  EXPECT_EQ(wide.info().activations, "f32");
  EXPECT_EQ(wide.require("image0.aligner").shape, vision.require("image0.aligner").shape);
  EXPECT_NE(wide.floats("image0.vision.norm"), vision.floats("image0.vision.norm"));
}

// With forced inputs every operation stands alone: `text_long` drifts by 12 to 20 % over a free run
// (README of the golden data), a single operation by at most 2e-3.
TEST_F(Trace, ForcingGivesEveryStageTheReferencesInput) {
  const std::string reference = golden_path("v41-tiny/cases/text_long.safetensors");
  const trace::TraceFile recorded(reference);
  const auto norm_difference = [&](const Arguments& more) {
    Arguments arguments = {"trace", "-o", out_, "--replay", reference, "--model", tiny_model()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_EQ(output_of(arguments), "");
    const std::vector<float> want = recorded.floats("c0.norm");
    const std::vector<float> got = trace::TraceFile(out_).floats("c0.norm");
    EXPECT_EQ(got.size(), want.size());
    double difference = 0;
    double size = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      difference += std::pow(double{got[i]} - want[i], 2);
      size += std::pow(double{want[i]}, 2);
    }
    return std::sqrt(difference / size);
  };
  EXPECT_LT(norm_difference({"--force", reference}), 2e-3);
  EXPECT_GT(norm_difference({}), 2e-2);
}

TEST_F(Trace, RefusesWhatItCannotDo) {
  const std::string model = golden_path("v41-tiny/model/model.safetensors");
  const std::string reference = golden_path("v41-tiny/cases/text_5.safetensors");
  expect_error(run_program({"trace", "Hi"}), 2, {"--output"});
  expect_error(run_program({"trace", "-o", out_, "--only", "text", "Hi"}), 2, {"--only text"});
  expect_error(run_program({"trace", "-o", out_, "--activations", "f16", "Hi"}), 2,
               {"--activations f16"});
  expect_error(run_program({"trace", "-o", out_, "--replay", model}), 2, {model, "trace"});
  expect_error(run_program({"trace", "-o", out_, "--replay", folder_ / "no.safetensors"}), 2,
               {"no.safetensors"});
  expect_error(run_program({"trace", "-o", out_, "--replay", reference, "Hi"}), 2, {"--replay"});
  // The record of another model, and of another request.
  expect_error(run_program({"trace", "-o", out_, "--force", reference, "Hi"}), 2, {reference});
  expect_error(run_program({"trace", "-o", out_, "--model", tiny_model(), "--force", reference,
                            "--replay", golden_path("v41-tiny/cases/text_1.safetensors")}),
               2, {reference});
  expect_error(run_program({"trace", "-o", folder_ / "missing/out.safetensors", "Hi"}), 2,
               {"missing", "does not exist"});
  expect_error(run_program({"trace", "-o", folder_.path(), "Hi"}), 2, {"folder"});
  expect_error(run_program({"trace", "-o", "/dev/null", "Hi"}), 2, {"/dev/null"});
  EXPECT_TRUE(folder_.is_empty());
}

// Metadata of a hostile trace: every number of it is checked before it is used.
TEST_F(Trace, HostileRecords) {
  const io::SafetensorsFile good(golden_path("v41-tiny/cases/text_1.safetensors"));
  const TempFolder traces;
  const auto replay = [&](const std::string& key, const std::string& value) {
    const std::string path = traces / "hostile.safetensors";
    io::SafetensorsWriter writer(path);
    for (const auto& [name, text] : good.metadata()) {
      writer.set_metadata(name, name == key ? value : text);
    }
    writer.add("ids", good.view(*good.find("ids")));
    writer.commit();
    return run_program({"trace", "-o", out_, "--model", tiny_model(), "--replay", path});
  };
  for (const char* calls :
       {"[]", "[[0,0]]", "[[1,1]]", "[[0,2]]", "[[0,1],[1,2]]", "[[0,1],[2,1]]",
        "[[0,1],[1,9223372036854775807]]", "[[0,-1]]", "[[0,1],[1,-1]]", "{}", "[[0]]", "x"}) {
    expect_error(replay("calls", calls), 2);
  }
  for (const char* tokens : {"[384,6,156,287]", "[-1,6,156,287]", "[4294967296,6,156,287]"}) {
    expect_error(replay("tokens", tokens), 2);
  }
  for (const std::string& request :
       {std::string("[]"), std::string(R"({"messages": 5})"), std::string("{}"),
        R"({"prompt": "x<｜deepseek_image｜>", "images": [")" + std::string(300, 'a') + R"("]})"}) {
    expect_error(replay("case", request), 2);
  }
  EXPECT_TRUE(folder_.is_empty());
}

// Asks the engine to stop at the first tap of the second forward call.
class StoppingSink : public TraceSink {
 public:
  bool wants(std::string_view name) override {
    flag.store(flag.load() || name.starts_with("c1."));
    return false;
  }
  bool tap(std::string_view, const MutableTensorView&) override { return false; }

  std::atomic<bool> flag{false};
};

// Without this a trace that Ctrl-C cut short would be taken for a whole one.
TEST(Replay, ThatWasCancelledSaysSo) {
  EngineOptions options;
  options.model = tiny_model();
  const std::unique_ptr<Engine> engine = Engine::open(options);
  Request request;
  request.raw_prompt = "hello";
  request.max_tokens = 1;
  const int64_t tokens = engine->generate(request).prompt_tokens;
  request.calls = {{0, tokens}, {tokens, 1}, {tokens + 1, 1}};
  EXPECT_FALSE(engine->generate(request).is_cancelled);
  StoppingSink sink;
  request.sink = &sink;
  request.cancel = &sink.flag;
  const Result result = engine->generate(request);
  EXPECT_EQ(result.calls.size(), 2U);
  EXPECT_TRUE(result.is_cancelled);
}

}  // namespace
}  // namespace tessera::test
