// Every mix of pictures, step sizes, threads, hit positions, swapping and cancelling gives each
// request what it gets alone.
#include "runtime/prefix_matrix_test.h"

namespace tessera {
namespace {

TEST(PrefixMatrix, EveryMixGivesWhatARequestGetsAlone) {
  for (const int64_t pictures : {0, 1, 2}) {
    int threads = 1;
    for (const int64_t step_rows : {1, 7, 64, 512}) {
      MatrixCase c = {.pictures = pictures, .step_rows = step_rows, .threads = threads};
      run_matrix(c, 1);
      c.cancels = true;
      c.is_tight = true;
      c.threads = 3 - threads;
      run_matrix(c, 1);
      threads = c.threads;
    }
  }
}

// Before the span of a picture, in each of its rows, and behind it.
TEST(PrefixMatrix, EveryPlaceInAPicture) {
  for (const int64_t pictures : {1, 2}) {
    const std::set<int64_t> places =
        run_matrix({.pictures = pictures, .step_rows = 7, .interval = 5}, 5);
    const int64_t length = matrix_expected(pictures, 0, 0).span_tokens.at(0);
    for (int64_t place = -2; place < length + 2; ++place) {
      EXPECT_TRUE(places.contains(place)) << place << " of " << length;
    }
  }
}

}  // namespace
}  // namespace tessera
