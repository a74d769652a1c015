#include "output.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "base/error.h"
#include "base/str_cat.h"

namespace tessera {
namespace {

constexpr int64_t kBarCells = 30;
constexpr auto kShowAfter = std::chrono::seconds(1);
constexpr auto kRedrawEvery = std::chrono::milliseconds(100);

// Whether all was written; EPIPE gives false, anything else throws.
bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      if (errno == EPIPE) {
        return false;
      }
      throw Error(ErrorCode::io, str_cat("standard output: ", strerror(errno)));
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

std::string escape_controls(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  const auto escape = [&](unsigned char byte) {
    out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char byte = static_cast<unsigned char>(text[i]);
    const unsigned char next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1])
                                                   : static_cast<unsigned char>(0);
    if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f) {
      escape(byte);
    } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {  // a C1 control in UTF-8
      escape(next);
      ++i;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

void print_error(std::string_view message) {
  std::string line = escape_controls(message);
  for (size_t at = line.find('\n'); at != std::string::npos; at = line.find('\n', at)) {
    line.replace(at, 1, "\\n");
  }
  std::cerr << "tessera: " << line << "\n";
}

Output::Output() : is_terminal_(isatty(STDOUT_FILENO) != 0) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  has_styles_ = is_terminal_ && (no_color == nullptr || *no_color == '\0') && term != nullptr &&
                std::string_view(term) != "dumb";
}

void Output::write(std::string_view text) {
  if (!is_closed_) {
    is_closed_ = !write_all(STDOUT_FILENO, text);
  }
}

void Output::write_foreign(std::string_view text) {
  if (is_terminal_) {
    write(escape_controls(text));
  } else {
    write(text);
  }
}

ProgressBar::ProgressBar(bool is_quiet)
    : is_enabled_(!is_quiet && isatty(STDERR_FILENO) != 0), start_(Clock::now()) {}

void ProgressBar::update(std::string_view stage, int64_t done, int64_t total) {
  const Clock::time_point now = Clock::now();
  if (stage != stage_) {
    clear();
    stage_ = stage;
    start_ = now;
  }
  if (!is_enabled_ || total <= 0 || now - start_ < kShowAfter || now - drawn_ < kRedrawEvery) {
    return;
  }
  drawn_ = now;
  is_shown_ = true;
  const int64_t cells = std::clamp<int64_t>(kBarCells * done / total, 0, kBarCells);
  std::string line = str_cat("\r", stage_, " [");
  line.append(static_cast<size_t>(cells), '#').append(static_cast<size_t>(kBarCells - cells), '.');
  line += str_cat("] ", 100 * done / total, " %");
  write_all(STDERR_FILENO, line);
}

void ProgressBar::clear() {
  if (is_shown_) {
    write_all(STDERR_FILENO, "\r\x1b[K");
    is_shown_ = false;
  }
}

}  // namespace tessera
