// Clients that leave, read slowly or send slowly, and servers that stop.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <deque>
#include <thread>
#include <vector>

#include "base/str_cat.h"
#include "server/http_test.h"
#include "tests/support/sanitizers.h"

namespace tessera::server {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): the test's own vocabulary

// Exchanges that wait for the test to answer them.
class Desk {
 public:
  void put(const std::shared_ptr<Exchange>& exchange) {
    const std::lock_guard guard(mutex_);
    waiting_.push_back(exchange);
    changed_.notify_all();
  }

  // The first one; nullptr after 20 s.
  std::shared_ptr<Exchange> take() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, 120s, [this] { return !waiting_.empty(); })) {
      return nullptr;
    }
    std::shared_ptr<Exchange> out = std::move(waiting_.front());
    waiting_.pop_front();
    return out;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Exchange>> waiting_;
};

class HttpHangUpTest : public testing::Test {
 protected:
  // Timeouts that no test waits for, unless it asks for shorter ones.
  void serve(const std::function<void(HttpLimits&)>& change = [](HttpLimits&) {}) {
    HttpOptions options = local_options();
    options.limits.write_timeout = 60s;
    change(options.limits);
    server_ = std::make_unique<HttpServer>(
        options, [this](const std::shared_ptr<Exchange>& exchange) { desk_.put(exchange); });
  }

  uint16_t port() const { return server_->port(); }
  HttpStatistics statistics() const { return server_->statistics(); }
  bool is_idle_soon() const {
    return holds_soon(
        [this] { return statistics().open_connections == 0 && statistics().active_requests == 0; });
  }

  Desk desk_;
  std::unique_ptr<HttpServer> server_;
};

enum class Leave { close, reset };

void leave(Client& client, Leave how) {
  if (how == Leave::close) {
    client.close();
  } else {
    client.reset();
  }
}

TEST_F(HttpHangUpTest, BeforeTheRequestIsComplete) {
  serve();
  const std::string request = post_text("/", "{}");
  for (int i = 0; i < 100; ++i) {
    for (const size_t bytes : {size_t{0}, size_t{3}, request.size() - 4, request.size() - 1}) {
      Client client(port());
      EXPECT_TRUE(client.send(request.substr(0, bytes)));
      leave(client, i % 2 == 0 ? Leave::close : Leave::reset);
    }
  }
  EXPECT_TRUE(is_idle_soon());
  EXPECT_EQ(statistics().requests, 0);
}

TEST_F(HttpHangUpTest, WhileTheHandlerWorks) {
  serve();
  for (int i = 0; i < 100; ++i) {
    Client client(port());
    EXPECT_TRUE(client.send(i % 3 == 0 ? str_cat(get_text("/"), get_text("/")) : get_text("/")));
    const std::shared_ptr<Exchange> exchange = desk_.take();
    ASSERT_NE(exchange, nullptr);
    EXPECT_FALSE(exchange->is_gone());
    Event gone;
    exchange->on_gone([&gone] { gone.set(); });
    leave(client, i % 2 == 0 ? Leave::close : Leave::reset);
    EXPECT_TRUE(gone.wait());
    EXPECT_TRUE(exchange->is_gone());
    exchange->on_gone([&gone] { gone.set(); });  // at once
    EXPECT_EQ(gone.count(), 2);
    exchange->respond({});
    exchange->on_gone([&gone] { gone.set(); });
    if (i % 3 == 0 && i % 2 == 0) {
      desk_.take();  // the pipelined one of a client that has only closed its side, it seems
    }
  }
  EXPECT_TRUE(is_idle_soon());
}

TEST_F(HttpHangUpTest, WithinAStream) {
  serve();
  for (int i = 0; i < 100; ++i) {
    Client client(port());
    EXPECT_TRUE(client.send(get_text("/")));
    const std::shared_ptr<Exchange> exchange = desk_.take();
    ASSERT_NE(exchange, nullptr);
    Event gone;
    exchange->on_gone([&gone] { gone.set(); });
    exchange->begin_stream({});
    EXPECT_TRUE(exchange->write("piece"));
    EXPECT_NE(client.read_some(), "");
    leave(client, i % 2 == 0 ? Leave::close : Leave::reset);
    EXPECT_TRUE(gone.wait());
    EXPECT_FALSE(exchange->write("piece"));
    EXPECT_TRUE(exchange->is_gone());
    exchange->end_stream();
    EXPECT_EQ(gone.count(), 1);
  }
  EXPECT_TRUE(is_idle_soon());
  EXPECT_EQ(statistics().left_clients, 100);
}

