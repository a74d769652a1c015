// The tree of kept states, and conversations that go on from them: they answer as those that are
// computed anew.
#include "runtime/prefix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "models/deepseek_v41/model.h"
#include "models/deepseek_v41/step.h"
#include "runtime/engine.h"
#include "runtime/prefix_matrix_test.h"

namespace tessera {
namespace {

const std::string kDemo = TESSERA_SOURCE_DIR "/models/demo";
constexpr int64_t kPlenty = 8 << 20;
constexpr int64_t kFew = 100'000;  // three states or so

std::unique_ptr<Engine> open_engine(int64_t prefix_cache_bytes, int64_t context = 0) {
  EngineOptions options;
  options.model = kDemo;
  options.prefix_cache_bytes = prefix_cache_bytes;
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

// States that were not computed: what stands in them does not matter to the tree.
class Tree {
 public:
  explicit Tree(int64_t max_bytes)
      : pools_(config(), 20'000), cache_(config(), pools_, max_bytes) {}

  static const deepseek_v41::Config& config() {
    static const auto model = deepseek_v41::Model::load(kDemo, {});
    return model->network.config;
  }
  PrefixCache& cache() { return cache_; }
  int64_t free_pages() const { return pools_.kv.free_pages(); }

  // A state behind the ids whose rings hold the number `mark`.
  deepseek_v41::SequenceState state(int64_t position, uint8_t mark) {
    deepseek_v41::SequenceState made(config(), pools_);
    made.prepare(config(), position);
    made.position = position;
    std::fill(made.rings.begin(), made.rings.end(), std::byte{mark});
    return made;
  }
  // In the middle of a prompt: nothing in the later layers.
  deepseek_v41::SequenceState half(int64_t position, uint8_t mark) {
    deepseek_v41::SequenceState made = state(position, mark);
    std::fill(made.ring_begin.begin() + deepseek_v41::first_thinned_layer(config()),
              made.ring_begin.end(), position);
    return made;
  }
  // Position and mark of what is found, or -1.
  std::pair<int64_t, int> find(const PrefixKey& key) {
    const auto found = cache_.find(key);
    return found.has_value() ? std::pair(found->position, static_cast<int>(found->rings[0]))
                             : std::pair(int64_t{-1}, 0);
  }

 private:
  deepseek_v41::CachePools pools_;
  PrefixCache cache_;
};

std::vector<int32_t> ids(int64_t count, int32_t seed = 3) {
  std::vector<int32_t> made;
  for (int64_t i = 0; i < count; ++i) {
    made.push_back(seed + static_cast<int32_t>(i * i % 97));
  }
  return made;
}

using Found = std::pair<int64_t, int>;
constexpr Found kNothing = {-1, 0};

TEST(PrefixTree, TheLatestStateThatBeginsThePrompt) {
  Tree tree(kPlenty);
  const std::vector<int32_t> prompt = ids(700);
  for (const int64_t position : {5, 127, 128, 129, 256, 400, 700}) {
    tree.cache().keep(tree.state(position, static_cast<uint8_t>(position)),
                      {"", std::span(prompt).first(static_cast<size_t>(position)), {}});
  }
  const auto found = [&](int64_t count) {
    return tree.find({"", std::span(prompt).first(static_cast<size_t>(count)), {}}).first;
  };
  EXPECT_EQ(found(5), -1);  // at least one token is left to compute
  EXPECT_EQ(found(6), 5);
  EXPECT_EQ(found(128), 127);
  EXPECT_EQ(found(129), 128);
  EXPECT_EQ(found(130), 129);
  EXPECT_EQ(found(399), 256);
  EXPECT_EQ(found(700), 400);
  std::vector<int32_t> other = prompt;
  other[300] += 1;
  EXPECT_EQ(tree.find({"", other, {}}).first, 256);
  other[128] += 1;
  EXPECT_EQ(tree.find({"", other, {}}), Found(128, 128));
  EXPECT_EQ(tree.find({"another", prompt, {}}), kNothing);
}

// The pages are those of the states that were kept, whoever kept a block first.
TEST(PrefixTree, AFoundStateHasAllItsPages) {
  Tree tree(kPlenty);
  const std::vector<int32_t> prompt = ids(500);
  deepseek_v41::SequenceState state = tree.state(450, 1);
  for (int64_t row = 0; row < 450; ++row) {
    state.kv[1].codes(row)[0] = static_cast<std::byte>(row % 251);
  }
  deepseek_v41::SequenceState begin = state;
  begin.position = 200;
  begin.truncate_pages(Tree::config(), 200);
  const PrefixKey key = {"", prompt, {}};
  tree.cache().keep(begin, key);
  tree.cache().keep(state, key);
  const auto found = tree.cache().find(key);
  ASSERT_TRUE(found.has_value());
  ASSERT_EQ(found->position, 450);
  for (int64_t row = 0; row < 450; ++row) {
    ASSERT_EQ(found->kv[1].codes(row)[0], static_cast<std::byte>(row % 251)) << row;
  }
  EXPECT_EQ(found->rings, state.rings);
  EXPECT_EQ(found->bytes(), state.bytes());
}

TEST(PrefixTree, AHalfStateNeedsEnoughTokensBehindIt) {
  const int64_t reach =
      (Tree::config().window - 1) *
          (Tree::config().layers - deepseek_v41::first_thinned_layer(Tree::config())) +
      1;
  for (const int64_t position : {50, 128, 300}) {
    Tree tree(kPlenty);
    const std::vector<int32_t> prompt = ids(position + reach);
    const PrefixKey enough = {"", prompt, {}};
    const PrefixKey one_less = {"", std::span(prompt).first(prompt.size() - 1), {}};
    tree.cache().keep(tree.half(position, 1), enough);
    EXPECT_EQ(tree.find(enough), Found(position, 1));
    EXPECT_EQ(tree.find(one_less), kNothing);
    tree.cache().keep(tree.state(position, 2), enough);  // takes the half one's place
    EXPECT_EQ(tree.find(one_less), Found(position, 2));
    tree.cache().keep(tree.half(position, 3), enough);  // does not
    EXPECT_EQ(tree.find(one_less), Found(position, 2));
    EXPECT_EQ(tree.cache().statistics().snapshots, 1);
  }
}

// The same ids with another picture are another beginning, in a block and behind the last one.
TEST(PrefixTree, PicturesAreComparedByContent) {
  for (const int64_t start : {10, 100, 130, 250}) {
    Tree tree(kPlenty);
    const std::vector<int32_t> prompt(400, 7);
    const std::vector<PlacedPicture> a = {{start, 60, "a"}}, b = {{start, 60, "b"}};
    tree.cache().keep(tree.state(start + 30, 1), {"", prompt, a});  // ends inside the picture
    tree.cache().keep(tree.state(start, 2), {"", prompt, a});
    EXPECT_EQ(tree.find({"", prompt, a}), Found(start + 30, 1)) << start;
    EXPECT_EQ(tree.find({"", prompt, b}), Found(start, 2)) << start;
    EXPECT_EQ(tree.find({"", prompt, {}}), Found(start, 2)) << start;
  }
}

// What was used longest ago goes, leaves before what they stand on, and nothing remains of it.
TEST(PrefixTree, LeavesGoFirst) {
  Tree tree(kPlenty);
  const int64_t all_pages = tree.free_pages();
  const std::vector<int32_t> trunk = ids(300);
  std::vector<int32_t> a = trunk, b = trunk;
  a.resize(600, 1);
  b.resize(600, 2);
  tree.cache().keep(tree.state(300, 1), {"", trunk, {}});
  tree.cache().keep(tree.state(590, 2), {"", a, {}});
  tree.cache().keep(tree.state(590, 3), {"", b, {}});
  EXPECT_EQ(tree.find({"", a, {}}), Found(590, 2));  // b is the oldest now
  const auto free = [&] { return tree.cache().make_room(tree.free_pages() + 1); };
  free();
  EXPECT_EQ(tree.find({"", b, {}}), Found(300, 1));
  EXPECT_EQ(tree.find({"", a, {}}), Found(590, 2));
  free();
  EXPECT_EQ(tree.find({"", a, {}}), Found(300, 1));
  free();
  EXPECT_EQ(tree.find({"", a, {}}), kNothing);
  EXPECT_EQ(tree.cache().statistics().bytes, 0);
  EXPECT_EQ(tree.cache().statistics().evicted, 3);
  EXPECT_EQ(tree.free_pages(), all_pages);
}

TEST(PrefixTree, NeverMoreBytesThanAllowed) {
  const int64_t state_bytes = Tree(kPlenty).state(1, 0).bytes();
  Tree tree(3 * state_bytes);
  const int64_t all_pages = tree.free_pages();
  for (int32_t i = 0; i < 50; ++i) {
    const std::vector<int32_t> prompt = ids(200 + i, i);
    tree.cache().keep(tree.state(150 + i, 1), {i % 2 == 0 ? "a" : "b", prompt, {}});
    EXPECT_LE(tree.cache().statistics().bytes, 3 * state_bytes);
    EXPECT_GT(tree.cache().statistics().snapshots, 0);
  }
  tree.cache().make_room(all_pages);
  EXPECT_EQ(tree.cache().statistics().bytes, 0);
  EXPECT_EQ(tree.free_pages(), all_pages);
}

// Without thinking the whole turn before is kept, the answer too.
TEST(PrefixCache, ATurnGoesOnBehindTheAnswer) {
  const std::unique_ptr<Engine> keeping = open_engine(kPlenty);
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
TEST(PrefixCache, WithThinkingATurnGoesOnBeforeTheLastTag) {
  const std::unique_ptr<Engine> keeping = open_engine(kPlenty);
  const std::unique_ptr<Engine> plain = open_engine(0);
  Conversation talk(true);
  talk.ask("What does the image show?", "p001.png");
  const Result first = answer_of_both(*keeping, *plain, talk);
  talk.ask("Count the carrots.");
  const Result second = answer_of_both(*keeping, *plain, talk);
  EXPECT_EQ(second.cached_tokens, first.prompt_tokens - 1);
}

TEST(PrefixCache, AKeptPictureIsNotEncodedAgain) {
  const std::unique_ptr<Engine> keeping = open_engine(kPlenty);
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
TEST(PrefixCache, AnotherPictureIsAnotherBeginning) {
  const std::unique_ptr<Engine> keeping = open_engine(kPlenty);
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

TEST(PrefixCache, TheSameRequestAgainComputesOneToken) {
  const std::unique_ptr<Engine> keeping = open_engine(kPlenty);
  Conversation talk(false);
  talk.ask("What does the image show?", "p001.png");
  const Result first = keeping->generate(talk.request());
  const Result again = keeping->generate(talk.request());
  EXPECT_EQ(again.cached_tokens, again.prompt_tokens - 1);
  EXPECT_EQ(first.choices.at(0).ids, again.choices.at(0).ids);
}

// Two conversations in turns, sampled answers, more states than are kept.
TEST(PrefixCache, ConversationsInTurns) {
  const std::unique_ptr<Engine> keeping = open_engine(kFew);
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
TEST(PrefixCache, GiveWayToTheRunningSequence) {
  constexpr int64_t kContext = 90;
  const std::unique_ptr<Engine> keeping = open_engine(kPlenty, kContext);
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
TEST(PrefixCache, OffWithTheReferencesIndexSlot) {
  EngineOptions options;
  options.model = kDemo;
  options.prefix_cache_bytes = kPlenty;
  options.reference_index_slot = true;
  const std::unique_ptr<Engine> engine = Engine::open(options);
  Conversation talk(false);
  talk.ask("Hello");
  engine->generate(talk.request());
  EXPECT_EQ(engine->generate(talk.request()).cached_tokens, 0);
}

// A short run of prefix_matrix_slow_test.cc.
TEST(PrefixCache, HitsInsideAPictureChangeNothing) {
  const std::set<int64_t> places = run_matrix({.pictures = 1, .step_rows = 7, .threads = 2}, 2);
  const int64_t length = matrix_expected(1, 0, 0).span_tokens.at(0);
  EXPECT_GE(std::count_if(places.begin(), places.end(),
                          [&](int64_t place) { return place > 0 && place < length; }),
            2);
  run_matrix({.pictures = 2, .step_rows = 64, .threads = 1, .is_tight = true, .cancels = true}, 1);
}

}  // namespace
}  // namespace tessera
