// The step loop takes no memory from the heap while answers are written: what it needs is there
// when a request is admitted. Every allocation of that thread is counted.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/engine.h"

namespace {

std::atomic<long> before{0};  // of the step thread, while nothing is counted
std::atomic<long> allocations{0};
std::atomic<bool> is_counting{false};

bool is_step_thread() {
  thread_local int answer = -1;
  if (answer < 0) {
    char name[16] = {};
    pthread_getname_np(pthread_self(), name, sizeof(name));
    answer = std::string_view(name) == "tessera-step" ? 1 : 0;
  }
  return answer == 1;
}

[[maybe_unused]] void* counted(std::size_t size, std::size_t alignment) {
  if (is_step_thread()) {
    ++(is_counting ? allocations : before);
  }
  void* made = alignment > 0
                   ? std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment)
                   : std::malloc(size);
  if (made == nullptr) {
    throw std::bad_alloc();
  }
  return made;
}

}  // namespace

// The sanitizers watch the allocator themselves and want to see their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TESSERA_COUNTS_ALLOCATIONS
// Not inlined: GCC would take free() for a mistake where it sees the other operator's call.
void* operator new(std::size_t size) { return counted(size, 0); }
void* operator new[](std::size_t size) { return counted(size, 0); }
void* operator new(std::size_t size, std::align_val_t a) {
  return counted(size, static_cast<std::size_t>(a));
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}
#endif

namespace tessera {
namespace {

constexpr int32_t kEndToken = 1;  // of the demo model

// Texts of tokens longer than a std::string holds in itself (15 bytes) are not counted: the answers
// have none.
Request talk(int64_t i) {
  Request request;
  request.messages.emplace_back().content.emplace_back().text = "Tell me something. 讲点什么。";
  request.max_tokens = 200;
  request.sampling.temperature = static_cast<double>(i % 2);
  request.sampling.logit_bias = {{kEndToken, -1000.0}};
  return request;
}

TEST(StepAllocations, NoneWhileAnswersAreWritten) {
#ifndef TESSERA_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "the sanitizer has an allocator of its own";
#endif
  EngineOptions options;
  options.model = TESSERA_SOURCE_DIR "/models/demo";
  options.context = 1024;
  options.prefix_cache_bytes = 4 << 20;
  const std::unique_ptr<Engine> engine = Engine::open(options);
  for (const bool counts : {false, true}) {  // the first round finds how much scratch a step takes
    std::vector<std::shared_ptr<Ticket>> tickets;
    for (int64_t i = 0; i < 4; ++i) {
      tickets.push_back(engine->submit(talk(i)));
    }
    const auto read = [&](int events) {
      for (int i = 0; i < events; ++i) {
        for (const std::shared_ptr<Ticket>& ticket : tickets) {
          ticket->next();
        }
      }
    };
    read(40);
    is_counting = counts;
    read(80);
    is_counting = false;
    for (const std::shared_ptr<Ticket>& ticket : tickets) {
      EXPECT_EQ(ticket->result().choices.at(0).ids.size(), 200U);
    }
  }
  EXPECT_GT(before.load(), 0);  // the thread is found by its name
  EXPECT_EQ(allocations.load(), 0);
}

}  // namespace
}  // namespace tessera
