// Known bugs of chunks, positions and batches (docs/known-bugs.md, B52 to B60): wherever a step
// ends, whatever runs in it and however often a sequence is put away, its bits are the same.
#include <algorithm>

#include "models/deepseek_v41/forward.h"
#include "models/deepseek_v41/span.h"
#include "tests/known_bugs_test.h"

namespace tessera::deepseek_v41 {
namespace {

const Model& tiny_model() {
  static const std::unique_ptr<const Model> model =
      Model::load(TESSERA_SOURCE_DIR "/tests/golden/v41-tiny/model", {});
  return *model;
}

const Config& config() { return tiny_model().network.config; }

// Text, the span of a picture with its delimiters, and text again.
struct Prompt {
  Prompt(int64_t before, const Grid& grid, int64_t behind, unsigned seed) : random(seed) {
    add_text(before);
    span_begin = length();
    const VisionWeights& w = tiny_model().network.weights.vision;
    add_picture_row(kTypeImageStart, w.image_start);
    features.resize(static_cast<size_t>(grid.count() * config().hidden));
    std::normal_distribution<float> normal;
    std::ranges::generate(features, [&] { return to_bf16(normal(random)); });
    const bf16* feature = features.data();
    for (int64_t row = 0; row < grid.rows; ++row) {
      for (int64_t column = 0; column < grid.columns; ++column) {
        add_picture_row(kTypeImage, reinterpret_cast<const std::byte*>(feature));
        feature += config().hidden;
      }
      add_picture_row(kTypeImageNewline, w.image_newline);
    }
    add_picture_row(kTypeImageEnd, w.image_end);
    span_end = length();
    add_text(behind);
  }
  Prompt(const Prompt&) = delete;
  Prompt& operator=(const Prompt&) = delete;

  int64_t length() const { return static_cast<int64_t>(ids.size()); }

  std::mt19937 random;
  std::vector<bf16> features;
  std::vector<int32_t> ids;
  std::vector<int8_t> types;
  std::vector<const std::byte*> rows;
  int64_t span_begin = 0;
  int64_t span_end = 0;

 private:
  void add_text(int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      ids.push_back(static_cast<int32_t>(3 + random() % 360));
      types.push_back(kTypeText);
      rows.push_back(nullptr);
    }
  }
  void add_picture_row(int8_t type, const std::byte* row) {
    ids.push_back(static_cast<int32_t>(config().image_token));
    types.push_back(type);
    rows.push_back(row);
  }
};

// One sequence and its prompt.
struct Sequence {
  const Prompt& prompt;
  SequenceState& state;
  int64_t rows;  // of the next step
};

struct Machine {
  Machine()
      : pool(1),
        ctx{.threads = pool, .scratch = arena, .isa = active_isa(), .trace = {}},
        pools(config(), 600),
        buffers(config(), 320, 320) {}

  // Logits of all rows, sequence after sequence, [rows, vocab].
  std::vector<float> step(const std::vector<Sequence>& sequences) {
    StepPlan plan;
    for (const Sequence& s : sequences) {
      const size_t first = static_cast<size_t>(s.state.position);
      const size_t count = static_cast<size_t>(s.rows);
      add_run(plan, s.state, std::span(s.prompt.ids).subspan(first, count),
              std::span(s.prompt.types).subspan(first, count),
              std::span(s.prompt.rows).subspan(first, count));
      s.state.prepare(config(), s.rows);
    }
    plan_all_rows(plan, config());
    for (int32_t row = 0; row < plan.rows(); ++row) {
      plan.logit_rows.push_back(row);
    }
    forward(ctx, tiny_model().network, plan, buffers);
    for (size_t i = 0; i < sequences.size(); ++i) {
      commit(config(), plan, i, sequences[i].rows, buffers, sequences[i].state);
    }
    const float* logits = buffers.logits.as<float>();
    return {logits, logits + plan.rows() * config().vocab};
  }

  std::vector<float> read(const Prompt& prompt, SequenceState& state, int64_t rows) {
    return rows == 0 ? std::vector<float>() : step({{prompt, state, rows}});
  }

