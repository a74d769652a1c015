// Checks for bugs in our own code. Outside input never reaches them: it ends in tessera::Error.
#pragma once

namespace tessera {

// Prints `file:line: check failed: expression` and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* expression);

}  // namespace tessera

#define TESSERA_CHECK(condition)                               \
  do {                                                         \
    if (!(condition)) [[unlikely]] {                           \
      ::tessera::check_failed(__FILE__, __LINE__, #condition); \
    }                                                          \
  } while (false)

#ifdef NDEBUG
#define TESSERA_DCHECK(condition) \
  do {                            \
  } while (false)
#else
#define TESSERA_DCHECK(condition) TESSERA_CHECK(condition)
#endif

#define TESSERA_UNREACHABLE() ::tessera::check_failed(__FILE__, __LINE__, "unreachable")
