// The kernels are timed as a step runs them: the products of one layer one after the other, each
// with weights that no cache holds any more.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>

#include "base/checked_math.h"
#include "base/cpu.h"
#include "base/process_memory.h"
#include "base/str_cat.h"
#include "base/thread_pool.h"
#include "models/deepseek_v41/state.h"
#include "ops/indexer/indexer.h"
#include "ops/linear/linear.h"
#include "ops/sparse_attention/sparse_attention.h"
#include "ops/vision_attention/vision_attention.h"
#include "runtime/machine.h"
#include "runtime/machine_disk.h"
#include "runtime/machine_weights.h"

namespace tessera {
namespace {

using deepseek_v41::Config;

constexpr int64_t kMostBytes = int64_t{512} << 20;  // of generated weights
constexpr int kRounds = 5;                          // of each kernel at most, the median counts
constexpr double kMostSeconds = 0.3;                // of all its rounds, but for the last
constexpr double kRoundSeconds = 0.02;              // at least
constexpr int64_t kSomeRows = 32;                   // the most for which ops/linear streams
constexpr int64_t kManyRows = 240;                  // a row tile of ops/linear

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Shape {
  int64_t outputs;
  int64_t inputs;
  int64_t matrices = 1;  // that one loop over the threads takes together
};

// What a step multiplies with weights of this width: a layer's experts, a layer's projections, head
// or tower. Of more rows some of it, which takes long enough.
std::vector<Shape> shapes_of(const Config& c, Kernel kernel, int64_t rows) {
  const bool is_many = rows >= kSomeRows;
  const deepseek_v41::VisionConfig& v = c.vision;
  if (kernel == Kernel::fp4) {
    const int64_t experts = is_many ? 1 : c.active_experts;
    return {{c.ffn_dim, c.hidden, 2 * experts}, {c.hidden, c.ffn_dim, experts}};
  }
  if (kernel == Kernel::fp8 && is_many) {
    return {{c.q_rank, c.hidden}, {c.hidden, c.o_groups * c.o_rank / 2}};
  }
  if (kernel == Kernel::fp8) {
    return {{c.q_rank, c.hidden},
            {c.heads * c.head_dim, c.q_rank},
            {c.head_dim, c.hidden},
            {c.o_rank, c.heads * c.head_dim / c.o_groups, c.o_groups},
            {c.hidden, c.o_groups * c.o_rank}};
  }
  if (is_many && v.layers > 0) {
    return {{3 * v.hidden, v.hidden},
            {v.hidden, v.hidden},
            {2 * v.ffn_dim, v.hidden},
            {v.hidden, v.ffn_dim}};
  }
  return {{std::min<int64_t>(c.vocab, 4096), c.hidden}};
}

constexpr std::array kProducts = {Kernel::fp4, Kernel::fp8, Kernel::bf16};
constexpr std::array kProductRows = {int64_t{1}, int64_t{8}, kSomeRows, kManyRows};
// Many rows of a prompt share the keys that they unpack.
constexpr std::array kAttentionRows = {int64_t{1}, int64_t{16}, int64_t{128}};

// Enough that no cache holds it, but no large part of the memory; one matrix at least.
int64_t weight_bytes(const Config& config, int64_t available_bytes) {
  int64_t bytes = std::min(kMostBytes, available_bytes / 8);
  for (const Kernel kernel : kProducts) {
    for (const int64_t rows : kProductRows) {
      for (const Shape& shape : shapes_of(config, kernel, rows)) {
        bytes = std::max(bytes, MachineWeights::bytes_of(kernel, shape.outputs, shape.inputs));
      }
    }
  }
  return bytes;
}

class Measuring {
 public:
  Measuring(const Config& config, const MeasureOptions& options, int64_t bytes)
      : config_(config), clock_(options.clock), threads_(options.threads), weights_(bytes) {}

  // Bytes per second that all threads read together, each in its own part of the weights.
  double memory_bandwidth() {
    const std::span<const std::byte> all = weights_.bytes();
    const int64_t threads = threads_.threads();
    const int64_t part = static_cast<int64_t>(all.size()) / threads / 64 * 8;  // words
    std::vector<uint64_t> sums(static_cast<size_t>(threads));
    return rate(static_cast<double>(part * 8 * threads), [&] {
      threads_.parallel_for(threads, [&](int64_t item, int) {
        const uint64_t* words = reinterpret_cast<const uint64_t*>(all.data()) + item * part;
        std::array<uint64_t, 8> sum{};
        for (int64_t i = 0; i < part; i += 8) {
          for (int64_t lane = 0; lane < 8; ++lane) {
            sum[static_cast<size_t>(lane)] += words[i + lane];
          }
        }
        uint64_t folded = 0;
        for (const uint64_t lane : sum) {
          folded += lane;
        }
        sums[static_cast<size_t>(item)] = folded;
        __asm__ volatile("" : : "r"(sums.data()) : "memory");
      });
    });
  }

