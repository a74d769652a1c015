// Sockets, clocks and threads of the server: the one place that knows Asio. Internal to the
// transport.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "server/http_options.h"
#include "server/http_tls.h"

namespace tessera::server {

enum class IoEnd { none, closed, failed };  // closed: by the other side, in order

struct IoResult {
  int64_t bytes = 0;
  IoEnd end = IoEnd::none;
};

// One connection's bytes, clock and order of events: all that it calls back comes one after the
// other. Functions are for use inside such calls; only post() may be called from any thread. At
// most one read and one write at a time.
class HttpStream {
 public:
  using Clock = std::chrono::steady_clock;

  HttpStream() = default;
  virtual ~HttpStream() = default;
  HttpStream(const HttpStream&) = delete;
  HttpStream& operator=(const HttpStream&) = delete;

  virtual void post(std::function<void()> work) = 0;
  virtual void handshake(std::function<void(bool is_ok)> done) = 0;
  virtual void read_some(std::span<char> into, std::function<void(IoResult)> done) = 0;
  virtual void write_some(std::string_view bytes, std::function<void(IoResult)> done) = 0;
  // Takes the place of the last call; not called back after close().
  virtual void wake_at(Clock::time_point time, std::function<void()> done) = 0;
  // No more bytes will be written. Keeps `owner` alive as long as it needs the stream.
  virtual void shut_down(std::shared_ptr<void> owner) = 0;
  virtual void close() = 0;                    // ends what is under way
  virtual int64_t unacknowledged_bytes() = 0;  // written, and not at the other side yet

  virtual const std::string& peer() const = 0;           // "127.0.0.1:54321"
  virtual const std::string& local_address() const = 0;  // "127.0.0.1"
};

// Accepts connections on threads of its own.
class HttpIo {
 public:
  using OnStream = std::function<void(std::unique_ptr<HttpStream>)>;

  // Listens when it returns, accepts from start() on. `identity` may be nullptr: no TLS.
  HttpIo(const HttpOptions& options, std::shared_ptr<const TlsIdentity> identity);
  ~HttpIo();

  void start(int threads, OnStream on_stream);
  uint16_t port() const;
  void set_identity(std::shared_ptr<const TlsIdentity> identity);  // of new connections
  void stop_accepting();  // the port is closed when it returns; not from an I/O thread
  // Returns when all connections are closed; the caller has closed them. Not from an I/O thread.
  void finish();
  int64_t accept_failures() const;  // for want of descriptors or memory

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::server
