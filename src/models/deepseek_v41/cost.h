// What the work of a model costs, from its config.json alone: which matrices are read, how many
// rows go through each, bytes and operations. Nothing here knows a machine; times are made of it in
// runtime/machine_plan.h.
//
// One assumption: every expert is as likely to be picked as any other, and rows pick independently.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/deepseek_v41/config.h"

namespace tessera::deepseek_v41 {

// What a kernel unpacks. Formats of the same width cost about the same.
enum class StoredWidth { bits4, bits8, bits16, bits32 };

// Equal tensors of one layer. Vectors (gains, biases, sinks) have bytes and no values.
struct MatrixWork {
  std::string_view component;  // of component_names()
  StoredWidth stored = StoredWidth::bits16;
  double matrices = 0;  // that are read; of experts the mean
  double values = 0;    // of one: outputs * inputs
  double bytes = 0;     // of one as stored, scales included
  double rows = 0;      // through each; of experts the mean

  double bytes_read() const { return matrices * bytes; }
  double flops() const { return 2 * matrices * values * rows; }
};

// One pass of the model over some rows.
struct StepWork {
  std::vector<MatrixWork> matrices;
  double step_rows = 0;
  double layer_rows = 0;       // rows that leave a layer, summed over the layers
  double attention_flops = 0;  // query . key and weight * value, over window and list
  double attention_rows = 0;   // rows with attention, summed over the layers
  int64_t attention_layers = 0;
  double index_flops = 0;  // scores of index queries against index keys
  double cache_bytes = 0;  // of window rings, compressed entries and index keys, read once
  double table_rows = 0;   // of the Engram tables, at random places
  double table_bytes = 0;  // of these
  double embedding_bytes = 0;

  double matrix_bytes() const;
  double matrix_bytes(std::string_view component) const;
  double matrix_flops() const;
  double bytes() const { return matrix_bytes() + cache_bytes + table_bytes + embedding_bytes; }
  double flops() const { return matrix_flops() + attention_flops + index_flops; }
};

// A picture through the tower and the aligner.
struct PictureWork {
  std::vector<MatrixWork> matrices;
  double attention_flops = 0;
  int64_t patches = 0;
  int64_t tokens = 0;  // of the span, delimiters included

  double flops() const;
};

// Bytes of the checkpoint, by component.
struct StoredComponent {
  std::string_view name;
  int64_t tensors = 0;
  int64_t bytes = 0;
};

class CostModel {
 public:
  explicit CostModel(const Config& config);

  const Config& config() const { return config_; }
  // Those that exist, in the order of component_names().
  const std::vector<StoredComponent>& stored() const { return stored_; }
  int64_t stored_bytes() const;
  int64_t stored_bytes(std::string_view component) const;

  // One token more of each of `sequences` sequences that have `position` tokens.
  StepWork decode(int64_t position, int64_t sequences = 1) const;
  // Positions [first, last) of a prompt of `tokens` tokens, whose last row's logits are wanted; the
  // rows that nobody reads are left out (step.h).
  StepWork prompt_step(int64_t tokens, int64_t first, int64_t last) const;
  // The whole prompt in steps of `step_rows` rows.
  std::vector<StepWork> prompt(int64_t tokens, int64_t step_rows) const;
  PictureWork picture(int64_t grid_rows, int64_t grid_columns) const;

 private:
  // Which rows of a step go through a matrix.
  enum class Rows { all, latents, window, out, index, picks, logits, none };
  struct Matrix {
    std::string_view component;
    int64_t layer = -1;  // -1: of no layer
    Rows rows = Rows::none;
    StoredWidth stored = StoredWidth::bits16;
    int64_t count = 0;  // equal ones: the experts of a layer
    int64_t values = 0;
    int64_t bytes = 0;
  };
  // Equal runs of rows: `sequences` times positions [first, last). `end` is e of the row formula
  // (step.h), with one wanted row.
  struct Shape {
    int64_t first, last, end, sequences;
    int64_t logit_rows;
  };

  static Rows rows_of(std::string_view name);
  // Rows of a run among the last `reach` + 1 positions before its end.
  static int64_t rows_near_end(const Shape& shape, int64_t reach);
  int64_t out_rows(const Shape& shape, int64_t layer) const;
  int64_t window_rows(const Shape& shape, int64_t layer) const;
  bool has_index(const Shape& shape, int64_t layer) const;
  void add_matrix(const Shape& shape, const Matrix& matrix, StepWork& work) const;
  void add_attention(const Shape& shape, int64_t layer, StepWork& work) const;
  StepWork work_of(const Shape& shape) const;

  Config config_;
  std::vector<StoredComponent> stored_;
  std::vector<Matrix> text_;
  std::vector<Matrix> tower_;
};

}  // namespace tessera::deepseek_v41