  ThreadPool pool;
  Arena arena;
  ExecContext ctx;
  CachePools pools;
  StepBuffers buffers;
};

std::vector<float> whole(const Prompt& prompt) {
  Machine machine;
  SequenceState state(config(), machine.pools);
  return machine.read(prompt, state, prompt.length());
}

// The rows from `first` on of a prompt's logits.
bool are_rows(const std::vector<float>& got, const std::vector<float>& all, int64_t first) {
  return std::memcmp(got.data(), all.data() + first * config().vocab, got.size() * sizeof(float)) ==
         0;
}

// A step ends at every position of the picture and around it, the next one has one row: prefill of
// one row is decode, and a span needs not be whole.
TEST(KnownBugSteps, EveryCutThroughAPicture) {
  const Prompt prompt(21, {3, 4}, 20, 1);
  const std::vector<float> expected = whole(prompt);
  Machine machine;
  for (int64_t cut = prompt.span_begin - 2; cut <= prompt.span_end + 1; ++cut) {
    SequenceState state(config(), machine.pools);
    std::vector<float> logits = machine.read(prompt, state, cut);
    for (const int64_t rows : {int64_t{1}, prompt.length() - cut - 1}) {
      const std::vector<float> part = machine.read(prompt, state, rows);
      logits.insert(logits.end(), part.begin(), part.end());
    }
    ASSERT_EQ(logits.size(), expected.size());
    EXPECT_TRUE(are_rows(logits, expected, 0)) << "cut at " << cut;
  }
}

// Two pictures side by side in a step, cut at every pair of places, in both orders: each row gets
// its own features, history and positions.
TEST(KnownBugSteps, PicturesSideBySideAtEveryOffset) {
  const Prompt prompts[] = {{5, {2, 3}, 6, 2}, {8, {3, 2}, 3, 3}};
  const std::vector<float> expected[] = {whole(prompts[0]), whole(prompts[1])};
  Machine machine;
  for (int64_t at = 0; at <= prompts[0].span_end - prompts[0].span_begin; ++at) {
    const int64_t cuts[] = {prompts[0].span_begin + at, prompts[1].span_end - at};
    for (const size_t first : {0U, 1U}) {
      std::vector<SequenceState> states(2, SequenceState(config(), machine.pools));
      std::vector<Sequence> sequences;
      for (const size_t i : {first, 1 - first}) {
        machine.read(prompts[i], states[i], cuts[i]);
        sequences.push_back({prompts[i], states[i], prompts[i].length() - cuts[i]});
      }
      const std::vector<float> got = machine.step(sequences);
      const int64_t border = sequences[0].rows * config().vocab;
      const size_t second = 1 - first;
      EXPECT_TRUE(are_rows({got.begin(), got.begin() + border}, expected[first], cuts[first]))
          << "cut at " << cuts[first] << " and " << cuts[second];
      EXPECT_TRUE(are_rows({got.begin() + border, got.end()}, expected[second], cuts[second]))
          << "cut at " << cuts[first] << " and " << cuts[second];
    }
  }
}

// Put away after every token and taken back on pages of another place.
TEST(KnownBugSteps, ResumedAtEveryToken) {
  const Prompt prompt(21, {3, 4}, 40, 4);
  const std::vector<float> expected = whole(prompt);
  Machine machine;
  CachePools other(config(), 600);
  SequenceState state(config(), machine.pools);
  while (state.position < prompt.length()) {
    const int64_t at = state.position;
    const std::vector<std::byte> saved = state.serialise(config());
    state = SequenceState(config(), machine.pools);
    state = SequenceState::deserialise(config(), at % 2 == 0 ? other : machine.pools, saved);
    EXPECT_TRUE(are_rows(machine.read(prompt, state, 1), expected, at)) << "at " << at;
  }
}

}  // namespace
}  // namespace tessera::deepseek_v41

namespace tessera::test {
namespace {

// The same through the engine, whose prompts leave out rows that nothing reads.
TEST(KnownBugSteps, StepsThatEndInsideAPicture) {
  const Request request = ask({text_block("Look."), inline_block(drawn_file({150, 120}, 1)),
                               text_block("What does the image show?")});
  const Result want = plain_result(request);
  for (const int64_t rows : {1, 2, 13}) {
    EngineOptions options = plain_options();
    options.step_rows = rows;
    const std::unique_ptr<Engine> engine = Engine::open(options);
    const Result got = engine->submit(request)->result();
    EXPECT_EQ(got.calls.front().rows, rows);
    expect_same(got, want, str_cat("steps of ", rows));
  }
}

// Requests give their memory to earlier ones and go on later.
TEST(KnownBugSteps, RequestsThatAreSwappedOut) {
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 2; ++i) {
    requests.push_back(
        ask({inline_block(drawn_file({120, 90}, i)), text_block("Tell me about it.")}, 24));
    requests.back().choices = 1 + i;
    requests.back().sampling.temperature = 1.0;
  }
  EngineOptions options = plain_options();
  options.serving.cache_tokens = 120;
  options.serving.answer_room = 4;
  const std::unique_ptr<Engine> engine = Engine::open(options);
  std::vector<std::shared_ptr<Ticket>> tickets;
  for (const Request& request : requests) {
    tickets.push_back(engine->submit(request));
  }
  for (size_t i = 0; i < tickets.size(); ++i) {
    expect_same(tickets[i]->result(), plain_result(requests[i]), str_cat("request ", i));
  }
  EXPECT_GT(engine->serving_statistics().swapped_out, 0);
}

}  // namespace
}  // namespace tessera::test