TEST_F(HttpHangUpTest, WhileTheAnswerIsSent) {
  serve();
  for (int i = 0; i < 10; ++i) {
    Client client(port());
    EXPECT_TRUE(client.send(get_text("/")));
    const std::shared_ptr<Exchange> exchange = desk_.take();
    ASSERT_NE(exchange, nullptr);
    Event gone;
    exchange->on_gone([&gone] { gone.set(); });
    exchange->respond({.body = std::string(8 << 20, 'x')});
    EXPECT_NE(client.read_some(), "");
    leave(client, Leave::reset);
    EXPECT_TRUE(gone.wait());
  }
  EXPECT_TRUE(is_idle_soon());
}

TEST_F(HttpHangUpTest, AnsweredClientsAreNotGone) {
  serve();
  Client client(port());
  EXPECT_TRUE(client.send(get_text("/")));
  const std::shared_ptr<Exchange> exchange = desk_.take();
  Event gone;
  exchange->on_gone([&gone] { gone.set(); });
  exchange->respond({});
  EXPECT_EQ(client.read().status, 200);
  client.close();
  EXPECT_TRUE(is_idle_soon());
  EXPECT_EQ(gone.count(), 0);
  EXPECT_FALSE(exchange->is_gone());
}

TEST_F(HttpHangUpTest, AClosedSendingSideIsStillAnswered) {
  serve();
  Client client(port());
  EXPECT_TRUE(client.send(str_cat(get_text("/"), get_text("/"))));
  client.shut_down();
  for (int i = 0; i < 2; ++i) {
    const std::shared_ptr<Exchange> exchange = desk_.take();
    ASSERT_NE(exchange, nullptr);
    EXPECT_TRUE(holds_soon([&exchange] { return exchange->is_gone(); }));
    exchange->respond({.body = "late"});
    EXPECT_EQ(client.read().body, "late");
  }
  EXPECT_TRUE(client.is_closed());
  EXPECT_TRUE(is_idle_soon());
}

TEST_F(HttpHangUpTest, AClosedSendingSideIsNotWaitedForLong) {
  serve([](HttpLimits& limits) { limits.write_timeout = 50ms; });
  Client client(port());
  EXPECT_TRUE(client.send(get_text("/")));
  client.shut_down();
  const std::shared_ptr<Exchange> exchange = desk_.take();
  EXPECT_TRUE(client.is_closed());
  EXPECT_TRUE(is_idle_soon());
}

TEST_F(HttpHangUpTest, InputAheadIsBounded) {
  serve([](HttpLimits& limits) { limits.header_bytes = 4096; });
  Client client(port(), Security::plain, 4096);
  EXPECT_TRUE(client.send(get_text("/")));
  const std::shared_ptr<Exchange> exchange = desk_.take();
  ASSERT_NE(exchange, nullptr);
  std::thread sender([&client] {
    EXPECT_FALSE(client.send(std::string(64 << 20, 'x')));  // more than the kernel holds
  });
  EXPECT_TRUE(holds_soon([this] { return statistics().received_bytes >= 4096; }));
  std::this_thread::sleep_for(20ms);
  EXPECT_LE(statistics().received_bytes, 3 * 4096);
  server_->stop();
  sender.join();
}

TEST_F(HttpHangUpTest, StreamsOfSlowReadersAreCutOff) {
  serve([](HttpLimits& limits) { limits.unsent_bytes = 64 << 10; });
  Client client(port(), Security::plain, 4096);
  EXPECT_TRUE(client.send(get_text("/")));
  const std::shared_ptr<Exchange> exchange = desk_.take();
  Event gone;
  exchange->on_gone([&gone] { gone.set(); });
  exchange->begin_stream({});
  const std::string piece(16 << 10, 'x');
  int pieces = 0;
  while (exchange->write(piece) && pieces < 4096) {
    ++pieces;
  }
  EXPECT_LT(pieces, 4096);
  EXPECT_TRUE(exchange->is_gone());
  EXPECT_TRUE(gone.wait());
  EXPECT_TRUE(is_idle_soon());
  EXPECT_EQ(statistics().dropped_readers, 1);
}

