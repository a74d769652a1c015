// The command line as people and scripts use it: answers, the JSON contract, exit statuses, streams
// and signals, all with the built program and the demo model.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/str_cat.h"
#include "io/json.h"
#include "io/sha256.h"
#include "tests/support/edited_model.h"
#include "tests/support/json_lines.h"
#include "tests/support/program.h"
#include "tests/support/temp_folder.h"
#include "trace/reader.h"

namespace tessera::test {
namespace {

using io::Json;
using Kind = io::Json::Kind;
using Arguments = std::vector<std::string>;

const std::string kDemo = TESSERA_SOURCE_DIR "/models/demo";
const std::string kEval = kDemo + "/eval/eval.jsonl";

std::string picture(std::string_view name) { return str_cat(kDemo, "/eval/images/", name); }

// The lines of the evaluation set, by id.
const std::map<std::string, Json>& eval_items() {
  static const std::map<std::string, Json> items = [] {
    std::map<std::string, Json> by_id;
    for (Json& row : read_json_lines(kEval)) {
      std::string id = text_of(row, "id");
      by_id.emplace(std::move(id), std::move(row));
    }
    return by_id;
  }();
  return items;
}

// What a command prints with status 0.
std::string output_of(const Arguments& arguments, const ProgramOptions& options = {}) {
  const ProgramResult result = run_program(arguments, options);
  EXPECT_EQ(result.status, 0) << "signal " << result.signal << ": " << result.err;
  return result.out;
}

Json json_of(Arguments arguments, const ProgramOptions& options = {}) {
  arguments.push_back("--json");
  const std::string text = output_of(arguments, options);
  EXPECT_TRUE(text.ends_with("}\n")) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  return io::parse_json(text, "output");
}

int64_t prompt_tokens(const Arguments& arguments) {
  return integer_of(json_of(arguments), "prompt_tokens");
}

// Exactly these members in this order, of these kinds.
void expect_members(const Json& object, const std::vector<std::pair<std::string, Kind>>& members) {
  ASSERT_TRUE(object.is_object());
  std::vector<std::string> names;
  std::vector<std::string> expected;
  for (const auto& [name, value] : object.members()) {
    names.push_back(name);
  }
  for (const auto& [name, kind] : members) {
    expected.push_back(name);
    const Json* value = object.find(name);
    ASSERT_NE(value, nullptr) << name;
    EXPECT_EQ(value->kind(), kind) << name;
  }
  EXPECT_EQ(names, expected);
}

// Items with a margin of at least 1, so that another rounding cannot change the answer: both
// languages, one and two pictures, a second turn, a system message, PNG and JPEG, text only.
const std::vector<std::string> kItems = {"p003", "p010", "p051", "p054", "p055",
                                         "p056", "p040", "p058", "p059"};

// One-turn questions as a person types them.
TEST(Run, AnswersTypedQuestions) {
  int asked = 0;
  for (const std::string& id : kItems) {
    const Json& item = eval_items().at(id);
    ASSERT_GE(item.find("model_min_margin")->as_double().value(), 1.0) << id;
    const std::vector<Json>& messages = item.find("messages")->items();
    if (messages.size() != 1) {
      continue;
    }
    Arguments arguments = {"run"};
    std::string prompt = text_of(messages[0], "content");
    for (const Json& block : messages[0].find("content")->items()) {
      if (const Json* image = block.find("image_url")) {
        arguments.insert(arguments.end(), {"--image", kDemo + "/eval/" + text_of(*image, "url")});
      } else {
        prompt = text_of(block, "text");
      }
    }
    arguments.push_back(prompt);
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.status, 0) << id;
    EXPECT_EQ(result.out, text_of(item, "model_answer") + "\n") << id;
    EXPECT_EQ(result.err, "") << id;
    ++asked;
  }
  EXPECT_EQ(asked, 6);
}

// The same and the ones with several turns from a case file, with counts and ids.
TEST(Run, AnswersCasesAsRecorded) {
  const TempFolder folder;
  std::filesystem::create_directory_symlink(kDemo + "/eval/images", folder / "images");
  Json cases = Json::array();
  for (const std::string& id : kItems) {
    Json item = eval_items().at(id);
    item.set("name", Json::string("case " + id));
    cases.items().push_back(std::move(item));
  }
  const std::string file = folder.write("cases.json", io::dump_compact(cases));
  for (size_t i = 0; i < kItems.size(); ++i) {
    const Json& item = eval_items().at(kItems[i]);
    const std::string which = i % 2 == 0 ? "case " + kItems[i] : str_cat(i);
    const Json got = json_of({"run", "--input", file, "--case", which});
    EXPECT_EQ(text_of(got, "content"), text_of(item, "model_answer")) << kItems[i];
    EXPECT_EQ(text_of(got, "finish_reason"), "stop");
    EXPECT_EQ(integers_of(got, "ids"), integers_of(item, "model_answer_ids"));
    EXPECT_EQ(integer_of(got, "prompt_tokens"), integer_of(item, "n_prompt_tokens"));
    EXPECT_EQ(integer_of(got, "completion_tokens"),
              static_cast<int64_t>(integers_of(got, "ids").size()));
    std::vector<int64_t> spans;
    int64_t image_tokens = 0;
    for (const Json& grid : item.find("image_grids")->items()) {
      spans.push_back(integer_of(grid, "n_llm_h") * (integer_of(grid, "n_llm_w") + 1) + 2);
      image_tokens += spans.back();
    }
    EXPECT_EQ(integers_of(got, "span_tokens"), spans) << kItems[i];
    EXPECT_EQ(integer_of(got, "image_tokens"), image_tokens) << kItems[i];
  }
}

TEST(Run, JsonHasTheContractsMembers) {
  const Json got = json_of({"run", "--seed", "18446744073709551615", "--image", picture("p003.png"),
                            "What does the image show?"});
  expect_members(got, {{"model", Kind::string},
                       {"content", Kind::string},
                       {"reasoning", Kind::string},
                       {"tool_calls", Kind::array},
                       {"finish_reason", Kind::string},
                       {"ids", Kind::array},
                       {"prompt_tokens", Kind::number},
                       {"image_tokens", Kind::number},
                       {"span_tokens", Kind::array},
                       {"cached_tokens", Kind::number},
                       {"completion_tokens", Kind::number},
                       {"seed", Kind::number},
                       {"timings", Kind::object}});
  expect_members(*got.find("timings"), {{"load_ms", Kind::number},
                                        {"image_ms", Kind::number},
                                        {"prefill_ms", Kind::number},
                                        {"decode_ms", Kind::number}});
  EXPECT_EQ(text_of(got, "seed"), "18446744073709551615");
  EXPECT_EQ(text_of(got, "reasoning"), "");
  for (const auto& [name, value] : got.find("timings")->members()) {
    EXPECT_GE(value.as_double().value(), 0.0) << name;
  }
  for (const char* count :
       {"prompt_tokens", "image_tokens", "cached_tokens", "completion_tokens"}) {
    EXPECT_TRUE(got.find(count)->is_integer()) << count;
  }
}

TEST(Run, InputForms) {
  const TempFolder folder;
  std::filesystem::create_directory_symlink(kDemo + "/eval/images", folder / "pictures");
  const Json& item = eval_items().at("p031");
  const std::string answer = text_of(item, "model_answer") + "\n";
  const std::string question = "What is the background colour?";
  const std::string message =
      R"({"role": "user", "content": [{"type": "image_url", "image_url": {"url": )"
      R"("pictures/p031.png"}}, {"type": "text", "text": ")" +
      question + "\"}]}";
  const std::string list = folder.write("list.json", "[" + message + "]");
  EXPECT_EQ(output_of({"run", "--input", list}), answer);
  const std::string object = folder.write(
      "case.json", R"({"about": "unknown keys are fine", "messages": [)" + message + "]}");
  EXPECT_EQ(output_of({"run", "--input", object}), answer);
  const std::string hugging_face =
      folder.write("hf.json", R"([{"role": "user", "content": [{"type": "image", "image": )"
                              R"("pictures/p031.png"}, {"type": "text", "text": ")" +
                                  question + "\"}]}]");
  EXPECT_EQ(output_of({"run", "--input", hugging_face}), answer);
  const std::string tagged = folder.write("ask.txt", "<image>pictures/p031.png</image>" + question);
  EXPECT_EQ(output_of({"run", "--input", tagged}), answer);
  // Relative to the file, wherever the program runs.
  ProgramOptions inside;
  inside.folder = folder.path();
  EXPECT_EQ(output_of({"run", "--input", "ask.txt"}, inside), answer);
  inside.folder = folder / "pictures";
  EXPECT_EQ(output_of({"run", "--input", "../ask.txt"}, inside), answer);
}

