// What a command prints: results on stdout, progress on stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// stdout. A closed pipe is no error: is_closed() becomes true, further text is dropped. Any other
// failure (disk full) throws Error{io}.
class Output {
 public:
  Output();
  void write(std::string_view text);
  // The same for text that a model or a file produced: on a terminal, control characters other than
  // line feed and tab are shown as \xNN.
  void write_foreign(std::string_view text);
  bool is_closed() const { return is_closed_; }
  bool is_terminal() const { return is_terminal_; }
  // Text between these is faint. Both are empty unless standard output is a terminal that knows
  // colours and the environment has no NO_COLOR (no-color.org).
  std::string_view faint() const { return has_styles_ ? "\x1b[2m" : ""; }
  std::string_view plain() const { return has_styles_ ? "\x1b[0m" : ""; }

 private:
  bool is_terminal_;
  bool has_styles_;
  bool is_closed_ = false;
};

// A bar on stderr, only on a terminal and only for work that takes longer than a second.
class ProgressBar {
 public:
  explicit ProgressBar(bool is_quiet);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(std::string_view stage, int64_t done, int64_t total);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool is_shown_ = false;  // something stands on the line
  bool is_enabled_;
  std::string stage_;
  Clock::time_point start_;
  Clock::time_point drawn_;
};

// Control characters (but not line feed and tab) as \xNN: C0, delete, and C1 (U+0080 to U+009F),
// which terminals obey too.
std::string escape_controls(std::string_view text);

// "tessera: MESSAGE" on stderr, as one line whatever file names and arguments are part of it.
void print_error(std::string_view message);

}  // namespace tessera
