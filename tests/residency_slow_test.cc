// A model that is larger than the memory it may take: the program answers as it does in memory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "models/deepseek_v41/catalogue.h"
#include "models/deepseek_v41/synthetic_checkpoint.h"
#include "tests/residency_cgroup.h"
#include "tests/support/demo.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {
namespace {

namespace v41 = deepseek_v41;

constexpr int64_t kMiB = int64_t{1} << 20;

void replace(std::string& text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}

// The demo model's shape with wider rows and more experts: 240 MB, most of it experts.
class LargeModel : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TempFolder>();
    std::string config = read_bytes(kDemo + "/config.json");
    replace(config, R"("hidden_size": 256)", R"("hidden_size": 1024)");
    replace(config, R"("moe_intermediate_size": 96)", R"("moe_intermediate_size": 512)");
    replace(config, R"("n_routed_experts": 8)", R"("n_routed_experts": 36)");
    folder_->write("config.json", config);
    folder_->write("tokenizer.json", read_bytes(kDemo + "/tokenizer.json"));
    const CheckpointLayout layout =
        v41::released_layout(v41::tensor_catalogue(v41::read_config(*folder_ / "config.json")));
    ThreadPool threads(2);
    v41::write_synthetic_files(threads, layout,
                               {.folder = folder_->path(), .seed = 1, .on_progress = {}});
    folder_->write("model.safetensors.index.json", layout.index);
    bytes_ = layout.data_bytes;
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static Arguments question(const Arguments& options) {
    Arguments a = {"run",
                   "--model",
                   folder_->path(),
                   "--quiet",
                   "--max-tokens",
                   "16",
                   "--ignore-eos",
                   "--temperature",
                   "0",
                   "--think",
                   "off",
                   "--threads",
                   "2",
                   "--context",
                   "512"};
    a.insert(a.end(), options.begin(), options.end());
    a.push_back("Which of these are vegetables, and why is that so?");
    return a;
  }
  static io::Json answer(const Arguments& options) { return json_of(question(options)); }

  // Files that are in no page cache are read, and charged, by who uses them.
  static void forget_files() {
    for (const auto& file : std::filesystem::directory_iterator(folder_->path())) {
      const int descriptor = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
      ::fsync(descriptor);
      ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
      ::close(descriptor);
    }
  }

  static std::unique_ptr<TempFolder> folder_;
  static int64_t bytes_;
};
std::unique_ptr<TempFolder> LargeModel::folder_;
int64_t LargeModel::bytes_ = 0;

std::vector<int64_t> ids_of(const io::Json& answer) { return integers_of(answer, "ids"); }

int64_t residency_of(const io::Json& answer, const char* name) {
  const io::Json* residency = answer.find("residency");
  EXPECT_NE(residency, nullptr);
  return residency == nullptr ? 0 : integer_of(*residency, name);
}

// The most memory of any program that this test has waited for.
int64_t peak_of_children() {
  struct rusage usage {};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  return usage.ru_maxrss * 1024;
}

TEST_F(LargeModel, AnswersBelowItsLimitAsInMemory) {
  ASSERT_GT(bytes_, 200 * kMiB);
  const io::Json limited = answer({"--resident-limit", "128M"});
  const int64_t limited_peak = peak_of_children();
  const io::Json unlimited = answer({});
  EXPECT_EQ(ids_of(limited), ids_of(unlimited));
  EXPECT_EQ(ids_of(limited).size(), 16U);
  EXPECT_LE(limited_peak, 128 * kMiB);
  EXPECT_LE(residency_of(limited, "peak_bytes"), 128 * kMiB);
  EXPECT_GT(residency_of(limited, "dropped_bytes"), 0);
  EXPECT_GT(residency_of(limited, "read_ahead_bytes"), 0);
  EXPECT_EQ(unlimited.find("residency"), nullptr);  // small against the memory
  EXPECT_GT(peak_of_children(), 160 * kMiB) << "the limit limits nothing";
}

TEST_F(LargeModel, TheSmallestLimitIsNamedAndWorks) {
  const ProgramResult refused = run_program(question({"--resident-limit", "1M"}));
  const std::string start = "--resident-limit 1048576: this model and these options need ";
  expect_error(refused, 2, {start});
  const size_t at = refused.err.find(start);
  ASSERT_NE(at, std::string::npos) << refused.err;
  // The program's own memory differs by some pages from run to run.
  const int64_t smallest = std::stoll(refused.err.substr(at + start.size())) + kMiB;
  EXPECT_LT(smallest, 128 * kMiB);
  const io::Json tight = answer({"--resident-limit", str_cat(smallest)});
  EXPECT_EQ(ids_of(tight), ids_of(answer({})));
  EXPECT_LE(residency_of(tight, "peak_bytes"), smallest);
}

TEST_F(LargeModel, LockedWeightsStay) {
  const ProgramResult result = run_program(question({"--lock", "--json"}));
  if (result.status == 2 && result.err.find("RLIMIT_MEMLOCK") != std::string::npos) {
    GTEST_SKIP() << result.err;
  }
  ASSERT_EQ(result.status, 0) << result.err;
  const io::Json locked = io::parse_json(result.out, "output");
  const int64_t locked_bytes = residency_of(locked, "locked_bytes");
  EXPECT_GT(locked_bytes, 10 * kMiB);
  EXPECT_LT(locked_bytes, bytes_ / 2);  // no experts, no tables
  const io::Json both = answer({"--lock", "--resident-limit", "160M"});
  EXPECT_EQ(ids_of(both), ids_of(locked));
  EXPECT_EQ(residency_of(both, "locked_bytes"), locked_bytes);
  EXPECT_LE(residency_of(both, "peak_bytes"), 160 * kMiB);
}

TEST_F(LargeModel, AnswersInAControlGroupThatIsSmallerThanTheModel) {
  MemoryCgroup group(160 * kMiB);
  if (!group.refusal().empty()) {
    GTEST_SKIP() << "no memory control group can be made here: " << group.refusal();
  }
  const std::vector<int64_t> expected = ids_of(answer({}));
  forget_files();
  group.join();
  const std::string refusal = group.refusal();
  const io::Json limited = refusal.empty() ? answer({"--resident-limit", "128M"}) : io::Json();
  group.leave();
  if (!refusal.empty()) {
    GTEST_SKIP() << "the control group cannot be joined: " << refusal;
  }
  EXPECT_EQ(ids_of(limited), expected);
  EXPECT_LE(residency_of(limited, "peak_bytes"), 128 * kMiB);
  EXPECT_LE(group.peak_bytes(), 160 * kMiB);
  EXPECT_GT(group.peak_bytes(), 64 * kMiB) << "the program ran outside";
}

TEST_F(LargeModel, SizesThatAreNoneAreRefused) {
  for (const char* size : {"64X", "", "-1", "G", "1e30"}) {
    const ProgramResult result = run_program(question({"--resident-limit", size}));
    expect_error(result, 2, {"--resident-limit", "64G"});
  }
}

}  // namespace
}  // namespace tessera::test
