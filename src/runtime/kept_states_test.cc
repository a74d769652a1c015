// A conversation that goes on from kept states answers as one that is computed anew.
#include "runtime/kept_states.h"

#include <gtest/gtest.h>

#include <memory>

#include "runtime/engine.h"

namespace tessera {
namespace {

const std::string kDemo = TESSERA_SOURCE_DIR "/models/demo";

std::unique_ptr<Engine> open_engine(int64_t kept_states, int64_t context = 0) {
  EngineOptions options;
  options.model = kDemo;
  options.kept_states = kept_states;
  options.context = context;
  return Engine::open(options);
}

class Conversation {
 public:
  explicit Conversation(bool is_thinking) {
    request_.is_thinking = is_thinking;
    request_.sampling.temperature = 0;
    request_.max_tokens = 12;
  }

  void ask(const std::string& text, const std::string& picture = "") {
    Message& message = request_.messages.emplace_back();
    if (!picture.empty()) {
      ContentBlock& block = message.content.emplace_back();
      block.kind = ContentBlock::Kind::image;
      block.image.value = kDemo + "/eval/images/" + picture;
    }
    message.content.emplace_back().text = text;
  }

  void take(const Result& result) {
    Message& message = request_.messages.emplace_back();
    message.role = Role::assistant;
    message.content.emplace_back().text = result.choices.at(0).answer.content;
    message.reasoning = result.choices.at(0).answer.reasoning;
  }

  Request& request() { return request_; }

 private:
  Request request_;
};

// Both engines answer alike; returns what the keeping one says.
Result answer_of_both(Engine& keeping, Engine& plain, Conversation& talk) {
  const Result kept = keeping.generate(talk.request());
  const Result anew = plain.generate(talk.request());
  EXPECT_EQ(kept.choices.at(0).ids, anew.choices.at(0).ids);
  EXPECT_EQ(kept.choices.at(0).text, anew.choices.at(0).text);
  EXPECT_EQ(kept.prompt_tokens, anew.prompt_tokens);
  EXPECT_EQ(anew.cached_tokens, 0);
  talk.take(kept);
  return kept;
}

// Without thinking the whole turn before is kept, the answer too.
TEST(KeptStates, ATurnGoesOnBehindTheAnswer) {
  const std::unique_ptr<Engine> keeping = open_engine(8);
  const std::unique_ptr<Engine> plain = open_engine(0);
  Conversation talk(false);
  talk.ask("What does the image show?", "p001.png");
  Result before = answer_of_both(*keeping, *plain, talk);
  EXPECT_EQ(before.cached_tokens, 0);
  for (const char* text : {"Count the carrots.", "图片里有什么？", "And now?"}) {
    talk.ask(text);
    const Result now = answer_of_both(*keeping, *plain, talk);
    // All but the end token, which was chosen and not computed.
    EXPECT_EQ(now.cached_tokens, before.prompt_tokens + before.completion_tokens() - 1) << text;
    before = now;
  }
}

// With thinking the turn before is written differently from its last tag on.
TEST(KeptStates, WithThinkingATurnGoesOnBeforeTheLastTag) {
  const std::unique_ptr<Engine> keeping = open_engine(8);
  const std::unique_ptr<Engine> plain = open_engine(0);
  Conversation talk(true);
  talk.ask("What does the image show?", "p001.png");
  const Result first = answer_of_both(*keeping, *plain, talk);
  talk.ask("Count the carrots.");
  const Result second = answer_of_both(*keeping, *plain, talk);
  EXPECT_EQ(second.cached_tokens, first.prompt_tokens - 1);
}

TEST(KeptStates, AKeptPictureIsNotEncodedAgain) {
  const std::unique_ptr<Engine> keeping = open_engine(8);
  Conversation talk(false);
  talk.ask("What does the image show?", "p001.png");
  int tiles = 0;
  Events events;
  events.on_progress = [&](std::string_view stage, int64_t, int64_t) {
    tiles += stage == "picture" ? 1 : 0;
  };
  talk.take(keeping->generate(talk.request(), events));
  EXPECT_GT(tiles, 0);
  tiles = 0;
  talk.ask("Count the carrots.");
  keeping->generate(talk.request(), events);
  EXPECT_EQ(tiles, 0);
}

// Another picture of the same size gives the same ids; its content decides.
TEST(KeptStates, AnotherPictureIsAnotherBeginning) {
  const std::unique_ptr<Engine> keeping = open_engine(8);
  const std::unique_ptr<Engine> plain = open_engine(0);
  std::vector<int32_t> first_ids;
  for (const char* picture : {"p001.png", "p002.png", "p003.png"}) {
    Conversation talk(false);
    talk.ask("What does the image show?", picture);
    const Result result = answer_of_both(*keeping, *plain, talk);
    EXPECT_LT(result.cached_tokens, result.prompt_tokens - result.image_tokens) << picture;
    talk.ask("Count the carrots.");
    EXPECT_GT(answer_of_both(*keeping, *plain, talk).cached_tokens, result.prompt_tokens);
  }
}

TEST(KeptStates, TheSameRequestAgainComputesOneToken) {
  const std::unique_ptr<Engine> keeping = open_engine(8);
  Conversation talk(false);
  talk.ask("What does the image show?", "p001.png");
  const Result first = keeping->generate(talk.request());
  const Result again = keeping->generate(talk.request());
  EXPECT_EQ(again.cached_tokens, again.prompt_tokens - 1);
  EXPECT_EQ(first.choices.at(0).ids, again.choices.at(0).ids);
}

// Two conversations in turns, sampled answers, more states than are kept.
TEST(KeptStates, ConversationsInTurns) {
  const std::unique_ptr<Engine> keeping = open_engine(3);
  const std::unique_ptr<Engine> plain = open_engine(0);
  Conversation a(false), b(false);
  for (Conversation* talk : {&a, &b}) {
    talk->request().sampling.temperature = 1.5;
    talk->request().sampling.seed = 3;
  }
  for (const char* text : {"Hello", "Count the carrots.", "再来一次", "Thanks"}) {
    a.ask(text);
    answer_of_both(*keeping, *plain, a);
    b.ask(std::string(text) + "!");
    answer_of_both(*keeping, *plain, b);
  }
}

// A context so small that kept pages have to give way to the running sequence.
TEST(KeptStates, GiveWayToTheRunningSequence) {
  constexpr int64_t kContext = 90;
  const std::unique_ptr<Engine> keeping = open_engine(100, kContext);
  const std::unique_ptr<Engine> plain = open_engine(0, kContext);
  for (int i = 0; i < 6; ++i) {
    Conversation talk(false);
    talk.request().max_tokens = kContext;
    talk.request().ignores_eos = true;
    talk.request().choices = 2;
    talk.ask("Number " + std::to_string(i));
    const Result result = answer_of_both(*keeping, *plain, talk);
    EXPECT_EQ(result.prompt_tokens + static_cast<int64_t>(result.choices[1].ids.size()), kContext);
  }
}

// A state of the reference's decode differs from one of its prefill: nothing is kept there.
TEST(KeptStates, OffWithTheReferencesIndexSlot) {
  EngineOptions options;
  options.model = kDemo;
  options.kept_states = 8;
  options.reference_index_slot = true;
  const std::unique_ptr<Engine> engine = Engine::open(options);
  Conversation talk(false);
  talk.ask("Hello");
  engine->generate(talk.request());
  EXPECT_EQ(engine->generate(talk.request()).cached_tokens, 0);
}

}  // namespace
}  // namespace tessera