TEST_F(HttpHangUpTest, ReadersWithoutProgressAreDropped) {
  serve([](HttpLimits& limits) { limits.write_timeout = 100ms; });
  Client client(port(), Security::plain, 4096);
  EXPECT_TRUE(client.send(get_text("/")));
  const std::shared_ptr<Exchange> exchange = desk_.take();
  Event gone;
  exchange->on_gone([&gone] { gone.set(); });
  exchange->respond({.body = std::string(16 << 20, 'x')});
  EXPECT_TRUE(gone.wait());
  EXPECT_TRUE(is_idle_soon());
  EXPECT_EQ(statistics().dropped_readers, 1);
}

// Slower than it takes for the server's socket to ask for more bytes.
TEST_F(HttpHangUpTest, ReadersWithProgressAreNot) {
  serve([](HttpLimits& limits) { limits.write_timeout = 1s; });
  Client client(port(), Security::plain, 16 << 10);
  EXPECT_TRUE(client.send(get_text("/")));
  const std::shared_ptr<Exchange> exchange = desk_.take();
  exchange->respond({.body = std::string(16 << 20, 'x')});
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < 2250ms) {
    ASSERT_NE(client.read_some(), "");
    std::this_thread::sleep_for(25ms);
  }
  EXPECT_EQ(statistics().dropped_readers, 0);
  EXPECT_FALSE(exchange->is_gone());
}

TEST_F(HttpHangUpTest, SlowSenders) {
  serve([](HttpLimits& limits) {
    limits.header_timeout = 60ms;
    limits.body_timeout = 90ms;
  });
  Client slow_head(port());
  Client slow_body(port());
  const std::string request = post_text("/", "{}");
  EXPECT_TRUE(slow_head.send(request.substr(0, 5)));
  EXPECT_TRUE(slow_body.send(request.substr(0, request.size() - 1)));
  for (size_t i = 5; i < 100 && slow_head.send(request.substr(i, 1)); ++i) {
    if (slow_head.has_input_within(5ms)) {
      break;
    }
  }
  EXPECT_EQ(slow_head.read().status, 408);
  EXPECT_TRUE(slow_head.is_closed());
  EXPECT_EQ(slow_body.read().status, 408);
  EXPECT_TRUE(slow_body.is_closed());
  EXPECT_EQ(statistics().timeouts, 2);
  slow_head.close();
  slow_body.close();
  EXPECT_TRUE(is_idle_soon());
}

TEST_F(HttpHangUpTest, SilentClients) {
  serve([](HttpLimits& limits) { limits.idle_timeout = 50ms; });
  Client client(port());
  EXPECT_EQ(client.read_to_end(), "");
  EXPECT_EQ(statistics().timeouts, 0);
  EXPECT_TRUE(is_idle_soon());
}

TEST_F(HttpHangUpTest, EmptyLinesKeepNoConnectionOpen) {
  serve([](HttpLimits& limits) { limits.idle_timeout = 50ms; });
  Client client(port());
  for (int i = 0; i < 1000 && client.send("\r\n"); ++i) {
    if (client.has_input_within(2ms)) {
      break;
    }
  }
  EXPECT_TRUE(is_idle_soon());
}

TEST_F(HttpHangUpTest, TooManyConnections) {
  serve([](HttpLimits& limits) { limits.connections = 2; });
  Client first(port());
  Client second(port());
  EXPECT_TRUE(holds_soon([this] { return statistics().open_connections == 2; }));
  Client third(port());
  EXPECT_TRUE(third.send(get_text("/")));
  const Answer got = third.read();
  EXPECT_EQ(got.status, 503);
  EXPECT_EQ(got.header("Retry-After"), "1");
  EXPECT_TRUE(third.is_closed());
  third.close();
  second.close();
  EXPECT_TRUE(holds_soon([this] { return statistics().open_connections == 1; }));
  Client fourth(port());
  EXPECT_TRUE(fourth.send(get_text("/")));
  desk_.take()->respond({});
  EXPECT_EQ(fourth.read().status, 200);
  EXPECT_EQ(statistics().refused_connections, 1);
}

