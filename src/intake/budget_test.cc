#include "intake/budget.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera::intake {
namespace {

TEST(Budget, ImagesAreCounted) {
  EXPECT_NO_THROW(RequestBudget({}, 600));
  EXPECT_THROW(RequestBudget({}, 601), Error);
}

TEST(Budget, BytesOfAllPictures) {
  RequestBudget budget({}, 3);
  EXPECT_EQ(budget.bytes_left(), 32 << 20);
  budget.take_bytes(32 << 20);
  EXPECT_EQ(budget.bytes_left(), 32 << 20);
  budget.take_bytes((32 << 20) - 10);
  EXPECT_EQ(budget.bytes_left(), 10);
  EXPECT_THROW(budget.take_bytes(11), Error);
  EXPECT_NO_THROW(budget.take_bytes(10));
  EXPECT_THROW(budget.take_bytes(1), Error);
}

TEST(Budget, SidesDependOnTheNumberOfImages) {
  EXPECT_EQ(RequestBudget({}, 14).decode_limits().max_side, 8192);
  EXPECT_EQ(RequestBudget({}, 15).decode_limits().max_side, 4096);
  EXPECT_EQ(RequestBudget(kCommandLineBudget, 1000).decode_limits().max_side, image::kMaxSide);
}

TEST(Budget, PixelsOfAllPictures) {
  RequestBudget budget(kCommandLineBudget, 3);
  EXPECT_EQ(budget.decode_limits().max_pixels, 2 * int64_t{89'478'485});  // Pillow's, per picture
  budget.take_pixels(170'000'000);
  EXPECT_EQ(budget.decode_limits().max_pixels, 86'000'000);
  budget.take_pixels(86'000'000);
  EXPECT_EQ(budget.decode_limits().max_pixels, 0);
}

TEST(Budget, ImpossibleLimitsAreNamed) {
  BudgetLimits limits;
  limits.max_side_of_many = 0;
  try {
    validate(limits);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("max_side_of_many 0"), std::string::npos);
  }
  EXPECT_NO_THROW(validate({}));
  EXPECT_NO_THROW(validate(kCommandLineBudget));
}

}  // namespace
}  // namespace tessera::intake
