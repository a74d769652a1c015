// Places of patches and cells, in both orders, and their labels in a verdict.
#include "trace/picture_grid.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trace/diff.h"
#include "trace/sinks.h"
#include "trace/test_files.h"

namespace tessera::trace {
namespace {

std::string write(const TemporaryFolder& folder, const std::string& name,
                  const std::vector<int64_t>& grid, const std::string& owner, float changed) {
  Writer writer(folder / name);
  writer.add(owner + ".grid", tensor_of<int64_t>({static_cast<int64_t>(grid.size())}, grid).view());
  std::vector<float> values(48, 1.0f);
  values[29] = changed;
  writer.add(owner + ".vision.patch_embed", tensor_of<float>({48, 1}, values).view());
  writer.commit();
  return folder / name;
}

std::string label(const std::vector<int64_t>& grid, const std::string& owner) {
  const TemporaryFolder folder;
  const TraceFile reference(write(folder, "a.safetensors", grid, owner, 1));
  const TraceFile ours(write(folder, "b.safetensors", grid, owner, 2));
  const StageMap stages =
      StageMap::load(str_cat(TESSERA_SOURCE_DIR, "/share/stages/qwen3_vl.json"));
  const DiffReport report = diff(reference, ours, stages, Tolerances());
  return report.first == nullptr ? "" : report.first->row_label;
}

TEST(PictureGrid, RowsOfPatchesOneAfterTheOther) {
  const TemporaryFolder folder;
  const TraceFile trace(write(folder, "a.safetensors", {6, 8, 2, 3}, "image0", 0));
  const std::optional<PictureGrid> grid = picture_grid(trace, "image0");
  ASSERT_TRUE(grid.has_value());
  EXPECT_EQ(grid->patches(), 48);
  EXPECT_EQ(grid->cells(), 6);
  EXPECT_EQ(grid->side, 3);
  EXPECT_EQ(grid->patch(29).row, 3);
  EXPECT_EQ(grid->patch(29).column, 5);
  EXPECT_EQ(grid->cell(4).row, 1);
  EXPECT_EQ(grid->cell(4).column, 1);
  EXPECT_FALSE(picture_grid(trace, "image1").has_value());
}

// The order that the specification of Qwen3-VL writes out for 4 x 6 patches.
TEST(PictureGrid, FourPatchesOfACellFollowOneAnother) {
  const TemporaryFolder folder;
  const TraceFile trace(write(folder, "a.safetensors", {2, 4, 6}, "video0", 0));
  const std::optional<PictureGrid> grid = picture_grid(trace, "video0");
  ASSERT_TRUE(grid.has_value());
  const std::vector<std::pair<int64_t, int64_t>> order = {
      {0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3},
      {0, 4}, {0, 5}, {1, 4}, {1, 5}, {2, 0}, {2, 1}, {3, 0}, {3, 1},
      {2, 2}, {2, 3}, {3, 2}, {3, 3}, {2, 4}, {2, 5}, {3, 4}, {3, 5}};
  for (int64_t i = 0; i < 48; ++i) {
    const PictureGrid::Place place = grid->patch(i);
    EXPECT_EQ(place.frame, i / 24);
    EXPECT_EQ((std::pair{place.row, place.column}), order[static_cast<size_t>(i % 24)]) << i;
  }
  EXPECT_EQ(grid->cells(), 12);
  EXPECT_EQ(grid->cell(7).frame, 1);
}

TEST(PictureGrid, LabelsOfAVerdict) {
  EXPECT_EQ(label({1, 6, 8}, "image0"), "image 0, patch (2,7)");
  EXPECT_EQ(label({2, 4, 6}, "video0"), "video 0, frames 2-3, patch (0,3)");
}

TEST(PictureGrid, GridsThatMakeNoSenseAreIgnored) {
  for (const std::vector<int64_t>& grid :
       {std::vector<int64_t>{1, 5, 6}, {0, 4, 6}, {4, 6}, {-1, 4, 2, 2}, {1, 1 << 30, 2}}) {
    EXPECT_EQ(label(grid, "image0"), "") << grid[0];
  }
}

}  // namespace
}  // namespace tessera::trace