TEST(Run, CasesMustBeNamed) {
  const TempFolder folder;
  const std::string file =
      folder.write("two.json",
                   R"([{"name": "a", "messages": [{"role": "user", "content": "hi"}]},
          {"name": "b", "messages": [{"role": "user", "content": "hi there"}]}])");
  expect_error(run_program({"run", "--input", file}), 2, {"two.json", "2 cases", "--case"});
  expect_error(run_program({"run", "--input", file, "--case", "c"}), 2, {"--case c", "two.json"});
  expect_error(run_program({"run", "--input", file, "--case", "2"}), 2, {"--case 2"});
  expect_error(run_program({"run", "--input", file, "--case", "-1"}), 2, {"--case"});
  expect_error(run_program({"run", "--input", file, "--case", "a", "hello"}), 2, {"--input"});
  EXPECT_GT(prompt_tokens({"run", "--input", file, "--case", "b"}),
            prompt_tokens({"run", "--input", file, "--case", "0"}));
}

TEST(Run, SameSeedSameText) {
  const auto ids = [](const std::string& seed) {
    return integers_of(json_of({"run", "--temperature", "1", "--top-p", "1", "--ignore-eos",
                                "--max-tokens", "24", "--seed", seed, "Hello"}),
                       "ids");
  };
  const std::vector<int64_t> first = ids("7");
  EXPECT_EQ(first.size(), 24U);
  EXPECT_EQ(ids("7"), first);
  int different = 0;
  for (const char* seed : {"8", "9", "10", "11"}) {
    different += ids(seed) != first ? 1 : 0;
  }
  EXPECT_GE(different, 1);
}

