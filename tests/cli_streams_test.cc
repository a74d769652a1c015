// Pipes that close, disks that are full, and Ctrl-C.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/demo.h"
#include "tests/support/temp_folder.h"
#include "trace/reader.h"

namespace tessera::test {
namespace {

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
                         [](const auto& test) { return test.param == SIGINT ? "INT" : "TERM"; });

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

// A folder in which nobody may make a file: for root, who may write everywhere else, /proc.
TEST(Folder, WithoutPermission) {
  const TempFolder folder;
  std::filesystem::permissions(
      folder.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const bool is_root = ::access(folder.path().c_str(), W_OK) == 0;
  const std::string target = is_root ? "/proc/t.safetensors" : folder / "t.safetensors";
  expect_error(run_program({"trace", "-o", target, "Hello"}), 2,
               {target, is_root ? "takes no files" : "no permission"});
}

}  // namespace
}  // namespace tessera::test
