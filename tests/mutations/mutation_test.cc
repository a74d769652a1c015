// The tool proves itself: faults are put into our own model, one at a time, and `tessera diff` has
// to name the stage in which each one sits. mutations.json says which.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "base/str_cat.h"
#include "io/json.h"
#include "tests/support/demo.h"
#include "tests/support/json_lines.h"
#include "tests/support/temp_folder.h"
#include "trace/globs.h"

namespace tessera::test {
namespace {

using io::Json;

struct Mutation {
  std::string name;
  std::string trace;        // of the official code
  bool is_excerpt = false;  // it lacks the stage: the reference is our own repetition of it
  std::string first;        // pattern of the tap that must be named
};
void PrintTo(const Mutation& mutation, std::ostream* out) { *out << mutation.name; }

std::vector<Mutation> mutations() {
  std::vector<Mutation> all;
  const std::string path = str_cat(TESSERA_SOURCE_DIR, "/tests/mutations/mutations.json");
  const Json table = io::read_json_file(path);
  for (const Json& entry : table.items()) {
    all.push_back({text_of(entry, "name"),
                   golden_path(str_cat("v41-tiny/cases/", text_of(entry, "case"), ".safetensors")),
                   text_of(entry, "reference") == "ours", text_of(entry, "first")});
  }
  return all;
}

ProgramResult run_mutant(const std::string& mutation, std::vector<std::string> arguments) {
  ProgramOptions options;
  options.environment = {{"TESSERA_MUTATION", mutation}};
  arguments.insert(arguments.end(), {"--model", golden_path("v41-tiny/model")});
  return run_program(arguments, options);
}

Json diff_of_run(const std::string& mutation, const std::string& reference, int status) {
  const ProgramResult result = run_mutant(
      mutation,
      {"diff", "--json", "--run", reference, "--image-root", golden_path("v41-tiny/cases")});
  EXPECT_EQ(result.status, status) << mutation << ": " << result.err;
  return io::parse_json(result.out.empty() ? "{}" : result.out, "diff");
}

class MutationTest : public testing::TestWithParam<Mutation> {};

TEST_P(MutationTest, TheStageOfTheFaultIsNamed) {
  const Mutation& mutation = GetParam();
  const TempFolder folder;
  std::string reference = mutation.trace;
  if (mutation.is_excerpt) {
    reference = folder / "ours.safetensors";
    ASSERT_EQ(run_mutant("", {"trace", "--replay", mutation.trace, "-o", reference}).status, 0);
  }
  const Json report = diff_of_run(mutation.name, reference, 1);
  ASSERT_NE(report.find("first"), nullptr);
  const Json& first = *report.find("first");
  ASSERT_FALSE(first.is_null()) << text_of(report, "line");
  EXPECT_TRUE(trace::glob_matches(mutation.first, text_of(first, "name")))
      << "expected " << mutation.first << "; " << text_of(report, "line");
  EXPECT_EQ(text_of(first, "cause"), "inputs are the reference's");
}

INSTANTIATE_TEST_SUITE_P(Faults, MutationTest, testing::ValuesIn(mutations()),
                         [](const auto& instance) { return instance.param.name; });

// Without a fault the same program finds nothing: what is named above is the fault.
TEST(Mutations, WithoutAFaultNothingIsNamed) {
  for (const char* name : {"text_5", "text_mid", "image_one", "image_medium"}) {
    const Json report =
        diff_of_run("", golden_path(str_cat("v41-tiny/cases/", name, ".safetensors")), 0);
    EXPECT_NE(text_of(report, "verdict"), "diverged") << text_of(report, "line");
  }
}

TEST(Mutations, ThereAreAtLeastTwentyFaults) { EXPECT_GE(mutations().size(), 20U); }

}  // namespace
}  // namespace tessera::test
