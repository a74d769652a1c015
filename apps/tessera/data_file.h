// Data that is shipped with the program: published configurations, shapes of benchmarks.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// The path of a file that lies at `in_source` in the source tree and at share/tessera/`installed`
// in an installation. Looks beside the program and up to four folders above it. Throws
// Error{bad_file} that tells to give `option` instead.
std::string find_data_file(std::string_view in_source, std::string_view installed,
                           std::string_view option);

}  // namespace tessera
