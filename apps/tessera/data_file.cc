#include "data_file.h"

#include <filesystem>

#include "base/error.h"
#include "base/str_cat.h"

namespace tessera {

std::string find_data_file(std::string_view in_source, std::string_view installed,
                           std::string_view option) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (int level = 0; level < 5 && !folder.empty(); ++level) {
    for (const fs::path& candidate :
         {folder / "share" / "tessera" / installed, folder / in_source}) {
      if (fs::is_regular_file(candidate, error)) {
        return candidate.string();
      }
    }
    folder = folder.parent_path();
  }
  throw Error(ErrorCode::bad_file,
              str_cat(in_source, " was not found beside the program; name it with ", option));
}

}  // namespace tessera
