// Two thousand requests of all kinds, some of them dropped: memory stays where it was.
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <random>
#include <string>

#include "base/process_memory.h"
#include "runtime/engine.h"

namespace tessera {
namespace {

const std::string kDemo = TESSERA_SOURCE_DIR "/models/demo";

Request drawn(std::mt19937& random) {
  Request request;
  Message message;
  for (uint64_t i = random() % 3; i > 0; --i) {
    ContentBlock& block = message.content.emplace_back();
    block.kind = ContentBlock::Kind::image;
    const char* const pictures[] = {"p001.png", "p002.png", "p003.png", "p019.jpg"};
    block.image.value = kDemo + "/eval/images/" + pictures[random() % 4];
  }
  std::string text;
  for (uint64_t i = 1 + random() % 40; i > 0; --i) {
    text += random() % 2 == 0 ? "red cat " : "一只猫";
  }
  message.content.emplace_back().text = text;
  request.messages.push_back(std::move(message));
  request.sampling.seed = random();
  request.max_tokens = static_cast<int64_t>(1 + random() % 8);
  request.choices = static_cast<int64_t>(1 + random() % 2);
  return request;
}

TEST(SchedulerSoak, MemoryStaysWhereItWas) {
  EngineOptions options;
  options.model = kDemo;
  options.context = 2048;
  options.prefix_cache_bytes = 300'000;
  options.picture_cache_bytes = 64 << 10;
  const std::unique_ptr<Engine> engine = Engine::open(options);
  std::mt19937 random(5);
  std::deque<std::shared_ptr<Ticket>> running;
  int64_t warm = 0;
  constexpr int kRequests = 2000;
  for (int i = 0; i < kRequests; ++i) {
    running.push_back(engine->submit(drawn(random)));
    if (random() % 10 == 0) {
      running[random() % running.size()]->cancel();
    }
    if (running.size() == 16) {
      running.front()->result();
      running.pop_front();
    }
    warm = i == kRequests / 4 ? memory_status().anonymous_bytes : warm;
  }
  for (const std::shared_ptr<Ticket>& ticket : running) {
    ticket->result();
  }
  const ServingStatistics statistics = engine->serving_statistics();
  EXPECT_EQ(statistics.ended, kRequests);
  EXPECT_EQ(statistics.failed, 0);
  EXPECT_EQ(statistics.unfinished, 0);
  EXPECT_LT(memory_status().anonymous_bytes - warm, int64_t{8} << 20);
}

}  // namespace
}  // namespace tessera
