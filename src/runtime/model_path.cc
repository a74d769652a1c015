// Which folder a --model argument means.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/data_folder.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "runtime/engine.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path hub_cache() {
  if (const std::string cache = environment("HF_HUB_CACHE"); !cache.empty()) {
    return cache;
  }
  if (const std::string home = environment("HF_HOME"); !home.empty()) {
    return fs::path(home) / "hub";
  }
  return fs::path(environment("HOME")) / ".cache" / "huggingface" / "hub";
}

// HUB/models--org--name/snapshots/<commit of refs/main>
fs::path snapshot_of(const std::string& name) {
  std::string folder = "models--" + name;
  folder.replace(folder.find('/'), 1, "--");
  const fs::path base = hub_cache() / folder;
  std::ifstream ref(base / "refs" / "main");
  std::string commit;
  if (!(ref >> commit)) {
    throw Error(
        ErrorCode::bad_file,
        str_cat("--model ", name, ": neither a folder nor in the local cache (", base.string(),
                "); download it first with the Hugging Face command line tool"));
  }
  const fs::path snapshot = base / "snapshots" / commit;
  std::error_code error;  // a name too long is no folder either
  if (!fs::is_directory(snapshot, error)) {
    throw Error(ErrorCode::bad_file,
                str_cat("--model ", name, ": the cache names commit ", commit, " but ",
                        snapshot.string(), " is missing; download the model again"));
  }
  return snapshot;
}

}  // namespace

std::string resolve_model(const std::string& model) {
  if (model.empty()) {
    return find_data(data_places(), "models/demo", "--model DIR");
  }
  if (fs::is_directory(model)) {
    if (!fs::exists(fs::path(model) / "config.json")) {
      throw Error(
          ErrorCode::bad_file,
          str_cat("--model ", model, ": no config.json in this folder; expected a checkpoint"));
    }
    return model;
  }
  const size_t slash = model.find('/');
  const bool is_name = slash != std::string::npos && slash > 0 &&
                       model.find('/', slash + 1) == std::string::npos && model.front() != '.' &&
                       slash + 1 < model.size();
  if (!is_name) {
    throw Error(ErrorCode::bad_file,
                str_cat("--model ", model, ": no such folder; expected a folder or org/name"));
  }
  return snapshot_of(model);
}

}  // namespace tessera