// A drawn seed is reported and gives the same answer again.
TEST(Run, DrawnSeedIsReported) {
  const Arguments arguments = {"run", "--temperature", "1", "--ignore-eos", "--max-tokens", "12",
                               "Hi"};
  const ProgramResult drawn = run_program(arguments);
  ASSERT_TRUE(drawn.err.starts_with("seed ")) << drawn.err;
  Arguments again = arguments;
  again.insert(again.end(), {"--seed", drawn.err.substr(5, drawn.err.size() - 6)});
  const ProgramResult repeated = run_program(again);
  EXPECT_EQ(repeated.out, drawn.out);
  EXPECT_EQ(repeated.err, "");
  Arguments quiet = arguments;
  quiet.push_back("--quiet");
  EXPECT_EQ(run_program(quiet).err, "");
}

TEST(Run, LengthEndsTheAnswer) {
  const Json got = json_of({"run", "--max-tokens", "2", "Hello"});
  EXPECT_EQ(text_of(got, "finish_reason"), "length");
  EXPECT_EQ(integer_of(got, "completion_tokens"), 2);
  // The context ends it too: 5 prompt tokens leave room for 3.
  const Json full = json_of({"run", "--ignore-eos", "--context", "8", "Thanks"});
  EXPECT_EQ(text_of(full, "finish_reason"), "length");
  EXPECT_EQ(integer_of(full, "completion_tokens"), 8 - integer_of(full, "prompt_tokens"));
}

