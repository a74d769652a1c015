#include <algorithm>

#include "base/str_cat.h"
#include "runtime/engine.h"

namespace tessera {
namespace {

constexpr double kMebibyte = 1024.0 * 1024.0;

std::string mebibytes(int64_t bytes) {
  const int64_t tenths = static_cast<int64_t>(static_cast<double>(bytes) / kMebibyte * 10 + 0.5);
  const std::string digits = str_cat(tenths / 10, ".", tenths % 10, " MiB");
  return std::string(std::max<size_t>(14, digits.size()) - digits.size(), ' ') + digits;
}

}  // namespace

int64_t MemoryPlan::bytes() const {
  int64_t total = 0;
  for (const Part& part : parts) {
    total += part.bytes;
  }
  return total;
}

std::string MemoryPlan::text() const {
  std::string lines;
  for (const Part& part : parts) {
    lines += str_cat(mebibytes(part.bytes), "  ", part.name, ": ", part.what, "\n");
  }
  return str_cat(lines, mebibytes(bytes()), "  together\n");
}

}  // namespace tessera