  KernelSpeed product_speed(Kernel kernel) {
    KernelSpeed speed;
    for (const int64_t rows : kProductRows) {
      speed.points.push_back({static_cast<double>(rows), product_rate(kernel, rows)});
    }
    return speed;
  }

  KernelSpeed attention_speed() {
    KernelSpeed speed;
    for (const int64_t rows : kAttentionRows) {
      speed.points.push_back({static_cast<double>(rows), attention_rate(rows)});
    }
    return speed;
  }

  KernelSpeed index_speed() {
    KernelSpeed speed;
    for (const int64_t rows : kAttentionRows) {
      speed.points.push_back({static_cast<double>(rows), index_rate(rows)});
    }
    return speed;
  }

  KernelSpeed picture_speed() {
    const deepseek_v41::VisionConfig& v = config_.vision;
    const int64_t patches = std::min<int64_t>(v.most_patches(), 5184);
    const int64_t queries = std::min<int64_t>(patches, 480);  // as the tower's tiles
    const std::vector<bf16> qkv = values(patches * 3 * v.hidden);
    std::vector<bf16> out(static_cast<size_t>(patches * v.hidden));
    const double flops = 4.0 * static_cast<double>(patches * queries * v.hidden);
    ExecContext ctx = context();
    const double measured = rate(flops, [&] {
      vision_attention(ctx, VisionAttentionArgs<bf16>{.q = qkv.data(),
                                                      .k = qkv.data() + v.hidden,
                                                      .v = qkv.data() + 2 * v.hidden,
                                                      .stride = 3 * v.hidden,
                                                      .o = out.data(),
                                                      .o_stride = v.hidden,
                                                      .tokens = patches,
                                                      .heads = v.heads,
                                                      .head_dim = v.head_dim(),
                                                      .scale = 0.125f,
                                                      .first_query = 0,
                                                      .last_query = queries});
    });
    return {{{static_cast<double>(queries), measured}}};
  }

 private:
  // Amount per second of work(), which does `amount`: the median of rounds long enough to be timed.
  template <typename Work>
  double rate(double amount, const Work& work) const {
    work();  // pages, scratch memory
    std::vector<double> rates;
    const double first = clock_();
    for (int round = 0; round < kRounds && clock_() - first < kMostSeconds; ++round) {
      const double start = clock_();
      double done = 0;
      double seconds = 0;
      do {
        work();
        done += amount;
        seconds = clock_() - start;
      } while (seconds < kRoundSeconds);
      rates.push_back(done / seconds);
    }
    return median(rates);
  }

  ExecContext context() { return {threads_, scratch_, active_isa(), {}}; }

  static std::vector<bf16> values(int64_t count) {
    std::mt19937 random(2);
    std::vector<bf16> made(static_cast<size_t>(count));
    for (bf16& value : made) {
      value = to_bf16(static_cast<float>(static_cast<int>(random() % 2001) - 1000) * 0.001f);
    }
    return made;
  }

  double product_rate(Kernel kernel, int64_t rows) {
    const std::vector<Shape> shapes = shapes_of(config_, kernel, rows);
    int64_t most_inputs = 0;
    int64_t most_outputs = 0;
    double flops = 0;
    for (const Shape& shape : shapes) {
      most_inputs = std::max(most_inputs, shape.inputs * shape.matrices);
      most_outputs = std::max(most_outputs, shape.outputs * shape.matrices);
      flops += 2.0 * static_cast<double>(rows * shape.matrices * shape.outputs * shape.inputs);
    }
    const std::vector<bf16> x = values(rows * most_inputs);
    std::vector<bf16> y(static_cast<size_t>(rows * most_outputs));
    ExecContext ctx = context();
    return rate(flops, [&] {
      for (const Shape& shape : shapes) {
        std::vector<Linear> layers;
        for (int64_t i = 0; i < shape.matrices; ++i) {
          layers.push_back(weights_.next(kernel, shape.outputs, shape.inputs));
        }
        std::vector<LinearCall> calls;
        for (int64_t i = 0; i < shape.matrices; ++i) {
          calls.push_back({x.data() + i * rows * shape.inputs, rows,
                           &layers[static_cast<size_t>(i)], y.data() + i * rows * shape.outputs,
                           DType::bf16});
        }
        linear_many(ctx, calls);
      }
    });
  }