TEST_F(HttpHangUpTest, NoDescriptorsLeft) {
  if (tessera::test::kHasAddressSanitizer) {
    GTEST_SKIP() << "the sanitizer needs descriptors";
  }
  serve();
  {
    // Behind its first answer the server waits for connections. Before, it may be in accept(),
    // which takes a descriptor before it looks whether there is a connection.
    Client first(port());
    EXPECT_TRUE(first.send(get_text("/")));
    desk_.take()->respond({});
    EXPECT_EQ(first.read().status, 200);
  }
  EXPECT_TRUE(is_idle_soon());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest_free = ::dup(0);
  ASSERT_GE(lowest_free, 0);
  ::close(lowest_free);
  const rlimit tight{static_cast<rlim_t>(lowest_free) + 8, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  std::vector<int> filled;  // all but one
  for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) {
    filled.push_back(fd);
  }
  ASSERT_FALSE(filled.empty());
  ::close(filled.back());
  filled.pop_back();
  {
    Client client(port());  // takes the last descriptor
    EXPECT_TRUE(client.is_closed());
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  for (const int fd : filled) {
    ::close(fd);
  }
  EXPECT_EQ(statistics().accept_failures, 1);
  EXPECT_EQ(statistics().accepted_connections, 1);
  Client client(port());
  EXPECT_TRUE(client.send(get_text("/")));
  desk_.take()->respond({});
  EXPECT_EQ(client.read().status, 200);
}

TEST_F(HttpHangUpTest, StopEndsEverything) {
  serve();
  Client idle(port());
  Client waiting(port());
  EXPECT_TRUE(waiting.send(get_text("/")));
  const std::shared_ptr<Exchange> unanswered = desk_.take();
  Client reading(port());
  EXPECT_TRUE(reading.send(get_text("/")));
  const std::shared_ptr<Exchange> streaming = desk_.take();
  streaming->begin_stream({});
  EXPECT_TRUE(streaming->write("piece"));
  Event gone;
  unanswered->on_gone([&gone] { gone.set(); });
  streaming->on_gone([&gone] { gone.set(); });
  server_->stop();
  EXPECT_EQ(gone.count(), 2);
  EXPECT_FALSE(streaming->write("piece"));
  unanswered->respond({});
  EXPECT_TRUE(idle.is_closed());
  EXPECT_EQ(waiting.read_to_end(), "");
  reading.read_to_end();
  EXPECT_EQ(statistics().open_connections, 0);
  EXPECT_EQ(statistics().active_requests, 0);
  server_->stop();  // again
  server_.reset();
  EXPECT_FALSE(streaming->write("piece"));  // outlives the server
  EXPECT_TRUE(unanswered->is_gone());
}

TEST_F(HttpHangUpTest, StopUnderLoad) {
  std::atomic<bool> has_stopped = false;
  std::atomic<int> handled_late = 0;
  HttpOptions options = local_options();
  options.io_threads = 2;
  options.handler_threads = 3;
  HttpServer server(options, [&](const std::shared_ptr<Exchange>& exchange) {
    handled_late += has_stopped ? 1 : 0;
    exchange->begin_stream({});
    exchange->write("a");
    exchange->end_stream();
  });
  Event begun;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!has_stopped) {
        Client client(server.port());
        for (int j = 0; j < 20 && client.get("/").is_whole; ++j) {
          begun.set();
        }
      }
    });
  }
  EXPECT_TRUE(begun.wait(50));
  server.stop();
  has_stopped = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(handled_late, 0);
  EXPECT_EQ(server.statistics().active_requests, 0);
}

TEST_F(HttpHangUpTest, OneStreamFromManyThreads) {
  serve();
  Client client(port());
  EXPECT_TRUE(client.send(get_text("/")));
  const std::shared_ptr<Exchange> exchange = desk_.take();
  exchange->begin_stream({});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&exchange] {
      for (int j = 0; j < 500; ++j) {
        EXPECT_TRUE(exchange->write("0123456789"));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  exchange->end_stream();
  const Answer got = client.read();
  EXPECT_TRUE(got.is_whole);
  EXPECT_EQ(got.body.size(), 20'000u);
}

}  // namespace
}  // namespace tessera::server
