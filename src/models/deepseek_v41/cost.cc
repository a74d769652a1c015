#include "models/deepseek_v41/cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>

#include "base/checked_math.h"
#include "base/str_cat.h"
#include "models/deepseek_v41/catalogue.h"
#include "models/deepseek_v41/span.h"
#include "models/deepseek_v41/state.h"
#include "models/deepseek_v41/step.h"
#include "ops/sparse_attention/sparse_attention.h"

namespace tessera::deepseek_v41 {
namespace {

double as_double(int64_t value) { return static_cast<double>(value); }

struct LayerName {
  int64_t layer = -1;
  std::string_view rest;  // behind "layers.N."; the whole name outside the layers
};

LayerName split_name(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  const size_t dot = name.find('.', kLayers.size());
  int64_t layer = 0;
  if (!name.starts_with(kLayers) || dot == std::string_view::npos ||
      !parse_number(name.substr(kLayers.size(), dot - kLayers.size()), layer)) {
    return {-1, name};
  }
  return {layer, name.substr(dot + 1)};
}

// "layers.3.ffn.experts.w1" of "layers.3.ffn.experts.17.w1.scale": a matrix with what belongs to
// it, and equal experts, have one stem.
std::string stem_of(std::string_view name) {
  constexpr std::string_view kExperts = ".experts.";
  std::string stem(name.substr(0, name.rfind('.')));
  if (const size_t at = stem.find(kExperts); at != std::string::npos) {
    const size_t number = at + kExperts.size();
    stem.erase(number, stem.find('.', number) + 1 - number);
  }
  return stem;
}

StoredWidth width_of(DType dtype) {
  switch (dtype_bytes(dtype)) {
    case 1:
      return dtype == DType::f8_e4m3 ? StoredWidth::bits8 : StoredWidth::bits4;
    case 2:
      return StoredWidth::bits16;
    default:
      return StoredWidth::bits32;
  }
}

// outputs * inputs of a tensor that is multiplied with rows; 0 for all others.
int64_t product_values(const TensorSpec& tensor) {
  const bool is_mix = tensor.name.ends_with("_fn");
  const bool is_looked_up = tensor.name.ends_with("embed.weight");
  if (tensor.shape.rank() != 2 || is_looked_up || !(is_mix || tensor.name.ends_with(".weight"))) {
    return 0;
  }
  const int64_t per_element = width_of(tensor.dtype) == StoredWidth::bits4 ? 2 : 1;
  return tensor.shape.elements() * per_element;
}

template <typename Matrices>
double flops_of(const Matrices& matrices) {
  double sum = 0;
  for (const MatrixWork& matrix : matrices) {
    sum += matrix.flops();
  }
  return sum;
}

}  // namespace

double StepWork::matrix_bytes() const {
  double sum = 0;
  for (const MatrixWork& matrix : matrices) {
    sum += matrix.bytes_read();
  }
  return sum;
}

double StepWork::matrix_bytes(std::string_view component) const {
  double sum = 0;
  for (const MatrixWork& matrix : matrices) {
    sum += matrix.component == component ? matrix.bytes_read() : 0;
  }
  return sum;
}

double StepWork::matrix_flops() const { return flops_of(matrices); }

double PictureWork::flops() const { return flops_of(matrices) + attention_flops; }

CostModel::Rows CostModel::rows_of(std::string_view name) {
  struct Rule {
    std::string_view prefix;
    Rows rows;
  };
  // The first prefix of what follows "layers.N." that fits decides.
  constexpr std::array kLayer = {
      Rule{"engram.embed.", Rows::none},
      Rule{"engram.", Rows::all},
      Rule{"attn.compressor.", Rows::all},
      Rule{"attn.indexer.wk.", Rows::latents},
      Rule{"attn.indexer.k_norm.", Rows::latents},
      Rule{"attn.indexer.", Rows::index},
      Rule{"attn.wkv.", Rows::window},
      Rule{"attn.kv_norm.", Rows::window},
      Rule{"ffn.experts.", Rows::picks},
  };
  const LayerName split = split_name(name);
  if (split.layer < 0) {
    return name.starts_with("head.") || name.starts_with("norm.") ? Rows::logits : Rows::none;
  }
  for (const Rule& rule : kLayer) {
    if (split.rest.starts_with(rule.prefix)) {
      return rule.rows;
    }
  }
  return Rows::out;
}

CostModel::CostModel(const Config& config) : config_(config) {
  std::map<std::string_view, StoredComponent> stored;
  std::map<std::string, size_t, std::less<>> known;  // stem -> place in `matrices`
  std::vector<Matrix> matrices;
  for (const TensorSpec& tensor : tensor_catalogue(config)) {
    const std::string_view component = component_of(tensor.name);
    StoredComponent& sum = stored[component];
    ++sum.tensors;
    sum.bytes += tensor.bytes();
    const auto [at, is_new] = known.try_emplace(stem_of(tensor.name), matrices.size());
    if (is_new) {
      matrices.push_back({.component = component,
                          .layer = split_name(tensor.name).layer,
                          .rows = rows_of(tensor.name),
                          .stored = StoredWidth::bits16,
                          .count = 0,
                          .values = 0,
                          .bytes = 0});
    }
    Matrix& matrix = matrices[at->second];
    matrix.bytes += tensor.bytes();
    if (const int64_t values = product_values(tensor); values > 0) {
      matrix.values = values;
      matrix.stored = width_of(tensor.dtype);
      ++matrix.count;
    }
  }
  for (const std::string_view name : component_names()) {
    if (const auto found = stored.find(name); found != stored.end()) {
      stored_.push_back({name, found->second.tensors, found->second.bytes});
    }
  }
  for (Matrix& matrix : matrices) {
    matrix.count = std::max<int64_t>(matrix.count, 1);
    matrix.bytes /= matrix.count;
    const bool is_tower = matrix.component == "vision_tower" || matrix.component == "aligner";
    (is_tower ? tower_ : text_).push_back(matrix);
  }
}

int64_t CostModel::stored_bytes() const {
  int64_t sum = 0;
  for (const StoredComponent& component : stored_) {
    sum += component.bytes;
  }
  return sum;
}

int64_t CostModel::stored_bytes(std::string_view name) const {
  for (const StoredComponent& component : stored_) {
    if (component.name == name) {
      return component.bytes;
    }
  }
  return 0;
}

int64_t CostModel::rows_near_end(const Shape& shape, int64_t reach) {
  return std::max<int64_t>(shape.last - std::max(shape.first, shape.end - reach - 1), 0);
}

int64_t CostModel::out_rows(const Shape& shape, int64_t layer) const {
  return layer < first_thinned_layer(config_)
             ? shape.last - shape.first
             : rows_near_end(shape, (config_.window - 1) * (config_.layers - 1 - layer));
}

int64_t CostModel::window_rows(const Shape& shape, int64_t layer) const {
  return layer < first_thinned_layer(config_)
             ? shape.last - shape.first
             : rows_near_end(shape, (config_.window - 1) * (config_.layers - layer));
}

// Lists are made by scores only where more entries exist than a list has room for, or more
// candidate blocks than are kept.
bool CostModel::has_index(const Shape& shape, int64_t layer) const {
  const int64_t entries = shape.last / std::max<int64_t>(config_.ratio(layer), 1);
  const bool blocks_bind =
      config_.candidate_source >= 0 && layer >= config_.candidate_source &&
      ceil_div(entries, config_.candidate_block_size) > config_.candidate_blocks;
  return config_.is_index_source(layer) && (entries > config_.index_top_k || blocks_bind);
}

void CostModel::add_matrix(const Shape& shape, const Matrix& matrix, StepWork& work) const {
  const int64_t all = shape.last - shape.first;
  const bool is_thinned = config_.kv_sources.empty() || matrix.layer > first_thinned_layer(config_);
  int64_t rows = 0;
  switch (matrix.rows) {
    case Rows::all:
      rows = is_thinned ? window_rows(shape, matrix.layer) : all;
      break;
    case Rows::latents:
      rows = ceil_div(all, config_.ratio(matrix.layer));
      break;
    case Rows::window:
      rows = window_rows(shape, matrix.layer);
      break;
    case Rows::index:
      rows = has_index(shape, matrix.layer) ? out_rows(shape, matrix.layer) : 0;
      break;
    case Rows::out:
    case Rows::picks:
      rows = out_rows(shape, matrix.layer);
      break;
    case Rows::logits:
      rows = shape.logit_rows;
      break;
    case Rows::none:
      break;
  }
  if (rows == 0) {
    return;
  }
  MatrixWork item = {.component = matrix.component,
                     .stored = matrix.stored,
                     .matrices = as_double(matrix.count),
                     .values = as_double(matrix.values),
                     .bytes = as_double(matrix.bytes),
                     .rows = as_double(rows * shape.sequences)};
  if (matrix.rows == Rows::picks) {
    // Of E experts a row misses one with probability 1 - k/E.
    const double share = as_double(config_.active_experts) / item.matrices;
    const double picks = item.rows * as_double(config_.active_experts);
    item.matrices *= 1 - std::pow(1 - share, item.rows);
    item.rows = picks / item.matrices;
  }
  work.matrices.push_back(item);
}

void CostModel::add_attention(const Shape& shape, int64_t layer, StepWork& work) const {
  const Config& c = config_;
  const int64_t ratio = c.ratio(layer);
  const int64_t rows = out_rows(shape, layer);
  if (rows == 0) {
    return;
  }
  const double sequences = as_double(shape.sequences);
  int64_t keys = 0;  // of all rows
  int64_t scored = 0;
  for (int64_t p = shape.last - rows; p < shape.last; ++p) {
    const int64_t visible = ratio > 0 ? (p + 1) / ratio : 0;
    keys += std::min(c.window, p + 1) + std::min(c.index_top_k, visible);
    scored += visible;
  }
  work.attention_flops += sequences * 4 * as_double(c.heads * c.head_dim) * as_double(keys);
  work.attention_rows += sequences * as_double(rows);
  ++work.attention_layers;
  const int64_t ring = std::min(c.window, shape.last) * window_row_bytes(c.head_dim);
  work.cache_bytes += sequences * as_double(ring);
  if (ratio > 0) {
    const int64_t entries = std::min(shape.last / ratio, rows * c.index_top_k);
    const PageLayout layout = {GroupFormat::e2m1_e4m3_16, c.head_dim};
    work.cache_bytes +=
        sequences * as_double(entries * (layout.code_bytes() + layout.scale_bytes()));
  }
  if (has_index(shape, layer)) {
    const PageLayout layout = {GroupFormat::e2m1_e8m0_32, c.index_head_dim};
    work.index_flops +=
        sequences * 2 * as_double(c.index_heads * c.index_head_dim) * as_double(scored);
    work.cache_bytes +=
        sequences * as_double(shape.last / ratio * (layout.code_bytes() + layout.scale_bytes()));
  }
}

StepWork CostModel::work_of(const Shape& shape) const {
  StepWork work;
  const int64_t rows = (shape.last - shape.first) * shape.sequences;
  work.step_rows = as_double(rows);
  for (const Matrix& matrix : text_) {
    add_matrix(shape, matrix, work);
  }
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    add_attention(shape, layer, work);
    work.layer_rows += as_double(out_rows(shape, layer) * shape.sequences);
  }
  work.embedding_bytes = as_double(rows * config_.hidden * dtype_bytes(DType::bf16));
  int64_t table_rows = 0;
  for (const int64_t count : config_.engram.table_rows) {
    table_rows += count;
  }
  if (table_rows > 0) {
    const int64_t memories = static_cast<int64_t>(config_.engram.layers.size());
    work.table_rows = as_double(rows * memories * config_.engram.columns());
    work.table_bytes =
        work.table_rows * as_double(stored_bytes("engram_tables")) / as_double(table_rows);
  }
  return work;
}

