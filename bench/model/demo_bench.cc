// demo_bench [RUNS]: the demo model answers a question about a picture with 16 tokens. Time from
// start to exit and peak memory of the program, the best of the runs.
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/str_cat.h"

namespace {

namespace fs = std::filesystem;

// What a user waits and pays at most; measured on two cores.
constexpr double kMostSeconds = 1.5;
constexpr double kMostMegabytes = 150;

struct Run {
  double seconds = 0;
  double megabytes = 0;
};

// False: the program could not be started or failed.
bool run_demo(const std::string& program, Run& run) {
  const std::string picture = TESSERA_SOURCE_FOLDER "/models/demo/eval/images/p019.jpg";
  std::string words[] = {program,      "run", "--image", picture, "--max-tokens", "16",
                         "--ignore-eos", "--quiet", "--json", "Count the carrots."};
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", 1 /* O_WRONLY */, 0);
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