TEST(Run, ThinkingChangesThePrompt) {
  const int64_t off = prompt_tokens({"run", "Hello"});
  EXPECT_EQ(prompt_tokens({"run", "--think", "off", "Hello"}), off);  // the demo model's default
  const Json low = json_of({"run", "--think", "low", "--max-tokens", "8", "Hello"});
  EXPECT_GT(integer_of(low, "prompt_tokens"), off);
  EXPECT_EQ(integers_of(json_of({"run", "--think", "50", "--max-tokens", "8", "Hello"}), "ids"),
            integers_of(low, "ids"));
  for (const char* level : {"high", "max", "1", "100"}) {
    EXPECT_GT(prompt_tokens({"run", "--think", level, "--max-tokens", "2", "Hello"}), off) << level;
  }
}

// What a user types is text: a spelling of a control token takes many tokens, not one.
TEST(Run, ControlTokensInTextAreInert) {
  const int64_t plain = prompt_tokens({"run", "Hello"});
  for (const char* token : {"<｜User｜>", "<｜Assistant｜>", "<｜begin▁of▁sentence｜>",
                            "<｜deepseek_image｜>", "</think>"}) {
    const Json got = json_of({"run", str_cat("Hello", token)});
    EXPECT_GT(integer_of(got, "prompt_tokens"), plain + 1) << token;
    EXPECT_EQ(integer_of(got, "image_tokens"), 0) << token;
    EXPECT_GT(prompt_tokens({"run", "--system", str_cat("x", token), "Hello"}),
              prompt_tokens({"run", "--system", "x", "Hello"}) + 1)
        << token;
  }
  // Beside a real picture too.
  const Json got = json_of({"run", "--image", picture("p031.png"),
                            "What is the <｜deepseek_image｜> background colour?"});
  EXPECT_EQ(integers_of(got, "span_tokens").size(), 1U);
}

TEST(Run, PromptsThatLookLikeSyntaxAreText) {
  EXPECT_GT(prompt_tokens({"run", "[a,b]"}), prompt_tokens({"run", "[a]"}));
  EXPECT_GT(prompt_tokens({"run", "{}{}{}{}"}), prompt_tokens({"run", "{}"}));
  EXPECT_GT(prompt_tokens({"run", "--json", "--", "--not-an-option"}),
            prompt_tokens({"run", "--json", "--", "-"}));
}

TEST(Run, ThreadsAndKernelsDoNotChangeTheAnswer) {
  const Arguments arguments = {"run",
                               "--image",
                               picture("p035.png"),
                               "--ignore-eos",
                               "--max-tokens",
                               "16",
                               "What colour is the background?"};
  const std::vector<int64_t> ids = integers_of(json_of(arguments), "ids");
  for (const char* threads : {"1", "2", "5"}) {
    Arguments more = arguments;
    more.insert(more.end(), {"--threads", threads});
    EXPECT_EQ(integers_of(json_of(more), "ids"), ids) << threads;
  }
  ProgramOptions slow;
  slow.environment = {{"TESSERA_FORCE_ISA", "reference"}};
  EXPECT_EQ(integers_of(json_of(arguments, slow), "ids"), ids);
}

TEST(Eval, WholeSetPasses) {
  const Json got = json_of({"eval", kEval});
  expect_members(got, {{"items", Kind::number},
                       {"correct", Kind::number},
                       {"prompt_ids_equal", Kind::number},
                       {"matched_recorded", Kind::number},
                       {"matched_above_margin", Kind::number},
                       {"by_type", Kind::object},
                       {"by_lang", Kind::object},
                       {"logprob", Kind::object},
                       {"results", Kind::array}});
  expect_members(*got.find("logprob"), {{"mean_abs", Kind::number}, {"max_abs", Kind::number}});
  EXPECT_EQ(integer_of(got, "items"), 60);
  EXPECT_EQ(integer_of(got, "prompt_ids_equal"), 60);
  EXPECT_EQ(integer_of(got, "matched_above_margin"), 57);
  EXPECT_GE(integer_of(got, "matched_recorded"), 57);
  EXPECT_GE(integer_of(got, "correct"), 53);
  EXPECT_EQ(integer_of(*got.find("by_lang")->find("zh"), "items"), 30);
  EXPECT_EQ(integer_of(*got.find("by_type")->find("two"), "correct"), 6);
  ASSERT_EQ(got.find("results")->items().size(), 60U);
  for (const Json& result : got.find("results")->items()) {
    expect_members(result, {{"id", Kind::string},
                            {"answer", Kind::string},
                            {"ids", Kind::array},
                            {"forced_logprobs", Kind::array}});
    const Json& item = eval_items().at(text_of(result, "id"));
    EXPECT_EQ(result.find("forced_logprobs")->items().size(),
              integers_of(item, "model_answer_ids").size());
  }
}

