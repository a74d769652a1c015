// What the kernel says about this process's memory.
#pragma once

#include <cstdint>

namespace tessera {

struct MemoryStatus {
  int64_t resident_bytes = 0;   // VmRSS
  int64_t peak_bytes = 0;       // VmHWM: the most that VmRSS has been
  int64_t file_bytes = 0;       // RssFile: mapped files, of which weights are most
  int64_t anonymous_bytes = 0;  // RssAnon: what the program has allocated
};
// From /proc/self/status; zeros without it.
MemoryStatus memory_status();

// Physical memory that programs can still take (MemAvailable); 0 if it is not known.
int64_t available_memory_bytes();

// VmRSS for those who ask often: about 2 microseconds.
class ResidentMemory {
 public:
  ResidentMemory();
  ~ResidentMemory();
  ResidentMemory(const ResidentMemory&) = delete;
  ResidentMemory& operator=(const ResidentMemory&) = delete;

  int64_t bytes() const;  // 0 without /proc

 private:
  int descriptor_;
  int64_t page_bytes_;
};

}  // namespace tessera