StepWork CostModel::decode(int64_t position, int64_t sequences) const {
  return work_of({.first = position,
                  .last = position + 1,
                  .end = position + 1,
                  .sequences = sequences,
                  .logit_rows = 1});
}

StepWork CostModel::prompt_step(int64_t tokens, int64_t first, int64_t last) const {
  return work_of({.first = first,
                  .last = last,
                  .end = tokens,
                  .sequences = 1,
                  .logit_rows = last == tokens ? 1 : 0});
}

std::vector<StepWork> CostModel::prompt(int64_t tokens, int64_t step_rows) const {
  std::vector<StepWork> steps;
  for (int64_t first = 0; first < tokens; first += step_rows) {
    steps.push_back(prompt_step(tokens, first, std::min(tokens, first + step_rows)));
  }
  return steps;
}

PictureWork CostModel::picture(int64_t grid_rows, int64_t grid_columns) const {
  const VisionConfig& v = config_.vision;
  const Grid tokens = {ceil_div(grid_rows, v.downsample), ceil_div(grid_columns, v.downsample)};
  PictureWork work;
  work.patches = grid_rows * grid_columns;
  work.tokens = span_tokens(tokens);
  for (const Matrix& matrix : tower_) {
    const int64_t rows =
        matrix.component == "aligner" ? tokens.rows * tokens.columns : work.patches;
    work.matrices.push_back({.component = matrix.component,
                             .stored = matrix.stored,
                             .matrices = as_double(matrix.count),
                             .values = as_double(matrix.values),
                             .bytes = as_double(matrix.bytes),
                             .rows = as_double(rows)});
  }
  const double patches = as_double(work.patches);
  work.attention_flops = 4 * as_double(v.layers * v.hidden) * patches * patches;
  return work;
}

}  // namespace tessera::deepseek_v41