// A part of the set with pictures beside it.
class EvalPart : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory_symlink(kDemo + "/eval/images", folder_ / "images");
  }
  std::string part(const std::vector<Json>& items) const {
    std::string text;
    for (const Json& item : items) {
      text += io::dump_compact(item) + "\n";
    }
    return folder_.write("part.jsonl", text);
  }

  TempFolder folder_;
};

TEST_F(EvalPart, StatusSaysWhetherItPassed) {
  // p029 has a recorded answer that is wrong: reproduced, but not correct.
  const std::string file = part({eval_items().at("p029"), eval_items().at("p059")});
  const ProgramResult passed = run_program({"eval", file});
  EXPECT_EQ(passed.status, 0);
  EXPECT_NE(passed.out.find("1 of 2"), std::string::npos) << passed.out;
  EXPECT_TRUE(passed.out.ends_with("passed\n")) << passed.out;
  EXPECT_EQ(run_program({"eval", file, "--min-accuracy", "0.5"}).status, 0);
  const ProgramResult failed = run_program({"eval", file, "--min-accuracy", "1"});
  EXPECT_EQ(failed.status, 1);
  EXPECT_TRUE(failed.out.ends_with("failed\n")) << failed.out;
  EXPECT_EQ(failed.err, "");
}

TEST_F(EvalPart, AnotherPromptOrAnswerFails) {
  Json item = eval_items().at("p059");
  item.set("prompt_ids", Json::array({Json::number(int64_t{0})}));
  EXPECT_EQ(run_program({"eval", part({item})}).status, 1);
  item = eval_items().at("p059");
  item.set("model_answer_ids", eval_items().at("p057").find("model_answer_ids")[0]);
  item.set("model_answer_logprobs", eval_items().at("p057").find("model_answer_logprobs")[0]);
  EXPECT_EQ(run_program({"eval", part({item})}).status, 1);
}

TEST_F(EvalPart, RefusesWhatIsNoSet) {
  expect_error(run_program({"eval", folder_ / "missing.jsonl"}), 2, {"missing.jsonl"});
  expect_error(run_program({"eval", folder_.path()}), 2, {folder_.path()});
  expect_error(run_program({"eval", folder_.write("empty.jsonl", "")}), 2, {"no items"});
  expect_error(run_program({"eval", folder_.write("bad.jsonl", "{}\n{\n")}), 2, {"bad.jsonl:1"});
  Json item = eval_items().at("p003");
  remove_value(item, "expected");
  expect_error(run_program({"eval", part({eval_items().at("p059"), item})}), 2,
               {"part.jsonl:2", "expected"});
  const std::string good = part({eval_items().at("p059")});
  for (const char* share : {"nan", "-0.1", "1.5", "x"}) {
    expect_error(run_program({"eval", good, "--min-accuracy", share}), 2, {"--min-accuracy"});
  }
  // Ids that the model does not have.
  for (const int64_t id : {int64_t{-1}, int64_t{1024}, int64_t{1} << 40}) {
    item = eval_items().at("p059");
    item.set("model_answer_ids", Json::array({Json::number(id), Json::number(int64_t{1})}));
    item.set("model_answer_logprobs",
             Json::array({Json::number(int64_t{0}), Json::number(int64_t{0})}));
    expect_error(run_program({"eval", part({item})}), 2, {str_cat(id)});
  }
}

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

