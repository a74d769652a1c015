// Whether a test is built with the address sanitizer. It keeps freed memory and descriptors of its
// own and turns mlock() off: what the process holds says nothing of the program then.
#pragma once

namespace tessera::test {

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kHasAddressSanitizer = true;
#else
inline constexpr bool kHasAddressSanitizer = false;
#endif

}  // namespace tessera::test
