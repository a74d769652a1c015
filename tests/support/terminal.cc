#include "tests/support/terminal.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <stdexcept>

#include "tests/support/program.h"

namespace tessera::test {
namespace {

constexpr int kWaitMs = 60'000;
constexpr int kCannotStart = 127;

}  // namespace

Terminal::Terminal(const std::vector<std::string>& arguments,
                   const std::vector<std::pair<std::string, std::string>>& environment) {
  std::vector<std::pair<std::string, std::string>> changes = environment;
  if (std::none_of(changes.begin(), changes.end(),
                   [](const auto& change) { return change.first == "TERM"; })) {
    changes.emplace_back("TERM", "xterm");
  }
  std::vector<std::string> entries = environment_with(changes);
  std::vector<std::string> words = {TESSERA_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const std::vector<char*> argv = pointers(words);
  const std::vector<char*> envp = pointers(entries);
  const struct winsize size = {24, 100, 0, 0};
  process_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
  if (process_ < 0) {
    throw std::runtime_error(std::string("forkpty: ") + strerror(errno));
  }
  if (process_ == 0) {
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(kCannotStart);
  }
}

Terminal::~Terminal() {
  if (process_ > 0) {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  ::close(terminal_);
}

void Terminal::type(std::string_view keys) {
  while (!keys.empty()) {
    const ssize_t written = ::write(terminal_, keys.data(), keys.size());
    ASSERT_GT(written, 0) << strerror(errno);
    keys.remove_prefix(static_cast<size_t>(written));
  }
}

bool Terminal::read_some(int timeout_ms) {
  struct pollfd poll = {terminal_, POLLIN, 0};
  if (::poll(&poll, 1, timeout_ms) <= 0) {
    return false;
  }
  char bytes[4096];
  const ssize_t count = ::read(terminal_, bytes, sizeof(bytes));
  if (count <= 0) {  // EIO: nobody has the terminal open any more
    return false;
  }
  output_.append(bytes, static_cast<size_t>(count));
  return true;
}

std::string Terminal::wait_for(std::string_view text) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kWaitMs);
  size_t at = output_.find(text);
  while (at == std::string::npos && std::chrono::steady_clock::now() < deadline &&
         read_some(1000 + kWaitMs / 60)) {
    at = output_.find(text);
  }
  if (at == std::string::npos) {
    ADD_FAILURE() << "the terminal shows no '" << text << "' but:\n" << output_;
    throw std::runtime_error("terminal");
  }
  const std::string seen = output_.substr(0, at + text.size());
  output_.erase(0, at + text.size());
  return seen;
}

std::string Terminal::finish() {
  while (read_some(kWaitMs)) {
  }
  ::kill(process_, SIGKILL);  // one that still runs had its minute; others are unharmed
  int status = 0;
  ::waitpid(process_, &status, 0);
  process_ = -1;
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return std::move(output_);
}

}  // namespace tessera::test
