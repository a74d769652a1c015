#include "base/data_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string refusal_of(const DataPlaces& places, std::string_view name) {
  try {
    return "found " + find_data(places, name, "--model DIR");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    return error.what();
  }
}

class DataFolder : public testing::Test {
 protected:
  std::string find(const std::string& program, std::string_view name) const {
    return find_data({.share = "", .program_folder = folder_ / program}, name, "--model DIR");
  }
  std::string real(std::string_view name) const { return fs::canonical(folder_ / name).string(); }

  const test::TempFolder folder_;
};

TEST_F(DataFolder, OrderOfPlaces) {
  folder_.write("p/bin/share/tessera/a", "");
  folder_.write("p/share/tessera/a", "");
  folder_.write("p/share/tessera/b/c", "");
  folder_.write("elsewhere/b/c", "");
  EXPECT_EQ(find("p/bin", "a"), real("p/bin/share/tessera/a"));
  EXPECT_EQ(find("p/bin", "b"), real("p/share/tessera/b"));
  EXPECT_EQ(find("p/bin", "b/c"), real("p/share/tessera/b/c"));
  const DataPlaces set = {.share = folder_ / "elsewhere", .program_folder = folder_ / "p/bin"};
  EXPECT_EQ(find_data(set, "b/c", ""), real("elsewhere/b/c"));
}

TEST_F(DataFolder, FoldersFurtherUpAreNotSearched) {
  folder_.write("share/tessera/a", "");
  folder_.write("p/q/models/demo/config.json", "");
  EXPECT_NE(refusal_of({.share = "", .program_folder = folder_ / "p/q"}, "a")
                .find("a: not found in " + (folder_ / "p/q/share/tessera") + " and " +
                      (folder_ / "p/share/tessera") + "; give --model DIR"),
            std::string::npos);
  EXPECT_NE(refusal_of({.share = "", .program_folder = folder_ / "p/q"}, "models/demo")
                .find("models/demo: not found"),
            std::string::npos);
}

// Data of the real installation must not stand in for those that somebody asked for.
TEST_F(DataFolder, WrongTesseraShare) {
  folder_.write("p/share/tessera/a", "");
  const std::string program = folder_ / "p/bin";
  const std::string nowhere = folder_ / "nowhere";
  EXPECT_NE(refusal_of({.share = nowhere, .program_folder = program}, "a")
                .find("TESSERA_SHARE=" + nowhere + ": no such folder"),
            std::string::npos);
  EXPECT_NE(refusal_of({.share = folder_.path(), .program_folder = program}, "a")
                .find("TESSERA_SHARE=" + folder_.path() + ": has no a"),
            std::string::npos);
}

TEST_F(DataFolder, ProgramThatDoesNotKnowItsPlace) {
  EXPECT_NE(refusal_of({}, "a").find("a: not found in the unknown folder"), std::string::npos);
}

TEST(DataPlaces, ThisProcess) {
  const DataPlaces places = data_places();
  EXPECT_TRUE(fs::is_directory(places.program_folder)) << places.program_folder;
  EXPECT_TRUE(fs::exists(places.program_folder + "/base_test"));
}

}  // namespace
}  // namespace tessera
