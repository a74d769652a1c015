// Known bugs of requests that nobody wants any more (docs/known-bugs.md, B70 and B71): they end
// within a step, wherever they are, and leave nothing behind.
#include <chrono>
#include <thread>

#include "tests/known_bugs_test.h"

namespace tessera::test {
namespace {

// Pages are counted at the end of a round of the step loop, a moment after the request has ended.
bool no_page_is_used_soon(const Engine& engine) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (engine.serving_statistics().used_cache_pages > 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// At most the step under way is computed after cancel(), whether somebody reads the events, only
// waits for the end, or neither.
TEST(KnownBugCancel, NothingIsComputedAfterTheStepUnderWay) {
  EngineOptions options = one_at_a_time();
  options.prefix_cache_bytes = 0;
  options.picture_cache_bytes = 0;
  const std::unique_ptr<Engine> engine = Engine::open(options);
  bool has_used_pages = false;
  enum class Reader { of_events, of_the_end, none };
  for (const Stage stage : kStages) {
    for (const Reader reader : {Reader::of_events, Reader::of_the_end, Reader::none}) {
      const std::shared_ptr<Ticket> dropped = engine->submit(endless(1));
      wait_for(*dropped, stage);
      has_used_pages |= engine->serving_statistics().used_cache_pages > 0;
      dropped->cancel();
      const int64_t steps = engine->serving_statistics().steps;
      while (reader == Reader::of_events && dropped->next().has_value()) {
      }
      if (reader == Reader::of_the_end) {
        EXPECT_TRUE(dropped->result().is_cancelled);
      }
      while (!dropped->has_ended()) {
        std::this_thread::yield();
      }
      EXPECT_LE(engine->serving_statistics().steps, steps + 1)
          << "stage " << static_cast<int>(stage);
    }
  }
  EXPECT_EQ(engine->serving_statistics().unfinished, 0);
  EXPECT_TRUE(has_used_pages);
  EXPECT_TRUE(no_page_is_used_soon(*engine));
}

// Those that wait for a place go too, and those behind them come in.
TEST(KnownBugCancel, ARequestThatWaitsForAPlace) {
  const std::unique_ptr<Engine> engine = Engine::open(one_at_a_time());
  const std::shared_ptr<Ticket> running = engine->submit(endless(1));
  wait_for(*running, Stage::answer);
  const std::shared_ptr<Ticket> waiting = engine->submit(endless(2));
  Request next = endless(3);
  next.max_tokens = 2;
  const std::shared_ptr<Ticket> behind = engine->submit(next);
  while (engine->serving_statistics().waiting < 2 && !running->has_ended()) {
    std::this_thread::yield();
  }
  waiting->cancel();
  const Result result = waiting->result();  // the running one still runs
  EXPECT_TRUE(result.is_cancelled);
  EXPECT_FALSE(running->has_ended());
  running->cancel();
  expect_same(behind->result(), plain_result(next), "behind cancelled ones");
}

}  // namespace
}  // namespace tessera::test