  // Queries behind a full window and as many entries as lists have room for.
  double attention_rate(int64_t rows) {
    const Config& c = config_;
    const int64_t entries = std::max<int64_t>(c.index_top_k, 1);
    const int64_t width = c.heads * c.head_dim;
    const std::vector<bf16> q = values(rows * width);
    std::vector<bf16> o(static_cast<size_t>(rows * width));
    const int64_t row_bytes = window_row_bytes(c.head_dim);
    // Codes and scales of 1.0: every byte is a moderate number in both.
    const std::vector<std::byte> rings(static_cast<size_t>((c.window + rows) * row_bytes),
                                       std::byte{0x38});
    PagePool pool({GroupFormat::e2m1_e4m3_16, c.head_dim}, ceil_div(entries, kPageRows));
    PageTable table(&pool);
    fill(table, entries);
    std::vector<int64_t> positions(static_cast<size_t>(rows));
    std::vector<int32_t> lists(static_cast<size_t>(rows * entries));
    for (int64_t row = 0; row < rows; ++row) {
      positions[static_cast<size_t>(row)] = 4 * c.window + row;
      for (int64_t i = 0; i < entries; ++i) {
        lists[static_cast<size_t>(row * entries + i)] = static_cast<int32_t>(i);
      }
    }
    const std::vector<float> sinks(static_cast<size_t>(c.heads), 0.0f);
    const AttentionArgs args = {.q = q.data(),
                                .positions = positions.data(),
                                .sinks = reinterpret_cast<const std::byte*>(sinks.data()),
                                .lists = lists.data(),
                                .list_stride = entries,
                                .heads = c.heads,
                                .head_dim = c.head_dim,
                                .window = c.window,
                                .scale = 0.04f,
                                .o = o.data()};
    const AttentionRun run = {.first_row = 0,
                              .rows = rows,
                              .ring = rings.data(),
                              .fresh_start = 4 * c.window,
                              .fresh = rings.data() + c.window * row_bytes,
                              .compressed = &table};
    const double flops = 4.0 * static_cast<double>(rows * width * (c.window + entries));
    ExecContext ctx = context();
    return rate(flops, [&] { sparse_attention(ctx, args, {&run, 1}); });
  }

  double index_rate(int64_t rows) {
    const Config& c = config_;
    constexpr int64_t kEntries = 4096;
    const std::vector<bf16> q = values(rows * c.index_heads * c.index_head_dim);
    const std::vector<bf16> weights = values(rows * c.index_heads);
    std::vector<float> scores(static_cast<size_t>(rows * kEntries));
    PagePool pool({GroupFormat::e2m1_e8m0_32, c.index_head_dim}, ceil_div(kEntries, kPageRows));
    PageTable keys(&pool);
    fill(keys, kEntries);
    const std::vector<int32_t> visible(static_cast<size_t>(rows), kEntries);
    const IndexRun run = {.first_row = 0, .rows = rows, .keys = &keys, .visible = visible.data()};
    const double flops =
        2.0 * static_cast<double>(rows * c.index_heads * c.index_head_dim * kEntries);
    ExecContext ctx = context();
    return rate(flops, [&] {
      index_scores(ctx,
                   {.q = q.data(),
                    .weights = weights.data(),
                    .heads = c.index_heads,
                    .head_dim = c.index_head_dim,
                    .rounding = IndexScoreRounding::bf16,
                    .stride = kEntries,
                    .scores = scores.data()},
                   {&run, 1});
    });
  }

  static void fill(PageTable& table, int64_t rows) {
    table.prepare_append(0, rows);
    for (int64_t row = 0; row < rows; ++row) {
      std::memset(table.codes(row), 0x22, static_cast<size_t>(table.layout().code_bytes()));
      std::memset(table.scales(row), 0x38, static_cast<size_t>(table.layout().scale_bytes()));
    }
  }

  const Config& config_;
  double (*clock_)();
  ThreadPool threads_;
  Arena scratch_;
  MachineWeights weights_;
};

}  // namespace

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Machine measure_machine(const Config& config, const MeasureOptions& options) {
  const auto report = [&](std::string_view what, double share) {
    if (options.on_progress) {
      options.on_progress(what, share);
    }
  };
  const int64_t available = available_memory_bytes();
  Machine m;
  m.name = cpu_model_name();
  m.threads = {static_cast<double>(options.threads), "threads of this process"};
  m.memory_bytes = {static_cast<double>(available), "available now"};
  m.kernels_source = str_cat("measured now with ", options.threads, " threads, ",
                             isa_name(active_isa()), " kernels");
  report("memory", 0);
  Measuring measuring(config, options, weight_bytes(config, available));
  m.memory_bandwidth = {measuring.memory_bandwidth(), "measured now"};
  report("products", 0.2);
  for (const Kernel kernel : kProducts) {
    m.speed(kernel) = measuring.product_speed(kernel);
  }
  report("attention", 0.7);
  m.speed(Kernel::attention) = measuring.attention_speed();
  m.speed(Kernel::index_scores) = measuring.index_speed();
  m.speed(Kernel::picture_attention) =
      config.vision.layers > 0 ? measuring.picture_speed() : m.speed(Kernel::bf16);
  report("disk", 0.9);
  if (!options.file.empty()) {
    const DiskSpeed disk = measure_disk(options.file, options.threads);
    m.disk_bandwidth = {disk.bytes_per_second, "measured now"};
    m.disk_reads_per_second = {disk.reads_per_second, "measured now"};
  }
  report("done", 1);
  return m;
}

}  // namespace tessera
