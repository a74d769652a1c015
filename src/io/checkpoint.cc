#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/check.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "io/checkpoint_index.h"
#include "io/safetensors.h"

namespace tessera::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kSuffix = ".safetensors";

// Collects what is wrong, with at most 20 names in all.
class Findings {
 public:
  // `items` are ready for a message.
  void add(std::string_view what, const std::vector<std::string>& items) {
    if (items.empty()) {
      return;
    }
    append_piece(text_, text_.empty() ? "" : "; ");
    append_piece(text_, what);
    append_piece(text_, ": ");
    const size_t shown = std::min(items.size(), budget_);
    budget_ -= shown;
    for (size_t i = 0; i < shown; ++i) {
      append_piece(text_, i == 0 ? "" : ", ");
      append_piece(text_, items[i]);
    }
    if (shown < items.size()) {
      text_ += str_cat(shown == 0 ? "" : " and ", items.size() - shown,
                       shown == 0 ? " of them" : " more");
    }
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  size_t budget_ = 20;
};

[[noreturn]] void fail(const std::string& path, std::string_view what) {
  throw Error(ErrorCode::bad_file, str_cat(path, ": ", what));
}

void check_folder(const std::string& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (!fs::exists(status)) {
    fail(folder, status.type() == fs::file_type::not_found
                     ? "no such folder; give the folder of a checkpoint"
                     : str_cat("cannot be read: ", error.message()));
  }
  if (!fs::is_directory(status)) {
    fail(folder, "is a file, expected the folder of a checkpoint");
  }
}

// Sorted names of the files in `folder` that end in `suffix`; none if it cannot be listed.
std::vector<std::string> names_with_suffix(const fs::path& folder, std::string_view suffix) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.ends_with(suffix)) {
      names.push_back(std::move(name));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> all_quoted(std::vector<std::string> names) {
  for (std::string& name : names) {
    name = tessera::quoted(name);
  }
  return names;
}

// Where the Hugging Face tools keep downloads that have not finished: beside the files, in the
// cache of a local folder, or in the blobs of a snapshot.
void add_incomplete_downloads(const std::string& folder, Findings& findings) {
  std::vector<std::string> all;
  for (const char* place : {".", ".cache/huggingface/download", "../../blobs"}) {
    for (std::string& name : names_with_suffix(fs::path(folder) / place, ".incomplete")) {
      all.push_back(std::move(name));
    }
  }
  findings.add("unfinished downloads", all_quoted(std::move(all)));
}

std::optional<CheckpointIndex> read_index(const std::string& folder) {
  const std::string path = str_cat(folder, "/", kIndexName);
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) {
    return std::nullopt;
  }
  const MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  return parse_checkpoint_index({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

std::string single_file_name(const std::string& folder) {
  const std::vector<std::string> names = names_with_suffix(folder, kSuffix);
  Findings findings;
  if (names.empty()) {
    add_incomplete_downloads(folder, findings);
    fail(folder,
         str_cat("has neither ", kIndexName, " nor a *.safetensors file",
                 findings.text().empty() ? "; is this the folder of a checkpoint?"
                                         : "; " + findings.text() + "; finish the download"));
  }
  if (names.size() > 1) {
    findings.add("found", all_quoted(names));
    fail(folder, str_cat("has ", names.size(), " *.safetensors files but no ", kIndexName, "; ",
                         findings.text(), "; download the index too"));
  }
  return names[0];
}

std::vector<std::string> shard_names(const CheckpointIndex& index) {
  std::vector<std::string> names;
  for (const CheckpointIndex::Tensor& tensor : index.tensors) {
    if (names.empty() || names.back() != tensor.shard) {
      names.push_back(tensor.shard);
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

void check_shards_exist(const std::string& folder, const std::vector<std::string>& shards,
                        bool is_indexed) {
  std::vector<std::string> missing;
  for (const std::string& shard : shards) {
    std::error_code error;
    if (!fs::exists(fs::path(folder) / shard, error) && !error) {  // a broken link is missing too
      missing.push_back(shard);
    }
  }
  if (missing.empty()) {
    return;
  }
  Findings findings;
  findings.add(is_indexed ? str_cat(missing.size(), " of ", shards.size(), " shards that ",
                                    kIndexName, " names are missing")
                          : "missing (a link whose target does not exist)",
               all_quoted(missing));
  add_incomplete_downloads(folder, findings);
  fail(folder, findings.text() + "; finish the download");
}

// A tensor of an opened file.
struct Found {
  std::string_view name;
  size_t file;
  size_t tensor;
};

// All tensors of `files`, by name.
std::vector<Found> list_tensors(const std::vector<SafetensorsFile>& files) {
  std::vector<Found> found;
  for (size_t file = 0; file < files.size(); ++file) {
    const std::vector<TensorEntry>& tensors = files[file].tensors();
    for (size_t tensor = 0; tensor < tensors.size(); ++tensor) {
      found.push_back({tensors[tensor].name, file, tensor});
    }
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    const int compared = a.name.compare(b.name);
    return compared < 0 || (compared == 0 && a.file < b.file);
  });
  return found;
}

void compare_with_index(CheckpointIndex index, const std::vector<std::string>& shards,
                        const std::vector<Found>& found, Findings& findings) {
  std::sort(index.tensors.begin(), index.tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  std::vector<std::string> absent;
  std::vector<std::string> elsewhere;
  std::vector<std::string> unnamed;
  size_t at = 0;  // in found
  for (const CheckpointIndex::Tensor& tensor : index.tensors) {
    for (; at < found.size() && found[at].name < tensor.name; ++at) {
      unnamed.push_back(str_cat(tessera::quoted(found[at].name), " in ",
                                tessera::quoted(shards[found[at].file])));
    }
    bool is_there = false;
    const size_t first = at;
    for (; at < found.size() && found[at].name == tensor.name; ++at) {
      is_there = is_there || shards[found[at].file] == tensor.shard;
    }
    if (!is_there && at > first) {
      elsewhere.push_back(str_cat(tessera::quoted(tensor.name), " is in ",
                                  tessera::quoted(shards[found[first].file]), ", not in ",
                                  tessera::quoted(tensor.shard)));
    } else if (!is_there) {
      absent.push_back(
          str_cat(tessera::quoted(tensor.name), " in ", tessera::quoted(tensor.shard)));
    }
  }
  for (; at < found.size(); ++at) {
    unnamed.push_back(
        str_cat(tessera::quoted(found[at].name), " in ", tessera::quoted(shards[found[at].file])));
  }
  findings.add(str_cat(absent.size(), " tensors that the index names are in no shard"), absent);
  findings.add(str_cat(elsewhere.size(), " tensors are in another shard than the index says"),
               elsewhere);
  findings.add(str_cat(unnamed.size(), " tensors are not in the index"), unnamed);
}

void find_duplicates(const std::vector<Found>& found, const std::vector<std::string>& shards,
                     Findings& findings) {
  std::vector<std::string> twice;
  for (size_t i = 1; i < found.size(); ++i) {
    if (found[i].name == found[i - 1].name) {
      twice.push_back(str_cat(tessera::quoted(found[i].name), " in ",
                              tessera::quoted(shards[found[i - 1].file]), " and ",
                              tessera::quoted(shards[found[i].file])));
    }
  }
  findings.add(str_cat(twice.size(), " tensors appear twice"), twice);
}

}  // namespace

Checkpoint::Checkpoint(const std::string& folder) : folder_(folder) {
  check_folder(folder);
  std::optional<CheckpointIndex> index = read_index(folder);
  const std::vector<std::string> shards =
      index.has_value() ? shard_names(*index) : std::vector{single_file_name(folder)};
  check_shards_exist(folder, shards, index.has_value());
  for (const std::string& shard : shards) {
    files_.emplace_back(str_cat(folder, "/", shard));
    for (const TensorEntry& tensor : files_.back().tensors()) {
      total_bytes_ += tensor.end - tensor.begin;
    }
  }
  const std::vector<Found> found = list_tensors(files_);
  Findings findings;
  if (index.has_value()) {
    const std::optional<int64_t> total_size = index->total_size;
    find_duplicates(found, shards, findings);
    compare_with_index(std::move(*index), shards, found, findings);
    if (total_size.has_value() && *total_size != total_bytes_) {
      findings.add(
          "metadata.total_size differs",
          {str_cat("the index says ", *total_size, " bytes, the tensors have ", total_bytes_)});
    }
  }
  if (!findings.text().empty()) {
    fail(folder, str_cat("the shards do not match ", kIndexName, ": ", findings.text(),
                         "; download the folder again"));
  }
  for (const Found& tensor : found) {
    by_name_.emplace_hint(by_name_.end(), tensor.name, Place{tensor.file, tensor.tensor});
  }
}

const TensorEntry* Checkpoint::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr
                                 : &files_[found->second.file].tensors()[found->second.tensor];
}

std::string Checkpoint::file_name(std::string_view name) const {
  const auto found = by_name_.find(name);
  TESSERA_CHECK(found != by_name_.end());
  return fs::path(files_[found->second.file].file().path()).filename().string();
}

TensorView Checkpoint::view(std::string_view name) const {
  const auto found = by_name_.find(name);
  TESSERA_CHECK(found != by_name_.end());
  const SafetensorsFile& file = files_[found->second.file];
  return file.view(file.tensors()[found->second.tensor]);
}

std::vector<std::string_view> Checkpoint::names() const {
  std::vector<std::string_view> names;
  names.reserve(by_name_.size());
  for (const auto& [name, place] : by_name_) {
    names.push_back(name);
  }
  return names;
}

}  // namespace tessera::io
