#include "model/report.h"

#include <fstream>

#include "base/str_cat.h"

namespace tessera::bench {

int64_t peak_memory_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) {
      return kib * 1024;
    }
  }
  return 0;
}

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
