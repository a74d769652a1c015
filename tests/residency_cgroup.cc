#include "tests/residency_cgroup.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/str_cat.h"

namespace tessera::test {
namespace {

// This process's group: the rest of the line of /proc/self/cgroup that holds `key`.
std::string own_path(const std::string& key) {
  std::ifstream lines("/proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    if (const size_t at = line.find(key); at != std::string::npos) {
      return line.substr(at + key.size());
    }
  }
  return "";
}

}  // namespace

MemoryCgroup::MemoryCgroup(int64_t limit_bytes) {
  const std::string root = "/sys/fs/cgroup";
  std::ifstream file(root + "/cgroup.controllers");
  std::string controllers;
  std::getline(file, controllers);
  const bool is_v2 = controllers.find("memory") != std::string::npos;
  const std::string parent = is_v2 ? root : root + "/memory";
  home_ = parent + own_path(is_v2 ? "0::" : ":memory:");
  path_ = str_cat(parent, "/tessera_test_", ::getpid());
  std::error_code error;
  if (!std::filesystem::create_directory(path_, error)) {
    refusal_ = str_cat(path_, ": ", error ? error.message() : "exists already");
    return;
  }
  write(path_ + (is_v2 ? "/memory.max" : "/memory.limit_in_bytes"), str_cat(limit_bytes));
  peak_file_ = path_ + (is_v2 ? "/memory.peak" : "/memory.max_usage_in_bytes");
}

MemoryCgroup::~MemoryCgroup() {
  leave();
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

void MemoryCgroup::join() { write(path_ + "/cgroup.procs", str_cat(::getpid())); }

void MemoryCgroup::leave() {
  if (refusal_.empty()) {
    write(home_ + "/cgroup.procs", str_cat(::getpid()));
  }
}

int64_t MemoryCgroup::peak_bytes() const {
  int64_t bytes = 0;
  std::ifstream(peak_file_) >> bytes;
  return bytes;
}

void MemoryCgroup::write(const std::string& file, const std::string& text) {
  std::ofstream out(file);
  out << text << std::flush;
  if (!out.good() && refusal_.empty()) {
    refusal_ = str_cat(file, ": ", std::strerror(errno));
  }
}

}  // namespace tessera::test
