// What a test is built with.
#pragma once

namespace tessera::test {

// The address sanitizer keeps freed memory and descriptors of its own and turns mlock() off: what
// the process holds says nothing of the program then.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kHasAddressSanitizer = true;
#else
inline constexpr bool kHasAddressSanitizer = false;
#endif

// The thread sanitizer sees a race without it having to go wrong: fewer rounds are as good, and all
// are ten times as slow.
#ifdef __SANITIZE_THREAD__
inline constexpr bool kHasThreadSanitizer = true;
#else
inline constexpr bool kHasThreadSanitizer = false;
#endif

}  // namespace tessera::test
