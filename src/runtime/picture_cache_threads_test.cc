#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "runtime/picture_cache.h"

namespace tessera {
namespace {

std::shared_ptr<const EncodedPicture> picture(int64_t rows) {  // of 128 bytes each
  return std::make_shared<const EncodedPicture>(
      EncodedPicture{{1, rows}, Tensor(DType::bf16, {rows, 64})});
}

TEST(PictureCache, KeepsWhatWasUsedLast) {
  PictureCache cache(3 * 128);
  cache.keep("a", picture(1));
  cache.keep("b", picture(1));
  cache.keep("c", picture(1));
  EXPECT_NE(cache.find("a"), nullptr);  // now b is the oldest
  cache.keep("d", picture(1));
  EXPECT_EQ(cache.find("b"), nullptr);
  EXPECT_NE(cache.find("a"), nullptr);
  EXPECT_NE(cache.find("c"), nullptr);
  EXPECT_NE(cache.find("d"), nullptr);
  EXPECT_EQ(cache.bytes(), 3 * 128);
  cache.keep("e", picture(3));  // takes the place of all
  EXPECT_EQ(cache.pictures(), 1);
  EXPECT_EQ(cache.bytes(), 3 * 128);
}

TEST(PictureCache, WhatIsHeldLivesOn) {
  PictureCache cache(128);
  cache.keep("a", picture(1));
  std::shared_ptr<const EncodedPicture> held = cache.find("a");
  cache.keep("b", picture(1));
  EXPECT_EQ(cache.pictures(), 1);
  EXPECT_EQ(cache.bytes(), 128);
  EXPECT_EQ(cache.find("a"), held);  // what is in use is not encoded again
  held = nullptr;
  EXPECT_EQ(cache.find("a"), nullptr);
}

TEST(PictureCache, NothingLargerThanTheCache) {
  PictureCache cache(128);
  cache.keep("a", picture(1));
  cache.keep("b", picture(2));
  EXPECT_EQ(cache.find("b"), nullptr);
  EXPECT_NE(cache.find("a"), nullptr);
  PictureCache off(0);
  off.keep("a", picture(1));
  EXPECT_FALSE(off.is_on());
  EXPECT_EQ(off.pictures(), 0);
}

TEST(PictureCache, KeepingAKeyTwiceCountsOnce) {
  PictureCache cache(1024);
  cache.keep("a", picture(1));
  cache.keep("a", picture(1));
  EXPECT_EQ(cache.bytes(), 128);
}

// More pictures than room, from several threads: the budget holds and nothing is lost in between.
TEST(PictureCache, EvictionStorm) {
  PictureCache cache(8 * 128);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&cache, t] {
      for (int i = 0; i < 500; ++i) {
        const std::string key = std::to_string((t * 7 + i) % 20);
        if (cache.find(key) == nullptr) {
          cache.keep(key, picture(1 + i % 3));
        }
        EXPECT_LE(cache.bytes(), 8 * 128);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace
}  // namespace tessera
