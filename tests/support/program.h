// Runs the built program as a user does: arguments, environment and limits in, streams and exit
// status out. No shell.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::test {

struct ProgramOptions {
  std::string input;   // standard input
  std::string folder;  // working directory; empty: that of the test
  // Added to the test's environment or replacing it.
  std::vector<std::pair<std::string, std::string>> environment;
  std::string output_file;     // standard output goes here instead of into ProgramResult::out
  int64_t max_file_bytes = 0;  // RLIMIT_FSIZE with SIGXFSZ ignored, as on a full disk; 0: no limit
  std::vector<int> closed;     // descriptors that are not open at the start
};

struct ProgramResult {
  int status = -1;  // exit status; -1 when a signal ended the program
  int signal = 0;   // that signal
  std::string out;
  std::string err;
};

// A program that runs. Every wait ends after ten minutes: then the program is killed and the test
// fails.
class Program {
 public:
  // TESSERA_PROGRAM with `arguments`. Throws std::runtime_error if it cannot be started.
  explicit Program(const std::vector<std::string>& arguments, const ProgramOptions& options = {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Returns when standard output has given `bytes` bytes in all, or has ended.
  void wait_for_output(size_t bytes);
  void close_output();  // as a reader that goes away: further writes fail with EPIPE
  void send(int signal);
  bool is_running();
  // Reads both streams to their end and waits for the exit.
  ProgramResult finish();

 private:
  bool read_some(int timeout_ms);
  void reap(bool waits);
  void drop(int& descriptor);

  int process_ = -1;
  int out_ = -1;
  int err_ = -1;
  bool has_ended_ = false;
  int wait_status_ = 0;
  int64_t deadline_ms_ = 0;
  std::string out_text_;
  std::string err_text_;
};

ProgramResult run_program(const std::vector<std::string>& arguments,
                          const ProgramOptions& options = {});

// For execve: the test's environment with `changes`, as "NAME=value"; and pointers to texts, with a
// nullptr behind them.
std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& changes);
std::vector<char*> pointers(std::vector<std::string>& texts);

// Expects this exit status, nothing on standard output, and on standard error exactly one line that
// begins with "tessera: " and contains every part.
void expect_error(const ProgramResult& result, int status,
                  std::initializer_list<std::string_view> parts = {});

}  // namespace tessera::test
