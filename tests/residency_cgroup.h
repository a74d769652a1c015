// A memory control group of its own for what a test starts.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/str_cat.h"

namespace tessera::test {

// v2 where its memory controller is there, else v1. The test joins the group while it starts a
// program, which stays in it.
class MemoryCgroup {
 public:
  explicit MemoryCgroup(int64_t limit_bytes) {
    const std::string root = "/sys/fs/cgroup";
    std::string controllers;
    std::getline(std::ifstream(root + "/cgroup.controllers"), controllers);
    const bool is_v2 = controllers.find("memory") != std::string::npos;
    parent_ = is_v2 ? root : root + "/memory";
    home_ = parent_ + own_path(is_v2 ? "0::" : ":memory:");
    path_ = str_cat(parent_, "/tessera_test_", ::getpid());
    std::error_code error;
    if (!std::filesystem::create_directory(path_, error)) {
      refusal_ = str_cat(path_, ": ", error ? error.message() : "exists already");
      return;
    }
    write(path_ + (is_v2 ? "/memory.max" : "/memory.limit_in_bytes"), str_cat(limit_bytes));
    peak_file_ = path_ + (is_v2 ? "/memory.peak" : "/memory.max_usage_in_bytes");
  }
  ~MemoryCgroup() {
    leave();
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  MemoryCgroup(const MemoryCgroup&) = delete;
  MemoryCgroup& operator=(const MemoryCgroup&) = delete;

  // Why there is no such group; empty when there is.
  const std::string& refusal() const { return refusal_; }
  void join() { write(path_ + "/cgroup.procs", str_cat(::getpid())); }
  void leave() {
    if (refusal_.empty()) {
      write(home_ + "/cgroup.procs", str_cat(::getpid()));
    }
  }
  // Most memory of the group, page cache included; 0 where the kernel does not say.
  int64_t peak_bytes() const {
    int64_t bytes = 0;
    std::ifstream(peak_file_) >> bytes;
    return bytes;
  }

 private:
  // This process's group: the rest of the line of /proc/self/cgroup that holds `key`.
  static std::string own_path(const std::string& key) {
    std::ifstream lines("/proc/self/cgroup");
    for (std::string line; std::getline(lines, line);) {
      if (const size_t at = line.find(key); at != std::string::npos) {
        return line.substr(at + key.size());
      }
    }
    return "";
  }
  void write(const std::string& file, const std::string& text) {
    std::ofstream out(file);
    out << text << std::flush;
    if (!out.good() && refusal_.empty()) {
      refusal_ = str_cat(file, ": ", std::strerror(errno));
    }
  }

  std::string parent_;
  std::string home_;
  std::string path_;
  std::string peak_file_;
  std::string refusal_;
};

}  // namespace tessera::test
