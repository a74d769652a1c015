#include "checkpoint_folder.h"

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/output_file.h"
#include "base/str_cat.h"

namespace tessera {

namespace fs = std::filesystem;

bool is_same_folder(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return fs::equivalent(a.empty() ? "." : a, b.empty() ? "." : b, ignored);
}

void require_space(const std::string& folder, int64_t needed, int64_t reusable,
                   std::string_view advice) {
  std::error_code error;
  fs::path place = fs::absolute(folder);
  while (!fs::exists(place, error) && place.has_relative_path()) {
    place = place.parent_path();
  }
  const fs::space_info space = fs::space(place, error);
  if (error) {
    throw Error(ErrorCode::io, str_cat(folder, ": cannot tell the free space of ", place.string(),
                                       ": ", error.message()));
  }
  const int64_t available = static_cast<int64_t>(std::min<uintmax_t>(
                                space.available, static_cast<uintmax_t>(INT64_MAX / 2))) +
                            reusable;
  if (needed > available) {
    throw Error(ErrorCode::io, str_cat(folder, ": the checkpoint needs ", needed, " bytes, ",
                                       available, " are available; ", advice));
  }
}

std::string read_whole_file(const std::string& path) {
  const MappedFile file(path);
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

void write_whole_file(const std::string& path, std::string_view text) {
  OutputFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace tessera
