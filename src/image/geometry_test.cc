#include "image/geometry.h"

#include <gtest/gtest.h>

namespace tessera::image {
namespace {

TEST(Geometry, RoundsHalvesToEven) {
  EXPECT_EQ(round_half_even(10.5), 10);
  EXPECT_EQ(round_half_even(15.5), 16);
  EXPECT_EQ(round_half_even(2.5), 2);
  EXPECT_EQ(round_half_even(0.5), 0);
  EXPECT_EQ(round_half_even(0.50001), 1);
  EXPECT_EQ(round_half_even(483.0), 483);
}

// Rows of the DeepSeek-V4.1 specification, section 2.6.
TEST(Geometry, ContainsAndCentres) {
  struct Case {
    Size source;
    Size canvas;
    Box content;
  };
  const Case cases[] = {
      {{1920, 1080}, {1708, 966}, {0, 2, 1708, 961}},
      {{640, 480}, {644, 490}, {0, 4, 644, 483}},
      {{37, 53}, {462, 658}, {2, 0, 459, 658}},
      {{543, 545}, {546, 546}, {1, 0, 544, 546}},
      {{545, 543}, {546, 546}, {0, 1, 546, 544}},
      {{10, 20000}, {42, 21462}, {16, 0, 11, 21462}},
      {{4000, 3000}, {1512, 1134}, {0, 0, 1512, 1134}},
  };
  for (const Case& c : cases) {
    const Size content = contain_size(c.source, c.canvas);
    EXPECT_EQ(centred_box(content, c.canvas), c.content)
        << c.source.width << " x " << c.source.height;
  }
  EXPECT_EQ(contain_size({1, 100000}, {42, 21462}), (Size{0, 21462}));
}

TEST(Geometry, PastesInsideACanvas) {
  Image canvas({5, 4}, {127, 127, 127});
  paste(Image({2, 3}, {1, 2, 3}), 3, 1, canvas);
  for (int64_t y = 0; y < 4; ++y) {
    for (int64_t x = 0; x < 5; ++x) {
      const bool is_inside = x >= 3 && y >= 1;
      const uint8_t* pixel = canvas.row(y) + 3 * x;
      EXPECT_EQ((Rgb{pixel[0], pixel[1], pixel[2]}),
                is_inside ? (Rgb{1, 2, 3}) : (Rgb{127, 127, 127}));
    }
  }
}

}  // namespace
}  // namespace tessera::image
