// demo_bench [RUNS]: the demo model answers a question about a picture with 16 tokens. Time from
// start to exit, the best of the runs, and peak memory. Exit status 1: over the limits below.
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/str_cat.h"

namespace {

namespace fs = std::filesystem;

// Limits for two cores of a server of 2023.
constexpr double kMostSeconds = 1.5;
constexpr double kMostMegabytes = 150;

struct Run {
  double seconds = 0;
  double megabytes = 0;
};

// False: the program could not be started or failed.
bool run_demo(const std::string& program, Run& run) {
  const std::string picture = TESSERA_SOURCE_FOLDER "/models/demo/eval/images/p019.jpg";
  std::string words[] = {program, "run",          "--image", picture,  "--max-tokens",
                         "16",    "--ignore-eos", "--quiet", "--json", "Count the carrots."};
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  const auto start = std::chrono::steady_clock::now();
  pid_t child = 0;
  const int failed =
      posix_spawn(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  rusage usage{};
  if (failed != 0 || wait4(child, &status, 0, &usage) != child || status != 0) {
    return false;
  }
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  run.megabytes = static_cast<double>(usage.ru_maxrss) * 1024e-6;  // ru_maxrss is in KiB
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  int runs = 5;
  if (count > 2 ||
      (count == 2 && (!tessera::parse_number(std::string_view(arguments[1]), runs) || runs < 1))) {
    std::fputs("usage: demo_bench [RUNS]\n", stderr);
    return 2;
  }
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const std::string program = self.parent_path().parent_path() / "tessera";
  Run best;
  for (int i = 0; i < runs; ++i) {
    Run run;
    if (!run_demo(program, run)) {
      std::fprintf(stderr, "demo_bench: %s failed; try it by hand\n", program.c_str());
      return 3;
    }
    best.seconds = i == 0 ? run.seconds : std::min(best.seconds, run.seconds);
    best.megabytes = std::max(best.megabytes, run.megabytes);
  }
  std::printf(
      "demo: load, one picture, 16 tokens: %.3f s (at most %.1f), peak memory %.0f MB (at "
      "most %.0f)\n",
      best.seconds, kMostSeconds, best.megabytes, kMostMegabytes);
  return best.seconds <= kMostSeconds && best.megabytes <= kMostMegabytes ? 0 : 1;
}
