#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tessera {

void check_failed(const char* file, int line, const char* expression) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, expression);
  std::abort();
}

}  // namespace tessera
