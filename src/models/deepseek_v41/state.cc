#include "models/deepseek_v41/state.h"

#include <algorithm>

#include "base/checked_math.h"
#include "ops/engram/engram.h"
#include "ops/sparse_attention/sparse_attention.h"

namespace tessera::deepseek_v41 {
namespace {

// Pages that `tokens` tokens of one sequence fill, over all sources; a second sequence may leave
// every last page half empty, which callers add.
int64_t pages_for(const Config& config, int64_t tokens) {
  int64_t pages = 0;
  for (const int64_t layer : config.kv_sources) {
    pages += ceil_div(ceil_div(tokens, config.ratio(layer)), kPageRows) + 1;
  }
  return pages;
}

}  // namespace

CachePools::CachePools(const Config& config, int64_t tokens)
    : kv({GroupFormat::e2m1_e4m3_16, config.head_dim}, pages_for(config, tokens)),
      index_keys({GroupFormat::e2m1_e8m0_32, config.index_head_dim}, pages_for(config, tokens)) {}

int64_t ring_layer_bytes(const Config& config) {
  return config.window * window_row_bytes(config.head_dim);
}

int64_t open_group_offset(const Config& config, int64_t source, int64_t slot) {
  return (source * kMaxRatio + slot) * 2 * config.head_dim;
}

SequenceState::SequenceState(const Config& config, CachePools& pools)
    : rings(static_cast<size_t>(config.layers * ring_layer_bytes(config))),
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

int64_t SequenceState::bytes() const {
  int64_t total = static_cast<int64_t>(rings.size() + open_groups.size() * sizeof(float) +
                                       history.size() * sizeof(int32_t));
  for (const std::vector<PageTable>* tables : {&kv, &index_keys}) {
    for (const PageTable& table : *tables) {
      total += table.page_count() * table.layout().page_bytes();
    }
  }
  return total;
}

}  // namespace tessera::deepseek_v41
