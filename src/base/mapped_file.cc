#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"

namespace tessera {
namespace {

static_assert(sizeof(off_t) == 8, "files above 2 GiB need 64-bit offsets");

// A map as the SIGBUS handler sees it. The owner fills the entry between `taken` and `live`; the
// handler reads live entries only.
struct Slot {
  enum State : int { empty, taken, live };
  std::atomic<int> state{empty};
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  std::array<char, 512> path{};  // zero-terminated; the end of a longer path
};
static_assert(std::atomic<uintptr_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

// A checkpoint has tens of shards. Maps beyond the table work, but die without a message.
std::array<Slot, 1024> fault_table;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

void copy_path_end(std::string_view path, std::array<char, 512>& out) {
  constexpr std::string_view kCut = "...";
  if (path.size() < out.size()) {
    path.copy(out.data(), path.size());
    out[path.size()] = '\0';
    return;
  }
  const size_t kept = out.size() - 1 - kCut.size();
  kCut.copy(out.data(), kCut.size());
  path.substr(path.size() - kept).copy(out.data() + kCut.size(), kept);
  out.back() = '\0';
}

// The entry's number, or -1 when the table is full.
int register_map(const std::byte* data, int64_t size, std::string_view path) {
  for (size_t i = 0; i < fault_table.size(); ++i) {
    Slot& slot = fault_table[i];
    int expected = Slot::empty;
    if (!slot.state.compare_exchange_strong(expected, Slot::taken)) {
      continue;
    }
    const uintptr_t begin = reinterpret_cast<uintptr_t>(data);
    slot.begin = begin;
    slot.end = begin + static_cast<uintptr_t>(size);
    copy_path_end(path, slot.path);
    slot.state.store(Slot::live, std::memory_order_release);
    return static_cast<int>(i);
  }
  return -1;
}

void unregister_map(int slot) {
  if (slot >= 0) {
    fault_table[static_cast<size_t>(slot)].state.store(Slot::empty, std::memory_order_release);
  }
}

// Only async-signal-safe calls from here to the end of on_bus_error.
void write_to_stderr(const char* text, size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = ::write(STDERR_FILENO, text, bytes);
    if (written <= 0) {
      return;
    }
    text += written;
    bytes -= static_cast<size_t>(written);
  }
}

size_t append(char* line, size_t used, const char* text) {
  const size_t bytes = std::strlen(text);
  std::memcpy(line + used, text, bytes);
  return used + bytes;
}

[[noreturn]] void report_and_exit(const Slot& slot) {
  char line[1024];  // the parts below add up to less than 600 bytes
  size_t used = append(line, 0, "tessera: ");
  used = append(line, used, slot.path.data());
  used = append(line, used, ": the file was truncated or could not be read while in use\n");
  write_to_stderr(line, used);
  _exit(3);
}

void on_bus_error(int signal, siginfo_t* info, void* /*context*/) {
  // The last page of a map reaches beyond the file's end, so `end` is rounded up to a page. A
  // signal sent by a process (si_code <= 0) has no address.
  constexpr uintptr_t kPage = 4096;
  const uintptr_t address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (const Slot& slot : fault_table) {
    if (info->si_code > 0 && slot.state.load(std::memory_order_acquire) == Slot::live &&
        address >= slot.begin && address < (slot.end + kPage - 1) / kPage * kPage) {
      report_and_exit(slot);
    }
  }
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  sigaction(signal, &standard, nullptr);
  raise(signal);  // delivered, with the default action, when this handler returns
}

struct Descriptor {
  int number;
  explicit Descriptor(int n) : number(n) {}
  ~Descriptor() { ::close(number); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

[[noreturn]] void fail(const std::string& path, std::string_view what) {
  throw Error(ErrorCode::bad_file, str_cat(path, ": ", what));
}

[[noreturn]] void fail_to_open(const std::string& path, int error) {
  struct stat link {};
  if (error == ENOENT && ::lstat(path.c_str(), &link) == 0) {
    fail(path, "is a link whose target does not exist; download or copy the file again");
  }
  switch (error) {
    case ENOENT:
      fail(path, path.empty() ? "a file name is needed, found an empty one"
                              : "no such file; check the path");
    case ENOTDIR:
      fail(path, "a part of the path is a file where a folder is expected; check the path");
    case EACCES:
    case EPERM:
      fail(path, "no permission to read this file; change its mode or its owner");
    case ELOOP:
      fail(path, "the links of this path go in a circle; check them");
    case ENAMETOOLONG:
      fail(path, "the path is too long for this system");
    case EMFILE:
    case ENFILE:
      throw Error(ErrorCode::io,
                  str_cat(path, ": too many open files; raise the limit (ulimit -n)"));
    default:
      fail(path, str_cat("cannot open: ", std::generic_category().message(error)));
  }
}

int64_t modified_ns(const struct stat& status) {
  return int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

struct stat checked_status(int descriptor, const std::string& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) {
    fail(path, str_cat("cannot read its status: ", std::generic_category().message(errno)));
  }
  if (S_ISDIR(status.st_mode)) {
    fail(path, "is a folder, expected a file");
  }
  if (!S_ISREG(status.st_mode)) {
    fail(path, "is not a regular file (a device, pipe or socket); copy its content to a file");
  }
  return status;
}

// Git LFS specification: a pointer file is smaller than 1024 bytes and starts with this key.
bool is_lfs_pointer(std::span<const std::byte> bytes) {
  constexpr std::string_view kStart = "version https://git-lfs";
  return bytes.size() >= kStart.size() && bytes.size() < 1024 &&
         std::memcmp(bytes.data(), kStart.data(), kStart.size()) == 0;
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  // O_NONBLOCK: opening a pipe must not wait for a writer.
  const int opened = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (opened < 0) {
    fail_to_open(path, errno);
  }
  const Descriptor descriptor(opened);
  const struct stat status = checked_status(descriptor.number, path);
  modified_ns_ = modified_ns(status);
  if (status.st_size == 0) {
    return;  // mmap refuses empty ranges
  }
  void* map = ::mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_SHARED,
                     descriptor.number, 0);
  if (map == MAP_FAILED) {
    fail(path, str_cat("cannot map ", status.st_size,
                       " bytes into memory: ", std::generic_category().message(errno)));
  }
  data_ = static_cast<const std::byte*>(map);
  size_ = status.st_size;
  slot_ = register_map(data_, size_, path_);
  if (is_lfs_pointer(bytes())) {
    const MappedFile unmapped(std::move(*this));  // a constructor that throws has no destructor run
    fail(path, "is a Git LFS pointer, not the file itself; run `git lfs pull` in its folder");
  }
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    unregister_map(slot_);
    ::munmap(const_cast<std::byte*>(data_), static_cast<size_t>(size_));
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      modified_ns_(other.modified_ns_),
      slot_(std::exchange(other.slot_, -1)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    MappedFile moved(std::move(other));
    std::swap(path_, moved.path_);
    std::swap(data_, moved.data_);
    std::swap(size_, moved.size_);
    std::swap(modified_ns_, moved.modified_ns_);
    std::swap(slot_, moved.slot_);
  }
  return *this;
}

bool MappedFile::is_unchanged() const {
  struct stat status {};
  return ::stat(path_.c_str(), &status) == 0 && status.st_size == size_ &&
         modified_ns(status) == modified_ns_;
}

void release_pages(std::span<const std::byte> bytes) {
  const uintptr_t page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size()) / page * page;
  if (end > begin) {
    ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
}

void install_map_fault_handler() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace tessera
