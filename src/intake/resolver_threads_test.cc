// Also run under the thread sanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "intake/resolver.h"

namespace tessera::intake {
namespace {

using std::chrono::milliseconds;
using Status = Resolution::Status;

constexpr milliseconds kPlenty{60'000};  // of lookups that end at once
constexpr milliseconds kSoon{30'000};    // on a machine that does other things too

Deadline in(milliseconds time) { return {Deadline::Clock::now() + time}; }

Resolution found(std::string_view address) {
  return {Status::found, {parse_ip_address(address).value()}};
}

// Lookups that hang until open() is called.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_open_; });
    --waiting_;
    changed_.notify_all();
  }
  void open() {
    std::unique_lock lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return waiting_ == 0; });
  }
  void await(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ == count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
  int waiting_ = 0;
};

TEST(SystemResolver, FindsLocalhost) {
  SystemResolver resolver;
  const Resolution result = resolver.resolve("localhost", in(kPlenty));
  ASSERT_EQ(result.status, Status::found);
  for (const IpAddress& address : result.addresses) {
    EXPECT_EQ(kind_of(address).name, "loopback") << to_text(address);
  }
}

TEST(SystemResolver, PassesOnWhatTheLookupFound) {
  SystemResolver resolver([](const std::string& host) {
    return host == "a.test" ? found("192.0.2.7") : Resolution{Status::unknown_host, {}};
  });
  const Resolution known = resolver.resolve("a.test", in(kPlenty));
  EXPECT_EQ(known.status, Status::found);
  EXPECT_EQ(known.addresses, found("192.0.2.7").addresses);
  EXPECT_EQ(resolver.resolve("b.test", in(kPlenty)).status, Status::unknown_host);
}

TEST(SystemResolver, AHangingLookupIsLeftAloneAtTheDeadline) {
  Gate gate;
  {
    SystemResolver resolver([&gate](const std::string&) {
      gate.pass();
      return found("192.0.2.7");
    });
    const auto start = Deadline::Clock::now();
    EXPECT_EQ(resolver.resolve("a.test", in(milliseconds(60))).status, Status::timed_out);
    EXPECT_LT(Deadline::Clock::now() - start, kSoon);
  }
  gate.await(1);  // the lookup outlives the resolver
  gate.open();
}

TEST(SystemResolver, ACancelledCallerDoesNotWait) {
  Gate gate;
  SystemResolver resolver([&gate](const std::string&) {
    gate.pass();
    return found("192.0.2.7");
  });
  std::atomic<bool> cancel = false;
  std::future<Resolution> result = std::async(
      std::launch::async, [&] { return resolver.resolve("a.test", {.cancel = &cancel}); });
  gate.await(1);
  cancel = true;
  EXPECT_EQ(result.get().status, Status::timed_out);
  gate.open();
}

TEST(SystemResolver, LookupsAreBounded) {
  Gate gate;
  SystemResolver resolver(
      [&gate](const std::string& host) {
        if (host == "slow.test") {
          gate.pass();
        }
        return found("192.0.2.7");
      },
      2);
  EXPECT_EQ(resolver.resolve("slow.test", in(milliseconds(10))).status, Status::timed_out);
  EXPECT_EQ(resolver.resolve("fast.test", in(kPlenty)).status, Status::found);
  EXPECT_EQ(resolver.resolve("slow.test", in(milliseconds(10))).status, Status::timed_out);
  EXPECT_EQ(resolver.resolve("fast.test", in(kPlenty)).status, Status::busy);
  gate.open();
  // The two slots come free when the lookups end.
  const Deadline deadline = in(kPlenty);
  while (resolver.resolve("fast.test", deadline).status == Status::busy && !deadline.is_over()) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(resolver.resolve("fast.test", deadline).status, Status::found);
}

TEST(SystemResolver, ALookupThatThrowsFails) {
  SystemResolver resolver([](const std::string&) -> Resolution { throw std::bad_alloc(); });
  EXPECT_EQ(resolver.resolve("a.test", in(kPlenty)).status, Status::failed);
}

TEST(SystemResolver, ThreadsMayAskAtTheSameTime) {
  SystemResolver resolver([](const std::string& host) { return found(host); });
  std::vector<std::future<bool>> answers;
  for (int thread = 0; thread < 8; ++thread) {
    answers.push_back(std::async(std::launch::async, [&resolver, thread] {
      const std::string host = "192.0.2." + std::to_string(thread);
      for (int round = 0; round < 20; ++round) {
        if (resolver.resolve(host, in(kPlenty)).addresses != found(host).addresses) {
          return false;
        }
      }
      return true;
    }));
  }
  for (std::future<bool>& answer : answers) {
    EXPECT_TRUE(answer.get());
  }
}

}  // namespace
}  // namespace tessera::intake
