// Rows of an embedding table, or rows that the caller has instead (image features, learned
// vectors).
#pragma once

#include <cstdint>

#include "base/float_types.h"
#include "tensor/exec_context.h"

namespace tessera {

// y[r] = rows[r] != nullptr ? *rows[r] : table[ids[r]].   table bf16 [vocab, width] and rows[r]
// [width] of any alignment; ids in [0, vocab) wherever rows[r] is null. y [rows, width].
void embed(ExecContext& ctx, const std::byte* table, const int32_t* ids,
           const std::byte* const* rows, int64_t count, int64_t width, bf16* y);

}  // namespace tessera
