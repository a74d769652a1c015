#include "base/process_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>
#include <string_view>

#include "base/str_cat.h"

namespace tessera {
namespace {

// `NAME:   123 kB` of a file of such lines, in bytes; 0 for an absent one.
int64_t field_bytes(std::ifstream& lines, std::string_view name) {
  lines.clear();
  lines.seekg(0);
  std::string word;
  while (lines >> word) {
    int64_t kibibytes = 0;
    if (word == name) {
      return lines >> kibibytes ? kibibytes * 1024 : 0;
    }
  }
  return 0;
}

}  // namespace

MemoryStatus memory_status() {
  std::ifstream status("/proc/self/status");
  return {.resident_bytes = field_bytes(status, "VmRSS:"),
          .peak_bytes = field_bytes(status, "VmHWM:"),
          .file_bytes = field_bytes(status, "RssFile:"),
          .anonymous_bytes = field_bytes(status, "RssAnon:")};
}

int64_t available_memory_bytes() {
  std::ifstream info("/proc/meminfo");
  return field_bytes(info, "MemAvailable:");
}

ResidentMemory::ResidentMemory()
    : descriptor_(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC)),
      page_bytes_(::sysconf(_SC_PAGESIZE)) {}

ResidentMemory::~ResidentMemory() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

// The second number of the line: pages.
int64_t ResidentMemory::bytes() const {
  std::array<char, 128> line{};
  const ssize_t length = ::pread(descriptor_, line.data(), line.size(), 0);
  std::string_view text(line.data(), length > 0 ? static_cast<size_t>(length) : 0);
  text.remove_prefix(std::min(text.find(' '), text.size()));
  text.remove_prefix(std::min<size_t>(1, text.size()));
  int64_t pages = 0;
  return parse_number(text.substr(0, text.find(' ')), pages) ? pages * page_bytes_ : 0;
}

}  // namespace tessera
