#include "models/deepseek_v41/state.h"

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/engram/engram.h"
#include "ops/sparse_attention/sparse_attention.h"

namespace tessera::deepseek_v41 {
namespace {

PageLayout kv_layout(const Config& config) { return {GroupFormat::e2m1_e4m3_16, config.head_dim}; }
PageLayout index_key_layout(const Config& config) {
  return {GroupFormat::e2m1_e8m0_32, config.index_head_dim};
}
// Of a page of each pool.
int64_t both_page_bytes(const Config& config) {
  return kv_layout(config).page_bytes() + index_key_layout(config).page_bytes();
}

// Writes or reads one value after the other. Both directions share the walk over the state below.
class ByteWriter {
 public:
  void bytes(std::byte* data, size_t size) { out_.insert(out_.end(), data, data + size); }
  std::vector<std::byte> take() { return std::move(out_); }

 private:
  std::vector<std::byte> out_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> in) : in_(in) {}
  void bytes(std::byte* data, size_t size) {
    if (size > in_.size()) {
      refuse();
    }
    std::memcpy(data, in_.data(), size);
    in_ = in_.subspan(size);
  }
  void finish() const {
    if (!in_.empty()) {
      refuse();
    }
  }

 private:
  [[noreturn]] static void refuse() {
    throw Error(ErrorCode::bad_file,
                "a saved sequence state does not fit this model; it was saved by another one");
  }
  std::span<const std::byte> in_;
};

template <typename Stream, typename T>
void value(Stream& stream, T& item) {
  stream.bytes(reinterpret_cast<std::byte*>(&item), sizeof(T));
}

template <typename Stream, typename T>
void values(Stream& stream, std::vector<T>& items) {
  stream.bytes(reinterpret_cast<std::byte*>(items.data()), items.size() * sizeof(T));
}

template <typename Stream>
void page_rows(Stream& stream, const PageTable& table, int64_t first, int64_t end) {
  for (int64_t row = first; row < end; ++row) {
    stream.bytes(table.codes(row), static_cast<size_t>(table.layout().code_bytes()));
    stream.bytes(table.scales(row), static_cast<size_t>(table.layout().scale_bytes()));
  }
}

// Everything but the position, which a reader needs first, and the page rows of `shared` tokens.
template <typename Stream>
void walk(Stream& stream, const Config& config, SequenceState& state, int64_t shared) {
  values(stream, state.rings);
  values(stream, state.ring_begin);
  values(stream, state.open_groups);
  values(stream, state.history);
  value(stream, state.index_slot);
  value(stream, state.sampled);
  for (size_t source = 0; source < state.kv.size(); ++source) {
    const int64_t ratio = config.ratio(config.kv_sources[source]);
    page_rows(stream, state.kv[source], shared / ratio, state.position / ratio);
    page_rows(stream, state.index_keys[source], shared / ratio, state.position / ratio);
  }
}

}  // namespace

CachePools::CachePools(const Config& config, int64_t tokens)
    : kv(kv_layout(config), pages_of_run(config, tokens)),
      index_keys(index_key_layout(config), pages_of_run(config, tokens)) {}

int64_t pages_of_run(const Config& config, int64_t rows) {
  int64_t pages = 0;
  for (const int64_t layer : config.kv_sources) {
    pages += ceil_div(ceil_div(rows, config.ratio(layer)), kPageRows) + 1;  // one begun or copied
  }
  return pages;
}

int64_t cache_pool_bytes(const Config& config, int64_t tokens) {
  return pages_of_run(config, tokens) * both_page_bytes(config);
}

double page_bytes_per_token(const Config& config) {
  double bytes = 0;
  for (const int64_t layer : config.kv_sources) {
    bytes += static_cast<double>(both_page_bytes(config)) /
             static_cast<double>(kPageRows * config.ratio(layer));
  }
  return bytes;
}

int64_t ring_layer_bytes(const Config& config) {
  return config.window * window_row_bytes(config.head_dim);
}

int64_t open_group_offset(const Config& config, int64_t source, int64_t slot) {
  return (source * kMaxRatio + slot) * 2 * config.head_dim;
}

SequenceState::SequenceState(const Config& config, CachePools& pools)
    : rings(static_cast<size_t>(config.layers * ring_layer_bytes(config))),
      ring_begin(static_cast<size_t>(config.layers), 0),
      kv(config.kv_sources.size(), PageTable(&pools.kv)),
      index_keys(config.kv_sources.size(), PageTable(&pools.index_keys)),
      open_groups(static_cast<size_t>(
          open_group_offset(config, static_cast<int64_t>(config.kv_sources.size()), 0))),
      history(static_cast<size_t>(std::max<int64_t>(config.engram.max_ngram - 1, 0)), kDeadClass) {}

void SequenceState::prepare(const Config& config, int64_t rows) {
  for (size_t source = 0; source < kv.size(); ++source) {
    const int64_t ratio = config.ratio(config.kv_sources[source]);
    const int64_t before = position / ratio;
    const int64_t more = (position + rows) / ratio - before;
    kv[source].prepare_append(before, more);
    index_keys[source].prepare_append(before, more);
  }
}

void SequenceState::reserve(const Config& config, int64_t tokens) {
  for (size_t source = 0; source < kv.size(); ++source) {
    const int64_t rows = tokens / config.ratio(config.kv_sources[source]);
    kv[source].reserve(rows);
    index_keys[source].reserve(rows);
  }
}

bool SequenceState::is_complete(const Config& config) const {
  const int64_t first_read = std::max<int64_t>(position - config.window + 1, 0);
  return std::all_of(ring_begin.begin(), ring_begin.end(),
                     [first_read](int64_t begin) { return begin <= first_read; });
}

int64_t SequenceState::bytes() const {
  int64_t total =
      static_cast<int64_t>(rings.size() + ring_begin.size() * sizeof(int64_t) +
                           open_groups.size() * sizeof(float) + history.size() * sizeof(int32_t));
  for (const std::vector<PageTable>* tables : {&kv, &index_keys}) {
    for (const PageTable& table : *tables) {
      total += table.page_count() * table.layout().page_bytes();
    }
  }
  return total;
}

void SequenceState::truncate_pages(const Config& config, int64_t tokens) {
  for (size_t source = 0; source < kv.size(); ++source) {
    const int64_t rows = tokens / config.ratio(config.kv_sources[source]);
    kv[source].truncate(rows);
    index_keys[source].truncate(rows);
  }
}

std::vector<std::byte> SequenceState::serialise(const Config& config,
                                                const SequenceState* base) const {
  SequenceState copy = *this;  // shares the pages
  ByteWriter writer;
  value(writer, copy.position);
  walk(writer, config, copy, base != nullptr ? base->position : 0);
  return writer.take();
}

SequenceState SequenceState::deserialise(const Config& config, CachePools& pools,
                                         std::span<const std::byte> bytes,
                                         const SequenceState* base) {
  SequenceState state = base != nullptr ? *base : SequenceState(config, pools);
  const int64_t shared = state.position;
  ByteReader reader(bytes);
  int64_t saved = 0;
  value(reader, saved);
  // A row of a source is at least one byte, so a position beyond the bytes is none.
  if (saved < shared || saved > shared + static_cast<int64_t>(bytes.size()) * kMaxRatio) {
    throw Error(ErrorCode::bad_file, str_cat("a saved sequence state has position ", saved));
  }
  state.prepare(config, saved - shared);
  state.position = saved;
  walk(reader, config, state, shared);
  reader.finish();
  return state;
}

}  // namespace tessera::deepseek_v41
