// Known bugs that show after many requests (docs/known-bugs.md, B53, B58, B68 and B70).
#include <algorithm>
#include <deque>
#include <iterator>

#include "base/process_memory.h"
#include "tests/known_bugs_test.h"

namespace tessera::test {
namespace {

// Every picture is another one: caches fill, and then memory stays where it is.
TEST(KnownBugSoak, AThousandPictures) {
  EngineOptions options = keeping_options();
  options.prefix_interval = 512;
  options.prefix_cache_bytes = 1 << 20;
  options.picture_cache_bytes = 64 << 10;
  const std::unique_ptr<Engine> engine = Engine::open(options);
  std::deque<std::shared_ptr<Ticket>> running;
  int64_t warm = 0;
  constexpr uint32_t kPictures = 1000;
  for (uint32_t i = 0; i < kPictures; ++i) {
    running.push_back(engine->submit(
        ask({inline_block(drawn_file({64 + i % 7 * 16, 48 + i % 5 * 16}, i)), text_block("What?")},
            1)));
    if (running.size() == 8) {
      const Result result = running.front()->result();
      EXPECT_EQ(result.cached_pictures, 0);
      running.pop_front();
    }
    warm = i == kPictures / 4 ? memory_status().anonymous_bytes : warm;
  }
  engine->drain();
  EXPECT_LT(memory_status().anonymous_bytes - warm, int64_t{4} << 20);
  const ServingStatistics statistics = engine->serving_statistics();
  EXPECT_EQ(statistics.ended, kPictures);
  EXPECT_EQ(statistics.cached_pictures, 0);
  EXPECT_LE(statistics.kept_state_bytes, options.prefix_cache_bytes);
}

// Texts and pictures, greedy and sampled, one answer and several, short and long.
std::vector<Request> drawn_requests(std::mt19937& random) {
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 24; ++i) {
    std::vector<ContentBlock> parts;
    for (uint64_t k = random() % 3; k > 0; --k) {
      parts.push_back(inline_block(drawn_file({240, 180}, static_cast<uint32_t>(random() % 12))));
    }
    std::string text;
    for (uint64_t k = 1 + random() % 40; k > 0; --k) {
      text += random() % 2 == 0 ? "red cat " : "一只猫";
    }
    parts.push_back(text_block(text));
    Request& request = requests.emplace_back(
        ask(std::move(parts), static_cast<int64_t>(1 + random() % (i % 4 == 0 ? 40 : 8))));
    request.sampling.temperature = i % 2 == 0 ? 0.0 : 1.2;
    request.sampling.seed = i;
    request.choices = static_cast<int64_t>(1 + random() % 2);
  }
  return requests;
}

// Many at once over small caches: requests of all kinds begin, are swapped out, cancelled and
// repeated, and each of them gets what it gets alone.
TEST(KnownBugSoak, EachGetsWhatItGetsAlone) {
  std::mt19937 random(3);
  std::vector<Request> requests = drawn_requests(random);
  std::vector<Result> expected;
  std::ranges::transform(requests, std::back_inserter(expected), plain_result);
  EngineOptions options = keeping_options();
  options.threads = 2;
  options.step_rows = 19;
  options.prefix_cache_bytes = 300'000;
  options.picture_cache_bytes = 1 << 16;
  options.serving.max_running = 6;
  options.serving.rows_beside_answers = 7;
  options.serving.cache_tokens = 700;
  options.serving.answer_room = 4;
  options.serving.prepare_threads = 2;
  const std::unique_ptr<Engine> engine = Engine::open(options);
  struct Running {
    std::shared_ptr<Ticket> ticket;
    size_t which;
    bool is_cancelled;
  };
  std::deque<Running> running;
  const auto take = [&] {
    const Running one = running.front();
    running.pop_front();
    const Result got = one.ticket->result();
    if (!one.is_cancelled) {
      expect_same(got, expected[one.which], str_cat("request ", one.which));
    }
  };
  for (int i = 0; i < 80; ++i) {
    const size_t which = random() % requests.size();
    requests[which].tenant = i % 3 == 0 ? "a" : "b";
    running.push_back({engine->submit(requests[which]), which, false});
    if (random() % 8 == 0) {
      Running& dropped = running[random() % running.size()];
      dropped.ticket->cancel();
      dropped.is_cancelled = true;
    }
    if (running.size() == 16) {
      take();
    }
  }
  while (!running.empty()) {
    take();
  }
  const ServingStatistics statistics = engine->serving_statistics();
  EXPECT_EQ(statistics.failed, 0);
  EXPECT_EQ(statistics.unfinished, 0);
  EXPECT_GT(statistics.swapped_out, 0);
  EXPECT_GT(statistics.cached_tokens, 0);
  EXPECT_GT(statistics.cached_pictures, 0);
  EXPECT_GT(statistics.evicted_states, 0);
}

// Steps and kept states of every size: the first ones end at each position of the picture, and the
// second request goes on from there.
TEST(KnownBugSoak, EveryPositionOfAPicture) {
  const ContentBlock picture = inline_block(drawn_file({150, 120}, 1));
  const auto request_of = [&](const std::string& text) {
    return ask({text_block("Look."), picture, text_block(text)}, 2);
  };
  // So many tokens follow that states in the picture can be gone on from, and no later ones.
  const std::unique_ptr<Engine> plain = Engine::open(plain_options());
  std::string text = "What does the image show?";
  EncodedPrompt prompt;
  EncodedPrompt::Span span;
  do {
    text += " red";
    prompt = plain->encode(request_of(text + " here"), ImageSpans::expand);
    span = prompt.spans.at(0);
  } while (std::ssize(prompt.ids) < span.start + 93);
  const std::vector<Request> requests = {request_of(text + " here"), request_of(text + " there")};
  const std::vector<Result> expected = {plain_result(requests[0]), plain_result(requests[1])};
  int64_t inside = 0;
  for (int64_t rows = 1; rows < span.start + span.length + 2; ++rows) {
    EngineOptions options = keeping_options();
    options.step_rows = rows;
    options.prefix_interval = rows;
    const std::unique_ptr<Engine> engine = Engine::open(options);
    for (size_t i = 0; i < requests.size(); ++i) {
      const Result got = engine->submit(requests[i])->result();
      expect_same(got, expected[i], str_cat("steps of ", rows, ", request ", i));
      inside += got.cached_tokens > span.start && got.cached_tokens < span.start + span.length;
    }
  }
  EXPECT_GT(inside, span.length / 2);
}

// The next request is about the same picture: neither half a picture nor half a prompt was kept.
TEST(KnownBugSoak, ARequestEndedAnywhereLeavesItsPlace) {
  const std::unique_ptr<Engine> engine = Engine::open(one_at_a_time());
  std::vector<Request> requests;
  std::vector<Result> expected;
  for (uint32_t i = 0; i < 3; ++i) {
    requests.push_back(endless(i));
    requests.back().max_tokens = 2;
    expected.push_back(plain_result(requests.back()));
  }
  for (uint32_t round = 0; round < 100 && !HasFailure(); ++round) {
    Request request = endless(round % 3);
    request.tenant = str_cat(round);  // so that there is a picture to encode
    const std::shared_ptr<Ticket> dropped = engine->submit(request);
    wait_for(*dropped, kStages[round % kStages.size()]);
    dropped->cancel();
    request.max_tokens = 2;
    expect_same(engine->submit(request)->result(), expected[round % 3], str_cat("round ", round));
    const Result result = dropped->result();
    EXPECT_TRUE(result.is_cancelled);
    EXPECT_EQ(result.choices.at(0).finish_reason, FinishReason::cancelled);
  }
  const ServingStatistics statistics = engine->serving_statistics();
  EXPECT_EQ(statistics.ended, 200);
  EXPECT_EQ(statistics.unfinished, 0);
}

}  // namespace
}  // namespace tessera::test