TEST_F(Trace, ForcedValuesAreTheReferences) {
  const std::string reference = golden_path("v41-tiny/cases/text_5.safetensors");
  EXPECT_EQ(output_of({"trace", "-o", out_, "--replay", reference, "--force", reference, "--model",
                       tiny_model()}),
            "");
  const trace::TraceFile recorded(reference);
  const trace::TraceFile ours(out_);
  EXPECT_EQ(ours.info().tokens, recorded.info().tokens);
  EXPECT_EQ(ours.floats("c0.layers.4"), recorded.floats("c0.layers.4"));
  EXPECT_EQ(ours.floats("c5.logits"), recorded.floats("c5.logits"));
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

TEST(ImagePlan, ForPeopleAndPrograms) {
  const Json got = json_of({"image", "plan", picture("p002.png")});
  for (const char* name :
       {"format", "mode", "source", "content", "canvas", "patches", "tokens", "span_tokens",
        "policy", "rgb_sha256", "canvas_sha256", "patches_sha256"}) {
    EXPECT_NE(got.find(name), nullptr) << name;
  }
  EXPECT_EQ(text_of(got, "format"), "PNG");
  EXPECT_EQ(integers_of(got, "patches"), (std::vector<int64_t>{14, 13}));
  EXPECT_EQ(integers_of(got, "tokens"), (std::vector<int64_t>{5, 5}));
  EXPECT_EQ(integer_of(got, "span_tokens"), 32);
  const std::string text = output_of({"image", "plan", picture("p002.png")});
  EXPECT_NE(text.find("32 tokens"), std::string::npos) << text;
  EXPECT_NE(text.find(text_of(got, "patches_sha256")), std::string::npos) << text;
  // The plan is what `run` pays.
  const Json run = json_of({"run", "--image", picture("p002.png"), "图片里有什么？"});
  EXPECT_EQ(integers_of(run, "span_tokens"), (std::vector<int64_t>{32}));
}

TEST(Program, Version) {
  const std::string text = output_of({"version"});
  EXPECT_EQ(output_of({"--version"}), text);
  EXPECT_TRUE(text.starts_with("tessera ")) << text;
  for (const char* line : {"\ncompiler ", "\nlibraries ", "\nprocessor ", "\nkernels "}) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
  ProgramOptions slow;
  slow.environment = {{"TESSERA_FORCE_ISA", "reference"}};
  const Json got = json_of({"version"}, slow);
  EXPECT_EQ(text_of(got, "isa"), "reference");
  for (const char* name : {"version", "commit", "compiler", "libraries", "threads", "cpu"}) {
    EXPECT_NE(got.find(name), nullptr) << name;
  }
}

TEST(Program, HelpOfEverySubcommand) {
  const std::map<std::string, std::vector<const char*>> options = {
      {"", {"run", "trace", "eval", "image", "version", "--version"}},
      {"run", {"--model",      "--threads",    "--context",     "--image",        "--system",
               "--think",      "--max-tokens", "--temperature", "--top-p",        "--seed",
               "--ignore-eos", "--input",      "--case",        "--json",         "--quiet",
               "--log-level",  "--pillow",     "--reference",   "--index-scores", "--encoding"}},
      {"trace",
       {"--output", "--replay", "--taps", "--only", "--force", "--activations", "--image-root"}},
      {"eval", {"--min-accuracy", "FILE"}},
      {"image", {"plan"}},
      {"version", {"--json"}}};
  for (const auto& [command, words] : options) {
    Arguments arguments = {"--help"};
    if (!command.empty()) {
      arguments.insert(arguments.begin(), command);
    }
    const std::string help = output_of(arguments);
    for (const char* word : words) {
      EXPECT_NE(help.find(word), std::string::npos) << command << " " << word;
    }
  }
  EXPECT_NE(output_of({"image", "plan", "--help"}).find("--policy"), std::string::npos);
}

TEST(Program, BadUsage) {
  expect_error(run_program({}), 2);
  expect_error(run_program({"fly"}), 2, {"fly"});
  expect_error(run_program({"run", "--bogus", "Hi"}), 2, {"--bogus"});
  expect_error(run_program({"run", "--bogus\nand more", "Hi"}), 2, {"--bogus"});
  expect_error(run_program({"run", "Hi", "there"}), 2, {"there"});
  expect_error(run_program({"run"}), 2, {"PROMPT"});
  expect_error(run_program({"run", ""}), 2, {"PROMPT"});
  expect_error(run_program({"run", "--image"}), 2, {"--image"});
  expect_error(run_program({"image"}), 2);
  expect_error(run_program({"image", "plan"}), 2, {"FILE"});
  expect_error(run_program({"run", "--log-level", "loud", "Hi"}), 2, {"--log-level loud"});
  ProgramOptions unknown;
  unknown.environment = {{"TESSERA_FORCE_ISA", "mmx"}};
  expect_error(run_program({"run", "Hi"}, unknown), 2, {"TESSERA_FORCE_ISA", "mmx"});
}

TEST(Program, NumbersOutOfRange) {
  const std::vector<std::pair<const char*, std::vector<const char*>>> options = {
      {"--threads", {"-1", "1025", "99999999999", "x", "1.5", ""}},
      {"--context", {"-1", "0x", "1048577", "9223372036854775808", "1e3"}},
      {"--max-tokens", {"0", "-5", "x"}},
      {"--temperature", {"nan", "-0.1", "inf", "101", "hot"}},
      {"--top-p", {"nan", "-0.1", "1.1"}},
      {"--seed", {"-1", "18446744073709551616", "x"}},
      {"--think", {"0", "101", "1.5", "-1", "on", "LOW"}},
      {"--pillow", {"11", "14"}},
      {"--index-scores", {"f32"}},
      {"--encoding", {"ref-2"}},
      {"--reference", {"slot"}}};
  for (const auto& [option, values] : options) {
    for (const char* value : values) {
      SCOPED_TRACE(str_cat(option, " ", value));
      expect_error(run_program({"run", option, value, "Hi"}), 2, {option});
    }
  }
  // A leading zero is no octal number: 9 tokens of context are enough for 5 of prompt.
  EXPECT_EQ(integer_of(json_of({"run", "--ignore-eos", "--context", "010", "Thanks"}),
                       "completion_tokens"),
            5);
}

// Every command that prints, with a short output.
const std::vector<Arguments> kPrinting = {{"run", "Thanks"}, {"run", "--json", "Thanks"},
                                          {"eval", ""},      {"image", "plan", ""},
                                          {"version"},       {"--version"},
                                          {"--help"},        {"run", "--help"}};

Arguments with_files(Arguments arguments, const std::string& set) {
  if (arguments.back().empty()) {
    arguments.back() = arguments[0] == "eval" ? set : picture("p002.png");
  }
  return arguments;
}

TEST(Streams, FullDisk) {
  const TempFolder folder;
  const std::string set = folder.write("one.jsonl", io::dump_compact(eval_items().at("p059")));
  ProgramOptions full;
  full.output_file = "/dev/full";
  for (const Arguments& command : kPrinting) {
    const Arguments arguments = with_files(command, set);
    SCOPED_TRACE(arguments.front() + " .. " + arguments.back());
    expect_error(run_program(arguments, full), 3, {"standard output"});
  }
}

TEST(Streams, NobodyReads) {
  const TempFolder folder;
  const std::string set = folder.write("one.jsonl", io::dump_compact(eval_items().at("p059")));
  for (const Arguments& command : kPrinting) {
    const Arguments arguments = with_files(command, set);
    SCOPED_TRACE(arguments.front() + " .. " + arguments.back());
    Program program(arguments);
    program.close_output();
    const ProgramResult result = program.finish();
    EXPECT_EQ(result.status, 0) << result.signal;
    EXPECT_EQ(result.err, "");
  }
}

// A reader that goes away in the middle, as `head` does, ends the work.
TEST(Streams, ReaderThatLeavesEndsTheRun) {
  Program program({"run", "--ignore-eos", "--max-tokens", "20000", "Hello"});
  program.wait_for_output(10);
  program.close_output();
  const auto start = std::chrono::steady_clock::now();
  const ProgramResult result = program.finish();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "");
}

