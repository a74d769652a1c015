// A sequence's values depend on that sequence alone: not on the cut into steps, the batch, the
// threads, the kernel level, what was committed around it, or which rows the plan leaves out. All
// comparisons are of bits.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "models/deepseek_v41/forward.h"

namespace tessera::deepseek_v41 {
namespace {

const Model& tiny_model() {
  static const std::unique_ptr<const Model> model =
      Model::load(TESSERA_SOURCE_DIR "/tests/golden/v41-tiny/model", {});
  return *model;
}

const Config& config() { return tiny_model().network.config; }

// A prompt of text, an image span of random rows, and text again.
struct Prompt {
  explicit Prompt(int64_t length, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    features.resize(static_cast<size_t>(length * config().hidden));
    for (bf16& x : features) {
      x = to_bf16(normal(random));
    }
    for (int64_t i = 0; i < length; ++i) {
      const bool is_image = i >= length / 3 && i < length / 2;
      ids.push_back(is_image ? static_cast<int32_t>(config().image_token)
                             : static_cast<int32_t>(3 + random() % 360));
      types.push_back(is_image ? int8_t{1} : int8_t{-1});
      rows.push_back(is_image
                         ? reinterpret_cast<const std::byte*>(features.data() + i * config().hidden)
                         : nullptr);
    }
  }
  int64_t length() const { return static_cast<int64_t>(ids.size()); }

  std::vector<bf16> features;
  std::vector<int32_t> ids;
  std::vector<int8_t> types;
  std::vector<const std::byte*> rows;
};

// One engine's worth of memory.
struct Machine {
  explicit Machine(int threads = 2, IsaLevel isa = active_isa())
      : pool(threads),
        ctx{.threads = pool, .scratch = arena, .isa = isa, .trace = {}},
        pools(config(), 2000),
        buffers(config(), 320, 320) {}

  void add(StepPlan& plan, const SequenceState& state, const Prompt& prompt, int64_t rows) const {
    const size_t first = static_cast<size_t>(state.position);
    const size_t count = static_cast<size_t>(rows);
    add_run(plan, state, std::span(prompt.ids).subspan(first, count),
            std::span(prompt.types).subspan(first, count),
            std::span(prompt.rows).subspan(first, count));
  }

  // Feeds `rows` rows, commits `kept` of them, and gives the logits of all rows [rows, vocab].
  std::vector<float> step(SequenceState& state, const Prompt& prompt, int64_t rows, int64_t kept) {
    StepPlan plan;
    add(plan, state, prompt, rows);
    plan_all_rows(plan, config());
    for (int32_t row = 0; row < rows; ++row) {
      plan.logit_rows.push_back(row);
    }
    state.prepare(config(), rows);
    forward(ctx, tiny_model().network, plan, buffers);
    commit(config(), plan, 0, kept, buffers, state);
    const float* logits = buffers.logits.as<float>();
    return {logits, logits + rows * config().vocab};
  }

