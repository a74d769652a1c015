// Included first into the changed copies of sources; see CMakeLists.txt.
#pragma once

namespace tessera::mutations {

// Whether TESSERA_MUTATION has this name.
bool is_on(const char* name);

}  // namespace tessera::mutations

// Asked once per place.
#define TESSERA_IS_MUTATED(name)                                 \
  ([]() noexcept {                                               \
    static const bool is_on = ::tessera::mutations::is_on(name); \
    return is_on;                                                \
  }())
