#include "tests/support/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <stdexcept>

extern char** environ;

namespace tessera::test {
namespace {

constexpr int64_t kMostMs = 600'000;
constexpr int kCannotStart = 127;

int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error("program under test: " + what + ": " + strerror(errno));
}

struct Pipe {
  Pipe() {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      fail("pipe");
    }
  }
  std::array<int, 2> ends{};
};

// An unlinked file that holds `text`, open at its start.
int file_with(const std::string& text) {
  std::string name = testing::TempDir() + "tessera_input_XXXXXX";
  const int descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) {
    fail(name);
  }
  ::unlink(name.c_str());
  if (::write(descriptor, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::lseek(descriptor, 0, SEEK_SET) != 0) {
    fail(name);
  }
  return descriptor;
}

// What happens between fork and exec: only calls that a signal handler may make.
struct Child {
  int in, out, err;
  const char* folder;       // or nullptr
  const char* output_file;  // or nullptr
  int64_t max_file_bytes;
  const std::vector<int>& closed;
  char** arguments;
  char** environment;

  [[noreturn]] void run() const {
    if (folder != nullptr && ::chdir(folder) != 0) {
      ::_exit(kCannotStart);
    }
    const int target = output_file == nullptr
                           ? out
                           : ::open(output_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (target < 0 || ::dup2(in, STDIN_FILENO) < 0 || ::dup2(target, STDOUT_FILENO) < 0 ||
        ::dup2(err, STDERR_FILENO) < 0) {
      ::_exit(kCannotStart);
    }
    if (max_file_bytes > 0) {
      const struct rlimit limit = {static_cast<rlim_t>(max_file_bytes),
                                   static_cast<rlim_t>(max_file_bytes)};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      ::signal(SIGXFSZ, SIG_IGN);
    }
    for (const int descriptor : closed) {
      ::close(descriptor);
    }
    ::execve(arguments[0], arguments, environment);
    ::_exit(kCannotStart);
  }
};

}  // namespace

std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    bool is_replaced = false;
    for (const auto& [name, value] : changes) {
      is_replaced = is_replaced || text.starts_with(name + "=");
    }
    if (!is_replaced) {
      entries.push_back(text);
    }
  }
  for (const auto& [name, value] : changes) {
    entries.push_back(name + "=" + value);
  }
  return entries;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) {
    out.push_back(text.data());
  }
  out.push_back(nullptr);
  return out;
}

Program::Program(const std::vector<std::string>& arguments, const ProgramOptions& options)
    : deadline_ms_(now_ms() + kMostMs) {
  std::vector<std::string> texts = {TESSERA_PROGRAM};
  texts.insert(texts.end(), arguments.begin(), arguments.end());
  std::vector<std::string> entries = environment_with(options.environment);
  std::vector<char*> argv = pointers(texts);
  std::vector<char*> envp = pointers(entries);
  const int in = file_with(options.input);
  const Pipe out;
  const Pipe err;
  const Child child = {
      .in = in,
      .out = out.ends[1],
      .err = err.ends[1],
      .folder = options.folder.empty() ? nullptr : options.folder.c_str(),
      .output_file = options.output_file.empty() ? nullptr : options.output_file.c_str(),
      .max_file_bytes = options.max_file_bytes,
      .closed = options.closed,
      .arguments = argv.data(),
      .environment = envp.data()};
  process_ = ::fork();
  if (process_ < 0) {
    fail("fork");
  }
  if (process_ == 0) {
    child.run();
  }
  ::close(in);
  ::close(out.ends[1]);
  ::close(err.ends[1]);
  out_ = out.ends[0];
  err_ = err.ends[0];
}

Program::~Program() {
  drop(out_);
  drop(err_);
  if (!has_ended_) {
    ::kill(process_, SIGKILL);
    reap(true);
  }
}

void Program::drop(int& descriptor) {
  if (descriptor >= 0) {
    ::close(descriptor);
    descriptor = -1;
  }
}

void Program::reap(bool waits) {
  if (has_ended_) {
    return;
  }
  pid_t reaped = -1;
  do {
    reaped = ::waitpid(process_, &wait_status_, waits ? 0 : WNOHANG);
  } while (reaped < 0 && errno == EINTR);
  has_ended_ = reaped == process_;
}

bool Program::is_running() {
  reap(false);
  return !has_ended_;
}

// Takes over what the streams hold now or within the time; false when both have ended.
bool Program::read_some(int timeout_ms) {
  std::array<struct pollfd, 2> waits = {
      {{.fd = out_, .events = POLLIN, .revents = 0}, {.fd = err_, .events = POLLIN, .revents = 0}}};
  if (out_ < 0 && err_ < 0) {
    return false;
  }
  if (now_ms() > deadline_ms_) {
    ADD_FAILURE() << "the program ran for more than ten minutes and was killed";
    ::kill(process_, SIGKILL);
    deadline_ms_ += kMostMs;
  }
  if (::poll(waits.data(), waits.size(), timeout_ms) < 0 && errno != EINTR) {
    fail("poll");
  }
  for (const struct pollfd& wait : waits) {
    if (wait.revents == 0) {
      continue;
    }
    std::array<char, 65536> buffer;
    const ssize_t count = ::read(wait.fd, buffer.data(), buffer.size());
    if (count > 0) {
      (wait.fd == out_ ? out_text_ : err_text_).append(buffer.data(), static_cast<size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      drop(wait.fd == out_ ? out_ : err_);
    }
  }
  return true;
}

void Program::wait_for_output(size_t bytes) {
  while (out_ >= 0 && out_text_.size() < bytes && read_some(1000)) {
  }
}

void Program::close_output() { drop(out_); }

void Program::send(int signal) {
  if (is_running()) {  // a reaped process id may belong to somebody else
    ::kill(process_, signal);
  }
}

ProgramResult Program::finish() {
  while (read_some(1000)) {
  }
  reap(true);
  ProgramResult result;
  if (WIFEXITED(wait_status_)) {
    result.status = WEXITSTATUS(wait_status_);
  } else {
    result.signal = WTERMSIG(wait_status_);
  }
  if (result.status == kCannotStart) {
    throw std::runtime_error("cannot start " TESSERA_PROGRAM);
  }
  result.out = std::move(out_text_);
  result.err = std::move(err_text_);
  return result;
}

ProgramResult run_program(const std::vector<std::string>& arguments,
                          const ProgramOptions& options) {
  Program program(arguments, options);
  return program.finish();
}

void expect_error(const ProgramResult& result, int status,
                  std::initializer_list<std::string_view> parts) {
  std::string wrong;
  if (result.status != status) {
    wrong += "another status; ";
  }
  if (!result.out.empty()) {
    wrong += "standard output is not empty; ";
  }
  if (!result.err.starts_with("tessera: ") || !result.err.ends_with("\n") ||
      std::count(result.err.begin(), result.err.end(), '\n') != 1) {
    wrong += "not one line that begins with 'tessera: '; ";
  }
  for (const std::string_view part : parts) {
    if (result.err.find(part) == std::string::npos) {
      wrong.append("no '").append(part).append("' in the message; ");
    }
  }
  EXPECT_TRUE(wrong.empty()) << "expected status " << status << " and one line, found " << wrong
                             << "status " << result.status << ", signal " << result.signal
                             << ", standard error '" << result.err << "', standard output '"
                             << result.out.substr(0, 200) << "'";
}

}  // namespace tessera::test
