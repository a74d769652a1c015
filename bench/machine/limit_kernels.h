// The loops whose speed is a limit. Each returns something that depends on its work.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::bench {

// `steps` steps of independent chains: 12 registers of the level, or 16 of 4 lanes for the
// reference, where the product and the sum are apart.
float fma_chains_reference(int64_t steps) noexcept;
float fma_chains_avx2(int64_t steps) noexcept;
float fma_chains_avx512(int64_t steps) noexcept;
float dot_chains_avx512(int64_t steps) noexcept;

// Reads `bytes` (a multiple of 512) front to back.
uint64_t read_bytes_reference(const std::byte* data, int64_t bytes) noexcept;
uint64_t read_bytes_avx2(const std::byte* data, int64_t bytes) noexcept;
uint64_t read_bytes_avx512(const std::byte* data, int64_t bytes) noexcept;

}  // namespace tessera::bench
