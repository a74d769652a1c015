// Where the weights of a step lie in memory, for the residency (base/residency.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/residency.h"
#include "models/deepseek_v41/model.h"
#include "models/deepseek_v41/step.h"

namespace tessera::deepseek_v41 {

// What every row of a layer reads whatever is picked, in the order of the forward pass: all but the
// routed experts and the rows of an Engram table.
std::vector<ByteSpan> dense_ranges(const Config& config, const LayerWeights& layer);
// Of these, the tensors that are no matrices of ops/linear, which asks for its own.
std::vector<ByteSpan> vector_ranges(const Config& config, const LayerWeights& layer);
// The experts that were picked, in the order in which ops/moe reads them.
std::vector<ByteSpan> expert_ranges(const MoeWeights& weights, std::span<const int32_t> picks);
std::vector<ByteSpan> head_ranges(const Config& config, const Weights& weights);

// What every step reads: dense parts of all layers, and the head.
std::vector<ByteSpan> hot_ranges(const Network& network);
// The most that must be in memory at a time: an expert, a dense matrix, or a layer's vectors; the
// head can be read in parts.
int64_t largest_use_bytes(const Network& network);

// Rows of the embedding and of all Engram tables. ids [step rows, memories, columns].
void expect_embedding_rows(Residency& residency, const Network& network, const StepPlan& plan);
void expect_engram_rows(Residency& residency, const Network& network, int64_t rows,
                        const int64_t* ids);

}  // namespace tessera::deepseek_v41
