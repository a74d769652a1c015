#include <gtest/gtest.h>

#include <thread>

#include "tests/support/json_lines.h"
#include "tokenizer/tokenizer.h"

namespace tessera {
namespace {

// One tokenizer for many requests at once.
TEST(TokenizerThreads, EncodesAndDecodesFromSeveralThreads) {
  const Tokenizer tokenizer =
      Tokenizer::load(test::golden_path("text/tokenizers/demo_v41.tokenizer.json"));
  const std::vector<io::Json> rows =
      test::read_json_lines(test::golden_path("text/tok_demo_v41.jsonl"));
  std::vector<std::string> failures(4);
  std::vector<std::thread> threads;
  for (std::string& failure : failures) {
    threads.emplace_back([&] {
      for (const io::Json& row : rows) {
        const std::vector<int32_t> ids =
            tokenizer.encode(test::text_of(row, "text"), AddedTokens::recognise);
        const std::vector<int64_t> wide(ids.begin(), ids.end());
        StreamDecoder decoder(tokenizer);
        std::string text;
        for (const int32_t id : ids) {
          text += decoder.push(id);
        }
        text += decoder.flush();
        if (wide != test::integers_of(row, "ids") || text != tokenizer.decode(ids)) {
          failure = test::text_of(row, "text");
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(failures, std::vector<std::string>(4));
}

// Long texts whose words repeat, so that threads remember pieces at the same time.
TEST(TokenizerThreads, LongTextsHaveTheSameIdsInEveryThread) {
  const Tokenizer tokenizer =
      Tokenizer::load(test::golden_path("text/tokenizers/demo_v41.tokenizer.json"));
  std::string text;
  for (const io::Json& row : test::read_json_lines(test::golden_path("text/tok_demo_v41.jsonl"))) {
    text += test::text_of(row, "text") + " ";
  }
  text += text;
  const std::vector<int32_t> expected = tokenizer.encode(text, AddedTokens::recognise);
  const std::vector<int32_t> expected_plain = tokenizer.encode(text, AddedTokens::plain);
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (int& failures : wrong) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) {
        failures += tokenizer.encode(text, AddedTokens::recognise) == expected ? 0 : 1;
        failures += tokenizer.encode(text, AddedTokens::plain) == expected_plain ? 0 : 1;
        failures += tokenizer.decode(expected) == text ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, std::vector<int>(4));
}

}  // namespace
}  // namespace tessera