  // The whole prompt in steps of `chunk` rows: logits of every position.
  std::vector<float> read(SequenceState& state, const Prompt& prompt, int64_t chunk) {
    std::vector<float> all;
    while (state.position < prompt.length()) {
      const int64_t rows = std::min(chunk, prompt.length() - state.position);
      const std::vector<float> part = step(state, prompt, rows, rows);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  ThreadPool pool;
  Arena arena;
  ExecContext ctx;
  CachePools pools;
  StepBuffers buffers;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

bool same_rows(const PageTable& a, const PageTable& b, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) {
    if (std::memcmp(a.codes(row), b.codes(row), static_cast<size_t>(a.layout().code_bytes())) !=
            0 ||
        std::memcmp(a.scales(row), b.scales(row), static_cast<size_t>(a.layout().scale_bytes())) !=
            0) {
      return false;
    }
  }
  return true;
}

// Everything that later steps can see.
void expect_same_state(const SequenceState& a, const SequenceState& b) {
  EXPECT_EQ(a.position, b.position);
  EXPECT_EQ(a.rings, b.rings);
  EXPECT_EQ(a.history, b.history);
  for (size_t source = 0; source < a.kv.size(); ++source) {
    const int64_t ratio = config().ratio(config().kv_sources[source]);
    const int64_t rows = a.position / ratio;
    EXPECT_TRUE(same_rows(a.kv[source], b.kv[source], rows)) << source;
    EXPECT_TRUE(same_rows(a.index_keys[source], b.index_keys[source], rows)) << source;
    for (int64_t slot = 0; ratio > 1 && slot < a.position % ratio; ++slot) {
      const int64_t at = open_group_offset(config(), static_cast<int64_t>(source), slot);
      EXPECT_EQ(std::memcmp(a.open_groups.data() + at, b.open_groups.data() + at,
                            static_cast<size_t>(2 * config().head_dim) * sizeof(float)),
                0)
          << source;
    }
  }
}

TEST(StepInvariance, AnyCutIntoStepsGivesTheSameBits) {
  const Prompt prompt(259, 1);
  Machine machine;
  SequenceState whole(config(), machine.pools);
  const std::vector<float> expected = machine.read(whole, prompt, prompt.length());
  for (const int64_t chunk : {1, 2, 3, 7, 16, 64, 100}) {
    SequenceState state(config(), machine.pools);
    EXPECT_TRUE(same_bits(machine.read(state, prompt, chunk), expected)) << "chunks of " << chunk;
    expect_same_state(state, whole);
  }
}

TEST(StepInvariance, AnyThreadCountAndKernelLevelGivesTheSameBits) {
  const Prompt prompt(70, 2);
  std::vector<float> expected;
  for (const IsaLevel isa : supported_isas()) {
    for (const int threads : {1, 2, 3}) {
      Machine machine(threads, isa);
      SequenceState state(config(), machine.pools);
      const std::vector<float> logits = machine.read(state, prompt, 33);
      if (expected.empty()) {
        expected = logits;
      }
      EXPECT_TRUE(same_bits(logits, expected))
          << isa_name(isa) << " with " << threads << " threads";
    }
  }
}

// Three sequences at different places: prefill, a chunk, and decode rows in one step.
TEST(StepInvariance, ABatchGivesWhatEachSequenceGivesAlone) {
  const Prompt a(90, 3), b(41, 4), c(60, 5);
  Machine machine;
  std::vector<std::vector<float>> alone;
  for (const Prompt* prompt : {&a, &b, &c}) {
    SequenceState state(config(), machine.pools);
    alone.push_back(machine.read(state, *prompt, prompt->length()));
  }
  SequenceState sa(config(), machine.pools), sb(config(), machine.pools),
      sc(config(), machine.pools);
  machine.step(sb, b, 20, 20);
  machine.step(sc, c, 59, 59);
  StepPlan plan;
  machine.add(plan, sc, c, 1);
  machine.add(plan, sa, a, 90);
  machine.add(plan, sb, b, 21);
  plan_all_rows(plan, config());
  for (int32_t row = 0; row < plan.rows(); ++row) {
    plan.logit_rows.push_back(row);
  }
  sa.prepare(config(), 90);
  sb.prepare(config(), 21);
  sc.prepare(config(), 1);
  forward(machine.ctx, tiny_model().network, plan, machine.buffers);
  const size_t row = static_cast<size_t>(config().vocab) * sizeof(float);
  const float* logits = machine.buffers.logits.as<float>();
  EXPECT_EQ(std::memcmp(logits, alone[2].data() + 59 * config().vocab, row), 0);
  EXPECT_EQ(std::memcmp(logits + config().vocab, alone[0].data(), 90 * row), 0);
  EXPECT_EQ(
      std::memcmp(logits + 91 * config().vocab, alone[1].data() + 20 * config().vocab, 21 * row),
      0);
}

// Rejected rows leave no trace: commit fewer rows than the step had, then go on with other tokens.
TEST(StepInvariance, RejectedRowsLeaveNoTrace) {
  const Prompt prompt(80, 6), other(80, 7);
  Machine machine;
  SequenceState expected(config(), machine.pools);
  const std::vector<float> logits = machine.read(expected, prompt, 80);
  SequenceState state(config(), machine.pools);
  int64_t kept = 0;
  std::mt19937 random(8);
  while (state.position < 80) {
    const int64_t at = state.position;
    Prompt mixed = prompt;  // right rows first, then rows of another prompt that will be rejected
    kept = std::min<int64_t>(static_cast<int64_t>(random() % 6), 80 - at);
    for (int64_t i = at + kept; i < 80; ++i) {
      mixed.ids[static_cast<size_t>(i)] = other.ids[static_cast<size_t>(i)];
    }
    const int64_t rows = std::min<int64_t>(kept + 5, 80 - at);
    if (rows == 0) {
      break;
    }
    const std::vector<float> part = machine.step(state, mixed, rows, kept);
    EXPECT_EQ(std::memcmp(part.data(), logits.data() + at * config().vocab,
                          static_cast<size_t>(kept * config().vocab) * sizeof(float)),
              0)
        << "at " << at;
  }
  expect_same_state(state, expected);
}

// A copy of a state is a fork: both go on, neither sees the other.
TEST(StepInvariance, ForksAreIndependent) {
  const Prompt prompt(70, 9);
  Prompt other = prompt;
  for (size_t i = 40; i < other.ids.size(); ++i) {
    other.ids[i] = 3 + static_cast<int32_t>(i % 300);
  }
  Machine machine;
  SequenceState plain(config(), machine.pools), plain_other(config(), machine.pools);
  const std::vector<float> expected = machine.read(plain, prompt, 70);
  const std::vector<float> expected_other = machine.read(plain_other, other, 70);
  SequenceState state(config(), machine.pools);
  machine.step(state, prompt, 40, 40);
  SequenceState fork = state;
  const std::vector<float> b = machine.read(fork, other, 4);
  const std::vector<float> a = machine.read(state, prompt, 7);
  const size_t tail = static_cast<size_t>(30 * config().vocab) * sizeof(float);
  EXPECT_EQ(std::memcmp(a.data(), expected.data() + 40 * config().vocab, tail), 0);
  EXPECT_EQ(std::memcmp(b.data(), expected_other.data() + 40 * config().vocab, tail), 0);
}

// Swapped out and in again, or taken back to a copy: the sequence goes on as if nothing had
// happened.
TEST(StepInvariance, SavedStatesGoOnWithTheSameBits) {
  const Prompt prompt(90, 15);
  Machine machine;
  SequenceState plain(config(), machine.pools);
  const std::vector<float> expected = machine.read(plain, prompt, 90);
  SequenceState state(config(), machine.pools);
  machine.step(state, prompt, 37, 37);
  const std::vector<std::byte> saved = state.serialise(config());
  const SequenceState copy = state;
  machine.step(state, prompt, 30, 30);
  SequenceState back = SequenceState::deserialise(config(), machine.pools, saved);
  expect_same_state(back, copy);
  EXPECT_EQ(back.serialise(config()), saved);
  const std::vector<float> rest = machine.read(back, prompt, 11);
  EXPECT_EQ(
      std::memcmp(rest.data(), expected.data() + 37 * config().vocab, rest.size() * sizeof(float)),
      0);
  state.truncate_pages(config(), 37);
  EXPECT_EQ(state.kv[2].page_count(), 1);
  state = copy;
  EXPECT_TRUE(same_bits(machine.read(state, prompt, 20), rest));
  EXPECT_THROW(
      SequenceState::deserialise(config(), machine.pools, std::span(saved).first(saved.size() - 1)),
      Error);
  EXPECT_THROW(SequenceState::deserialise(config(), machine.pools, std::span(saved).first(4)),
               Error);
}

// Forks that are swapped out share their common pages again afterwards.
TEST(StepInvariance, SavedForksShareTheirBeginning) {
  const Prompt prompt(200, 16), other(200, 17);
  Machine machine;
  SequenceState base(config(), machine.pools);
  machine.step(base, prompt, 150, 150);
  SequenceState fork = base;
  machine.step(fork, other, 40, 40);
  const int64_t free_pages = machine.pools.kv.free_pages();
  const SequenceState copy = fork;
  const std::vector<std::byte> saved = fork.serialise(config(), &base);
  const std::vector<std::byte> saved_base = base.serialise(config());
  EXPECT_LT(saved.size(), fork.serialise(config()).size());
  base = SequenceState(config(), machine.pools);
  fork = base;
  base = SequenceState::deserialise(config(), machine.pools, saved_base);
  fork = SequenceState::deserialise(config(), machine.pools, saved, &base);
  expect_same_state(fork, copy);
  EXPECT_GE(machine.pools.kv.free_pages(), free_pages - 4 * base.kv[0].page_count());
  EXPECT_THROW(SequenceState::deserialise(config(), machine.pools, saved_base, &fork), Error);
}

// A state in the middle of a prompt goes on exactly if enough tokens follow it, and says so.
TEST(StepInvariance, AHalfStateReachesWhatTheFormulaSays) {
  const int64_t reach =
      (config().window - 1) * (config().layers - first_thinned_layer(config())) + 1;
  EXPECT_EQ(reach, 46);
  const Prompt prompt(150, 33);
  const auto part = [&](Machine& machine, SequenceState& state, int64_t rows, int64_t end) {
    std::memset(machine.buffers.window_rows.data(), 0x7f, machine.buffers.window_rows.size());
    StepPlan plan;
    machine.add(plan, state, prompt, rows);
    const RowEnd wanted = {end, 1};
    plan_needed_rows(plan, config(), {&wanted, 1});
    state.prepare(config(), rows);
    forward(machine.ctx, tiny_model().network, plan, machine.buffers);
    commit(config(), plan, 0, rows, machine.buffers, state);
  };
  Machine machine;
  SequenceState half(config(), machine.pools);
  part(machine, half, 60, 150);
  EXPECT_FALSE(half.is_complete(config()));
  EXPECT_TRUE(can_reach(config(), half, 60 + reach, 1));
  EXPECT_FALSE(can_reach(config(), half, 60 + reach - 1, 1));
  for (const int64_t missing : {0, 1}) {
    const int64_t end = 60 + reach - missing;
    SequenceState full(config(), machine.pools), resumed = half;
    machine.step(full, prompt, end, end);
    if (missing > 0) {  // as if the rings were there
      std::fill(resumed.ring_begin.begin(), resumed.ring_begin.end(), 0);
    }
    part(machine, resumed, end - 60, end);
    EXPECT_EQ(resumed.rings == full.rings, missing == 0);
    EXPECT_TRUE(resumed.is_complete(config()));
  }
}

// Rows that no wanted output reads are left out; what remains is equal, and so is every later step.
TEST(StepInvariance, LeavingOutUnneededRowsChangesNothing) {
  for (const int64_t length : {1, 5, 16, 17, 46, 47, 62, 63, 130, 258}) {
    const Prompt prompt(length + 6, 10 + static_cast<unsigned>(length));
    Machine machine;
    SequenceState full(config(), machine.pools);
    const std::vector<float> expected = machine.step(full, prompt, length, length);
    SequenceState half(config(), machine.pools);
    std::memset(machine.buffers.window_rows.data(), 0x7f,
                machine.buffers.window_rows.size());  // NaN codes
    StepPlan plan;
    machine.add(plan, half, prompt, length);
    const RowEnd end = {length, 1};
    plan_needed_rows(plan, config(), {&end, 1});
    plan.logit_rows.push_back(static_cast<int32_t>(length - 1));
    half.prepare(config(), length);
    forward(machine.ctx, tiny_model().network, plan, machine.buffers);
    EXPECT_EQ(std::memcmp(machine.buffers.logits.as<float>(),
                          expected.data() + (length - 1) * config().vocab,
                          static_cast<size_t>(config().vocab) * sizeof(float)),
              0)
        << length;
    commit(config(), plan, 0, length, machine.buffers, half);
    expect_same_state(half, full);
    EXPECT_TRUE(same_bits(machine.read(half, prompt, 1), machine.read(full, prompt, 1))) << length;
  }
}

// Several ends: the state is complete at each of them, whatever lies between, in steps of any size.
// Rows that are left out hold NaN codes.
TEST(StepInvariance, TheStateIsCompleteAtEveryEnd) {
  const int64_t length = 150;
  const Prompt prompt(length, 31);
  Machine machine;
  for (const std::vector<int64_t>& borders :
       {std::vector<int64_t>{20}, {47, 48}, {1, 60, 149}, {75, 100, 131}}) {
    for (const int64_t chunk : {7, 64, 150}) {
      std::vector<RowEnd> ends;
      for (const int64_t border : borders) {
        ends.push_back({border, 1});
      }
      ends.push_back({length, 1});
      SequenceState half(config(), machine.pools);
      SequenceState full(config(), machine.pools);
      for (const RowEnd& end : ends) {
        while (half.position < end.position) {
          const int64_t rows = std::min(chunk, end.position - half.position);
          std::memset(machine.buffers.window_rows.data(), 0x7f, machine.buffers.window_rows.size());
          StepPlan plan;
          machine.add(plan, half, prompt, rows);
          plan_needed_rows(plan, config(), ends);
          half.prepare(config(), rows);
          forward(machine.ctx, tiny_model().network, plan, machine.buffers);
          commit(config(), plan, 0, rows, machine.buffers, half);
        }
        machine.step(full, prompt, end.position - full.position, end.position - full.position);
        expect_same_state(half, full);
      }
    }
  }
}

// A border that is no end has no complete state: what the ends are for.
TEST(StepInvariance, WithoutAnEndTheStateIsNotComplete) {
  const Prompt prompt(150, 32);
  Machine machine;
  SequenceState half(config(), machine.pools), full(config(), machine.pools);
  std::memset(machine.buffers.window_rows.data(), 0x7f, machine.buffers.window_rows.size());
  StepPlan plan;
  machine.add(plan, half, prompt, 60);
  const RowEnd end = {150, 1};
  plan_needed_rows(plan, config(), {&end, 1});
  half.prepare(config(), 60);
  forward(machine.ctx, tiny_model().network, plan, machine.buffers);
  commit(config(), plan, 0, 60, machine.buffers, half);
  machine.step(full, prompt, 60, 60);
  EXPECT_NE(half.rings, full.rings);
}

// The saving is real: at the tiny model's shape only the last rows run in the layers behind the
// last source.
TEST(StepInvariance, NeededRowsFollowTheFormula) {
  const Prompt prompt(258, 11);
  Machine machine;
  const SequenceState state(config(), machine.pools);
  StepPlan plan;
  machine.add(plan, state, prompt, 258);
  const RowEnd end = {258, 1};
  plan_needed_rows(plan, config(), {&end, 1});
  EXPECT_EQ(plan.layers[4].out->size(), 258);
  EXPECT_EQ(plan.layers[5].stream->size(), 258);
  EXPECT_EQ(plan.layers[5].window->size(), 46);
  EXPECT_EQ(plan.layers[5].out->size(), 31);
  EXPECT_EQ(plan.layers[6].out->size(), 16);
  EXPECT_EQ(plan.layers[7].window->size(), 16);
  EXPECT_EQ(plan.layers[7].out->size(), 1);
}

// A repeated step takes no new scratch memory.
TEST(StepInvariance, ScratchMemoryStopsGrowing) {
  const Prompt prompt(120, 12);
  Machine machine(1);
  SequenceState state(config(), machine.pools);
  machine.step(state, prompt, 100, 100);
  const int64_t capacity = machine.arena.capacity_bytes();
  while (state.position < 120) {
    machine.step(state, prompt, 1, 1);
  }
  EXPECT_EQ(machine.arena.capacity_bytes(), capacity);
}

}  // namespace
}  // namespace tessera::deepseek_v41