TEST(Streams, ClosedDescriptors) {
  ProgramOptions closed;
  closed.closed = {1};
  expect_error(run_program({"run", "Thanks"}, closed), 3, {"standard output"});
  // A trace prints nothing, and no stream ends up inside its file.
  const TempFolder folder;
  closed.closed = {0, 1, 2};
  EXPECT_EQ(run_program({"trace", "-o", folder / "t.safetensors", "Thanks"}, closed).status, 0);
  EXPECT_EQ(trace::TraceFile(folder / "t.safetensors").info().producer, "tessera");
}

TEST(Streams, ControlCharactersReachAPipeUnchanged) {
  // Only a terminal gets them escaped; what a program reads is what the model wrote.
  const Arguments arguments = {"run", "--ignore-eos", "--max-tokens", "64", "--seed", "1", "Hello"};
  Arguments json = arguments;
  const std::string content = text_of(json_of(json), "content");
  EXPECT_EQ(output_of(arguments), content + "\n");
}

class Interrupt : public testing::TestWithParam<int> {
 protected:
  // Waits until the temporary file of a trace has `bytes` bytes.
  static void wait_for_file(Program& program, const TempFolder& folder, uintmax_t bytes) {
    while (program.is_running()) {
      for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
        std::error_code ignored;
        const uintmax_t size = entry.file_size(ignored);
        if (!ignored && size >= bytes) {
          return;
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
};

TEST_P(Interrupt, LongAnswer) {
  Program program({"run", "--ignore-eos", "--max-tokens", "20000", "Hello"});
  program.wait_for_output(10);
  program.send(GetParam());
  const ProgramResult result = program.finish();
  EXPECT_EQ(result.status, 130) << result.signal;
  EXPECT_GE(result.out.size(), 10U);
  EXPECT_LT(result.out.size(), 20000U);
  EXPECT_TRUE(result.out.ends_with("\n"));
}

TEST_P(Interrupt, TraceLeavesNoFile) {
  const TempFolder folder;
  Program program({"trace", "-o", folder / "t.safetensors", "--ignore-eos", "--max-tokens", "4000",
                   "--taps", "c*.logits,c*.layers.*", "Hello"});
  wait_for_file(program, folder, 1 << 20);
  program.send(GetParam());
  const ProgramResult result = program.finish();
  EXPECT_EQ(result.status, 130) << result.signal;
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(folder.is_empty());
}

INSTANTIATE_TEST_SUITE_P(Signals, Interrupt, testing::Values(SIGINT, SIGTERM),
                         [](const auto& info) { return info.param == SIGINT ? "INT" : "TERM"; });

TEST(FullDisk, TraceLeavesNoFile) {
  for (const int64_t bytes : {int64_t{4096}, int64_t{9} << 20}) {
    const TempFolder folder;
    ProgramOptions small;
    small.max_file_bytes = bytes;
    expect_error(run_program({"trace", "-o", folder / "t.safetensors", "--image",
                              picture("p035.png"), "What colour is the background?"},
                             small),
                 3, {"t.safetensors"});
    EXPECT_TRUE(folder.is_empty()) << bytes;
  }
}

TEST(FullDisk, OldFileStays) {
  const TempFolder folder;
  const std::string path = folder.write("t.safetensors", "old");
  ProgramOptions small;
  small.max_file_bytes = 4096;
  expect_error(run_program({"trace", "-o", path, "Hello"}, small), 3, {"t.safetensors"});
  EXPECT_EQ(read_bytes(path), "old");
}

TEST(Folder, WithoutPermission) {
  const TempFolder folder;
  std::filesystem::permissions(
      folder.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  if (::access(folder.path().c_str(), W_OK) == 0) {
    GTEST_SKIP() << "this user may write everywhere (root)";
  }
  expect_error(run_program({"trace", "-o", folder / "t.safetensors", "Hello"}), 2,
               {"no permission"});
}

}  // namespace
}  // namespace tessera::test
