// Runs a fuzz target over its corpus without libFuzzer: every seed as it is, cut at every length,
// and with a fixed set of changed bytes. corpus_main FOLDER
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/target.h"

namespace {

// The copy has exactly the input's size, so that a sanitizer sees reads beyond it.
void run(const std::string& input) {
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

void run_truncated(const std::string& seed) {
  constexpr size_t kLongest = 4096;
  for (size_t bytes = 0; bytes < std::min(seed.size(), kLongest); ++bytes) {
    run(seed.substr(0, bytes));
  }
}

void run_changed(const std::string& seed) {
  uint64_t state = 88172645463325252U;  // xorshift64
  const auto next = [&state] {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  };
  for (int i = 0; i < 2000 && !seed.empty(); ++i) {
    std::string changed = seed;
    const uint64_t changes = 1 + next() % 3;
    for (uint64_t j = 0; j < changes; ++j) {
      changed[next() % changed.size()] = static_cast<char>(next() >> 56);
    }
    run(changed);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: corpus_main FOLDER\n", stderr);
    return 2;
  }
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const std::filesystem::path& path : paths) {
    std::printf("%s\n", path.c_str());
    std::fflush(stdout);  // the last line names the input that failed
    std::ifstream stream(path, std::ios::binary);
    const std::string seed{std::istreambuf_iterator<char>(stream), {}};
    run(seed);
    run_truncated(seed);
    run_changed(seed);
  }
  return paths.empty() ? 1 : 0;
}
