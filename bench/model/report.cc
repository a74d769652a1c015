#include "model/report.h"

#include <fstream>
#include <string_view>

#include "base/str_cat.h"

namespace tessera::bench {
namespace {

// The number behind `name` in a file of lines `name: number kB`, in bytes; 0 if there is none.
int64_t kernel_figure(const char* path, std::string_view name) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    int64_t kib = 0;
    if (word == name && file >> kib) {
      return kib * 1024;
    }
  }
  return 0;
}

}  // namespace

int64_t peak_memory_bytes() { return kernel_figure("/proc/self/status", "VmHWM:"); }

int64_t available_memory_bytes() { return kernel_figure("/proc/meminfo", "MemAvailable:"); }

std::string report_text(const ModelReport& report) {
  std::string text = limits_text({report.limits});
  for (const Result& result : report.results) {
    text += result_text(result) + "\n";
  }
  for (const std::string& note : report.notes) {
    text += note + "\n";
  }
  return text;
}

}  // namespace tessera::bench
