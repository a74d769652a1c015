#include "tests/mutations/mutation.h"

#include <cstdlib>
#include <string_view>

namespace tessera::mutations {

bool is_on(const char* name) {
  const char* chosen = std::getenv("TESSERA_MUTATION");
  return chosen != nullptr && std::string_view(chosen) == name;
}

}  // namespace tessera::mutations
