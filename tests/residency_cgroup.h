// A memory control group of its own for what a test starts.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::test {

// v2 where its memory controller is there, else v1. The test joins the group while it starts a
// program, which stays in it.
class MemoryCgroup {
 public:
  explicit MemoryCgroup(int64_t limit_bytes);
  ~MemoryCgroup();
  MemoryCgroup(const MemoryCgroup&) = delete;
  MemoryCgroup& operator=(const MemoryCgroup&) = delete;

  // Why there is no such group; empty when there is.
  const std::string& refusal() const { return refusal_; }
  void join();
  void leave();
  // Most memory of the group, page cache included; 0 where the kernel does not say.
  int64_t peak_bytes() const;

 private:
  void write(const std::string& file, const std::string& text);

  std::string home_;  // the group that the test came from
  std::string path_;
  std::string peak_file_;
  std::string refusal_;
};

}  // namespace tessera::test
