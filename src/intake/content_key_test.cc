#include "intake/content_key.h"

#include <gtest/gtest.h>

#include <set>

namespace tessera::intake {
namespace {

image::Image striped(image::Size size, uint8_t level) {
  image::Image out(size, {10, 20, 30});
  out.row(0)[0] = level;
  return out;
}

TEST(ContentKey, SeparatesWhatTheModelSeesApart) {
  const image::Image canvas = striped({28, 14}, 7);
  const std::set<std::string> keys = {
      content_key("reference", 1, 2, canvas),
      content_key("recipe", 1, 2, canvas),
      content_key("reference", 2, 1, canvas),
      content_key("reference", 1, 2, striped({28, 14}, 8)),
      content_key("reference", 1, 2, striped({14, 28}, 7)),  // the same bytes in another shape
      content_key("reference1", 2, 2, canvas),
  };
  EXPECT_EQ(keys.size(), 6U);
  EXPECT_EQ(content_key("reference", 1, 2, canvas.copy()), content_key("reference", 1, 2, canvas));
  EXPECT_EQ(keys.begin()->size(), 64U);
}

// Keys may be stored: they do not change from build to build.
TEST(ContentKey, IsStable) {
  EXPECT_EQ(content_key("reference", 1, 2, striped({28, 14}, 7)),
            "09d8c4f1f122ca71873eec41bb6952e3a489907f5c6b35c13f9d32d230a77e3b");
}

}  // namespace
}  // namespace tessera::intake
