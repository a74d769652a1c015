#include "ops/embedding/embedding.h"

#include <cstring>

namespace tessera {

void embed(ExecContext& ctx, const std::byte* table, const int32_t* ids,
           const std::byte* const* rows, int64_t count, int64_t width, bf16* y) {
  const int64_t row_bytes = width * 2;
  ctx.threads.parallel_for(count, [&](int64_t row, int) {
    const std::byte* source = rows[row] != nullptr ? rows[row] : table + ids[row] * row_bytes;
    std::memcpy(y + row * width, source, static_cast<size_t>(row_bytes));
  });
}

}  // namespace tessera
