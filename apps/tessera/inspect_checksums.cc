#include "inspect_checksums.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "interrupt.h"
#include "io/sha256.h"
#include "output.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr size_t kDigits = 64;
constexpr size_t kPieceBytes = size_t{4} << 20;   // between two looks at the interrupt flag
constexpr uintmax_t kMostSumsBytes = 16U << 20U;  // of SHA256SUMS
constexpr size_t kMostNames = 20;                 // spelled out in a message

// Lower case if `text` is a SHA-256 in hexadecimal; empty otherwise.
std::string as_sha256(std::string_view text) {
  if (text.size() != kDigits) {
    return "";
  }
  std::string digits;
  for (const char c : text) {
    const bool is_upper = c >= 'A' && c <= 'F';
    if (!is_upper && !(c >= 'a' && c <= 'f') && !(c >= '0' && c <= '9')) {
      return "";
    }
    digits.push_back(is_upper ? static_cast<char>(c - 'A' + 'a') : c);
  }
  return digits;
}

// Lines "DIGITS  NAME" or "DIGITS *NAME", by name.
std::map<std::string, std::string> read_sums(const std::string& path) {
  std::map<std::string, std::string> sums;
  std::error_code error;
  if (!fs::exists(path, error)) {
    return sums;
  }
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) > kMostSumsBytes) {
    throw Error(ErrorCode::bad_file,
                str_cat(path, ": expected a text file as sha256sum writes it"));
  }
  std::ifstream file(path, std::ios::binary);
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const std::string digits = as_sha256(std::string_view(line).substr(0, kDigits));
    const std::string_view rest = std::string_view(line).substr(std::min(kDigits, line.size()));
    if (digits.empty() || rest.size() < 3 || rest[0] != ' ' || (rest[1] != ' ' && rest[1] != '*')) {
      throw Error(ErrorCode::bad_file,
                  str_cat(path, ":", number, ": ", tessera::quoted(line),
                          " is no line of sha256sum; expected 64 digits, two blanks and a name"));
    }
    std::string_view name = rest.substr(2);
    if (name.starts_with("./")) {
      name.remove_prefix(2);
    }
    sums[std::string(name)] = digits;
  }
  return sums;
}

std::string blob_name(const fs::path& file) {
  std::error_code error;
  const fs::path target = fs::read_symlink(file, error);
  return error ? "" : as_sha256(target.filename().string());
}

// Commit, entity tag (of a large file: its SHA-256) and time, a line each.
std::string download_note(const fs::path& file) {
  std::ifstream note(file.parent_path() / ".cache" / "huggingface" / "download" /
                     (file.filename().string() + ".metadata"));
  std::string commit, tag;
  return note >> commit >> tag ? as_sha256(tag) : "";
}

struct Expected {
  const MappedFile* file;
  std::string digits;
};

// The checksum of every weight file, and where they come from.
std::vector<Expected> find_checksums(const io::Checkpoint& checkpoint, std::string& source) {
  const std::string sums_path = checkpoint.folder() + "/SHA256SUMS";
  const std::map<std::string, std::string> sums = read_sums(sums_path);
  std::vector<Expected> all;
  std::vector<std::string> unknown;
  std::set<std::string> sources;
  for (const io::SafetensorsFile& file : checkpoint.files()) {
    const fs::path path = file.file().path();
    std::string digits, from;
    if (const auto listed = sums.find(path.filename().string()); listed != sums.end()) {
      digits = listed->second;
      from = "SHA256SUMS";
    } else if (digits = blob_name(path); !digits.empty()) {
      from = "the names of the cache's blobs";
    } else if (digits = download_note(path); !digits.empty()) {
      from = "the notes of the download tool";
    } else {
      unknown.push_back(tessera::quoted(path.filename().string()));
    }
    all.push_back({&file.file(), digits});
    sources.insert(from);
  }
  if (!unknown.empty()) {
    std::string names;
    for (size_t i = 0; i < std::min(unknown.size(), kMostNames); ++i) {
      names += (i == 0 ? "" : ", ") + unknown[i];
    }
    throw Error(ErrorCode::bad_file,
                str_cat(checkpoint.folder(), ": --checksums: no SHA-256 is known for ",
                        unknown.size(), " of ", all.size(), " weight files (", names,
                        unknown.size() > kMostNames ? ", ..." : "",
                        "); fetch them with `hf download`, or put a file SHA256SUMS beside them"));
  }
  for (const std::string& from : sources) {
    source += (source.empty() ? "" : ", ") + from;
  }
  return all;
}

// `done` counts the bytes of all files so far.
std::string sha256_of(const MappedFile& file, int64_t& done, int64_t total, ProgressBar& bar) {
  io::Sha256 sum;
  std::span<const std::byte> rest = file.bytes();
  while (!rest.empty()) {
    if (interrupt_flag().load()) {
      throw Error(ErrorCode::cancelled, "interrupted; the checksums are not complete");
    }
    const size_t bytes = std::min(rest.size(), kPieceBytes);
    sum.update(rest.first(bytes));
    rest = rest.subspan(bytes);
    done += static_cast<int64_t>(bytes);
    bar.update("checksums", done, total);
  }
  return sum.hex();
}

}  // namespace

ChecksumResult verify_checksums(const io::Checkpoint& checkpoint, bool is_quiet) {
  ChecksumResult result;
  const std::vector<Expected> all = find_checksums(checkpoint, result.source);
  int64_t total = 0;
  for (const Expected& expected : all) {
    total += static_cast<int64_t>(expected.file->bytes().size());
  }
  ProgressBar bar(is_quiet);
  std::string wrong;
  int64_t wrong_count = 0;
  for (const Expected& expected : all) {
    const std::string found = sha256_of(*expected.file, result.bytes, total, bar);
    ++result.files;
    if (found != expected.digits) {
      ++wrong_count;
      wrong += str_cat(wrong.empty() ? "" : ", ",
                       tessera::quoted(fs::path(expected.file->path()).filename().string()), " (",
                       found, ", expected ", expected.digits, ")");
    }
  }
  bar.clear();
  if (wrong_count > 0) {
    throw Error(ErrorCode::bad_file,
                str_cat(checkpoint.folder(), ": ", wrong_count, " of ", all.size(),
                        " weight files differ from their SHA-256: ", wrong,
                        "; delete them and download them again"));
  }
  return result;
}

}  // namespace tessera
