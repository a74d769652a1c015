#include "base/cpu.h"

#include <cpuid.h>
#include <xmmintrin.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "base/str_cat.h"

namespace tessera {
namespace {

constexpr std::array<IsaLevel, 3> kLevels = {IsaLevel::reference, IsaLevel::avx2, IsaLevel::avx512};
constexpr unsigned int kFlushToZero = 0x8000;
constexpr unsigned int kDenormalsAreZero = 0x0040;

struct Leaf {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Leaf cpuid(uint32_t leaf, uint32_t subleaf) {
  Leaf r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) {
    return {};
  }
  return r;
}

bool bit(uint32_t word, int index) { return ((word >> index) & 1U) != 0; }

// Register state that the operating system saves: XCR0. Needs OSXSAVE.
uint64_t xcr0() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

IsaLevel detect() {
  const Leaf one = cpuid(1, 0);
  if (!bit(one.ecx, 27) || !bit(one.ecx, 28)) {  // OSXSAVE, AVX
    return IsaLevel::reference;
  }
  const uint64_t saved = xcr0();
  const Leaf seven = cpuid(7, 0);
  const Leaf seven_one = cpuid(7, 1);
  const bool has_avx2 = (saved & 0x6) == 0x6 && bit(one.ecx, 12) && bit(one.ecx, 29) &&
                        bit(seven.ebx, 5);  // FMA, F16C, AVX2
  if (!has_avx2) {
    return IsaLevel::reference;
  }
  const bool has_avx512 = (saved & 0xe6) == 0xe6 && bit(seven.ebx, 16) && bit(seven.ebx, 17) &&
                          bit(seven.ebx, 30) && bit(seven.ebx, 31) &&
                          bit(seven_one.eax, 5);  // F, DQ, BW, VL, BF16
  return has_avx512 ? IsaLevel::avx512 : IsaLevel::avx2;
}

IsaLevel choose() {
  const IsaLevel best = detected_isa();
  const char* forced = std::getenv("TESSERA_FORCE_ISA");
  if (forced == nullptr || *forced == '\0') {
    return best;
  }
  for (const IsaLevel level : kLevels) {
    if (isa_name(level) == forced) {
      if (level > best) {
        throw Error(ErrorCode::bad_request,
                    str_cat("TESSERA_FORCE_ISA=", forced, ": this machine supports at most ",
                            isa_name(best), "; unset it or name a lower level"));
      }
      return level;
    }
  }
  throw Error(ErrorCode::bad_request,
              str_cat("TESSERA_FORCE_ISA=", forced, ": expected reference, avx2 or avx512"));
}

}  // namespace

std::string_view isa_name(IsaLevel level) {
  switch (level) {
    case IsaLevel::reference:
      return "reference";
    case IsaLevel::avx2:
      return "avx2";
    case IsaLevel::avx512:
      return "avx512";
  }
  return "unknown";
}

IsaLevel detected_isa() {
  static const IsaLevel level = detect();
  return level;
}

std::span<const IsaLevel> supported_isas() {
  return std::span<const IsaLevel>(kLevels).first(static_cast<size_t>(detected_isa()) + 1);
}

IsaLevel active_isa() {
  static const IsaLevel level = choose();
  return level;
}

std::string cpu_model_name() {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  while (std::getline(info, line)) {
    if (line.rfind("model name", 0) == 0) {
      const size_t colon = line.find(": ");
      return colon == std::string::npos ? "unknown" : line.substr(colon + 2);
    }
  }
  return "unknown";
}

ScopedFlushSubnormals::ScopedFlushSubnormals() : saved_(_mm_getcsr()) {
  _mm_setcsr(saved_ | kFlushToZero | kDenormalsAreZero);
}

ScopedFlushSubnormals::~ScopedFlushSubnormals() { _mm_setcsr(saved_); }

}  // namespace tessera
