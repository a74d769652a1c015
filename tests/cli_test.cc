// The command line as people and scripts use it, with the built program and the demo model:
// answers, the JSON contract, usage errors.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/str_cat.h"
#include "tests/support/demo.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {
namespace {

using io::Json;
using Kind = io::Json::Kind;

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
  std::filesystem::create_directory(folder / "elsewhere");
  inside.folder = folder / "elsewhere";
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
  EXPECT_GT(prompt_tokens({"run", "--", "--not-an-option"}), prompt_tokens({"run", "--", "-"}));
}

TEST(Run, ThreadsAndKernelsDoNotChangeTheAnswer) {
  const Arguments arguments = {"run",          "--image", picture("p008.png"), "--ignore-eos",
                               "--max-tokens", "8",       "图片里有什么？"};
  const std::vector<int64_t> ids = integers_of(json_of(arguments), "ids");
  for (const char* threads : {"1", "2", "5"}) {
    Arguments more = arguments;
    more.insert(more.begin() + 1, {"--threads", threads});
    EXPECT_EQ(integers_of(json_of(more), "ids"), ids) << threads;
  }
  ProgramOptions slow;
  slow.environment = {{"TESSERA_FORCE_ISA", "reference"}};
  EXPECT_EQ(integers_of(json_of(arguments, slow), "ids"), ids);
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
  expect_error(run_program({"fly"}), 2, {"subcommand"});
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
      {"--top-k", {"-1", "1.5"}},
      {"--min-p", {"nan", "-0.1", "1.1"}},
      {"--repetition-penalty", {"0", "-1", "nan", "101"}},
      {"--presence-penalty", {"nan", "101"}},
      {"--frequency-penalty", {"inf", "-101"}},
      {"--logit-bias", {"5", "x:1", "1:x", "1:1001", "1:nan", ":"}},
      {"--min-tokens", {"-1"}},
      {"--logprobs", {"-1", "21"}},
      {"--n", {"0", "129"}},
      {"--stop", {""}},
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

}  // namespace
}  // namespace tessera::test
