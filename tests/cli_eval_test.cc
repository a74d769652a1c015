// `tessera eval`: what it counts, when it says no, and what it refuses.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/str_cat.h"
#include "tests/support/demo.h"
#include "tests/support/edited_model.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {
namespace {

using io::Json;
using Kind = io::Json::Kind;

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

TEST_F(EvalPart, JsonHasTheContractsMembers) {
  const Json got = json_of({"eval", part({eval_items().at("p003"), eval_items().at("p058")})});
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
  expect_members(*got.find("by_lang"), {{"en", Kind::object}, {"zh", Kind::object}});
  EXPECT_EQ(integer_of(got, "items"), 2);
  EXPECT_EQ(integer_of(got, "matched_above_margin"), 2);
  ASSERT_EQ(got.find("results")->items().size(), 2U);
  for (const Json& result : got.find("results")->items()) {
    expect_members(result, {{"id", Kind::string},
                            {"answer", Kind::string},
                            {"ids", Kind::array},
                            {"forced_logprobs", Kind::array}});
    const Json& item = eval_items().at(text_of(result, "id"));
    EXPECT_EQ(text_of(result, "answer"), text_of(item, "model_answer"));
    EXPECT_EQ(integers_of(result, "ids"), integers_of(item, "model_answer_ids"));
    const std::vector<Json>& recorded = item.find("model_answer_logprobs")->items();
    const std::vector<Json>& forced = result.find("forced_logprobs")->items();
    ASSERT_EQ(forced.size(), recorded.size());
    for (size_t i = 0; i < forced.size(); ++i) {  // the largest difference of a whole item is 0.1
      EXPECT_NEAR(forced[i].as_double().value(), recorded[i].as_double().value(), 0.1);
    }
  }
}

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

}  // namespace
}  // namespace tessera::test
