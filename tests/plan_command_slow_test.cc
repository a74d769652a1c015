// tessera plan where it measures the machine, which takes seconds.
#include <gtest/gtest.h>

#include "tests/support/demo.h"
#include "tests/support/program.h"

namespace tessera::test {
namespace {

using io::Json;

// The machine of the test is measured; how fast it is, is not judged.
TEST(PlanMeasured, MeasuresThisMachine) {
  const Json json = json_of({"plan", kDemo, "--threads", "1"});
  const Json& machine = *json.find("machine");
  EXPECT_EQ(machine.find("threads")->find("value")->as_double(), 1);
  EXPECT_GT(machine.find("memory_bandwidth")->find("value")->as_double(), 1e8);
  EXPECT_TRUE(machine.find("disk_bandwidth")->find("value")->is_null());  // a file too small
  EXPECT_NE(output_of({"plan", kDemo + "/config.json", "--quiet"}).find("what binds"),
            std::string::npos);
}

TEST(PlanMeasured, AsksForTheDiskWhereItCounts) {
  expect_error(run_program({"plan", kDemo, "--quiet", "--threads", "1", "--memory", "20M"}), 2,
               {"--disk-bandwidth", "--disk-reads-per-second"});
}

}  // namespace
}  // namespace tessera::test
