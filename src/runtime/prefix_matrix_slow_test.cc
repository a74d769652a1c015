// Every mix of pictures, step sizes, threads, hit positions, swapping and cancelling gives each
// request what it gets alone.
#include "runtime/prefix_matrix_test.h"

namespace tessera {
namespace {

TEST(PrefixMatrix, EveryMixGivesWhatARequestGetsAlone) {
  for (const int64_t pictures : {0, 1, 2}) {
    std::set<int64_t> places;
    int threads = 1;
    for (const int64_t step_rows : {1, 7, 64, 512}) {
      MatrixCase c = {.pictures = pictures, .step_rows = step_rows, .threads = threads};
      // As many leading words as tokens lie between two kept states: every position is met.
      places.merge(run_matrix(c, pictures > 0 && step_rows == 64 ? 13 : 2));
      c.cancels = true;
      c.is_tight = true;
      c.threads = 3 - threads;
      places.merge(run_matrix(c, 2));
      threads = c.threads;
    }
    if (pictures > 0) {  // before the span, in each of its rows, and behind it
      const int64_t length = matrix_expected(pictures, 0, 0).span_tokens.at(0);
      for (int64_t place = -2; place < length + 2; ++place) {
        EXPECT_TRUE(places.contains(place)) << place << " of " << length;
      }
    }
  }
}

}  // namespace
}  // namespace tessera
