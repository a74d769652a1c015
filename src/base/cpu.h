// What the processor can do, and the kernel level the process uses.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tessera {

// Kernel levels. Each one computes the same bits; a higher one is faster.
enum class IsaLevel {
  reference,  // plain C++, any x86-64
  avx2,       // AVX2, FMA, F16C
  avx512,     // AVX-512 F, BW, DQ, VL and BF16
};

std::string_view isa_name(IsaLevel level);

// Highest level that the processor and the operating system (XCR0) support.
IsaLevel detected_isa();

// All levels from reference up to detected_isa().
std::span<const IsaLevel> supported_isas();

// The level in use: detected_isa(), or what TESSERA_FORCE_ISA=reference|avx2|avx512 asks for.
// Throws Error{bad_request} for an unknown or unsupported value. Decided once per process.
IsaLevel active_isa();

// Model name of the processor as the system reports it, or "unknown".
std::string cpu_model_name();

// Flush-to-zero and denormals-are-zero on the calling thread while it lives. vdpbf16ps always works
// like this, so every kernel does: results are then equal on every level.
class ScopedFlushSubnormals {
 public:
  ScopedFlushSubnormals();
  ~ScopedFlushSubnormals();
  ScopedFlushSubnormals(const ScopedFlushSubnormals&) = delete;
  ScopedFlushSubnormals& operator=(const ScopedFlushSubnormals&) = delete;

 private:
  unsigned int saved_;
};

}  // namespace tessera
