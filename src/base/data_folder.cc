#include "base/data_folder.h"

#include <sys/auxv.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/str_cat.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// Where /proc is not mounted, the name that the program was started by has to do.
fs::path program_path() {
  std::error_code error;
  fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    return path;
  }
  const char* name = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  path = name == nullptr ? fs::path() : fs::canonical(name, error);
  return error ? fs::path() : path;
}

}  // namespace

DataPlaces data_places() {
  const char* share = std::getenv("TESSERA_SHARE");
  return {.share = share == nullptr ? "" : share,
          .program_folder = program_path().parent_path().string()};
}

std::vector<std::string> data_folders(const DataPlaces& places) {
  if (!places.share.empty()) {
    return {places.share};
  }
  if (places.program_folder.empty()) {
    return {};
  }
  const fs::path beside = places.program_folder;
  return {(beside / "share" / "tessera").string(),
          (beside.parent_path() / "share" / "tessera").string()};
}

std::string find_data(const DataPlaces& places, std::string_view name, std::string_view instead) {
  std::string looked_in;
  for (const std::string& folder : data_folders(places)) {
    std::error_code error;
    const fs::path found = fs::canonical(fs::path(folder) / name, error);
    if (!error) {
      return found.string();
    }
    looked_in += (looked_in.empty() ? "" : " and ") + folder;
  }
  if (!places.share.empty()) {
    std::error_code error;
    throw Error(
        ErrorCode::bad_file,
        str_cat("TESSERA_SHARE=", places.share, ": ",
                fs::is_directory(places.share, error) ? str_cat("has no ", name)
                                                      : std::string("no such folder"),
                "; expected the folder share/tessera of an installation; unset it or correct it"));
  }
  throw Error(
      ErrorCode::bad_file,
      str_cat(name, ": not found in ",
              looked_in.empty() ? "the unknown folder of the program" : looked_in, "; give ",
              instead, ", or set TESSERA_SHARE to the folder of the program's data"));
}

}  // namespace tessera
