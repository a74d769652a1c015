// A whole request on several threads: also run under the thread sanitizer.
#include <gtest/gtest.h>

#include <memory>

#include "runtime/engine.h"

namespace tessera {
namespace {

Result answer(int threads) {
  EngineOptions options;
  options.model = TESSERA_SOURCE_DIR "/models/demo";
  options.threads = threads;
  const std::unique_ptr<Engine> engine = Engine::open(options);
  Request request;
  Message message;
  message.content.resize(2);
  message.content[0].kind = ContentBlock::Kind::image;
  message.content[0].image.value = TESSERA_SOURCE_DIR "/models/demo/eval/images/p002.png";
  message.content[1].text = "图片里有什么？";
  request.messages.push_back(message);
  request.max_tokens = 8;
  return engine->generate(request);
}

TEST(EngineThreads, TheAnswerDoesNotDependOnThem) {
  const Result one = answer(1);
  ASSERT_EQ(one.choices.size(), 1U);
  EXPECT_FALSE(one.choices[0].text.empty());
  for (const int threads : {2, 3}) {
    const Result many = answer(threads);
    EXPECT_EQ(many.choices.at(0).ids, one.choices[0].ids);
    EXPECT_EQ(many.choices.at(0).text, one.choices[0].text);
  }
}

}  // namespace
}  // namespace tessera
