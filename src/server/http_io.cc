#include "server/http_io.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <cerrno>
#include <future>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/str_cat.h"

namespace tessera::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Strand = asio::strand<asio::io_context::executor_type>;
using Socket = asio::basic_stream_socket<tcp, Strand>;
using TlsSocket = asio::ssl::stream<Socket>;
using Timer =
    asio::basic_waitable_timer<HttpStream::Clock, asio::wait_traits<HttpStream::Clock>, Strand>;

constexpr std::chrono::milliseconds kAcceptPause{100};

// An address of the form ::ffff:1.2.3.4 is what an IPv6 socket sees of IPv4.
std::string address_text(asio::ip::address address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  }
  return address.to_string();
}

IoResult io_result(const error_code& code, size_t bytes) {
  const bool is_end = code == asio::error::eof || code == asio::ssl::error::stream_truncated;
  return {static_cast<int64_t>(bytes),
          !code ? IoEnd::none : (is_end ? IoEnd::closed : IoEnd::failed)};
}

// Keeps what it needs of the identity.
SSL* new_session(const TlsIdentity& identity) {
  SSL* const session = SSL_new(identity.context());
  if (session == nullptr) {
    throw Error(ErrorCode::out_of_memory, "no memory for a TLS session");
  }
  return session;
}

template <class Layer>
class AsioStream final : public HttpStream {
 public:
  AsioStream(Socket socket, const std::shared_ptr<const TlsIdentity>& identity) requires
      std::is_same_v<Layer, TlsSocket> : layer_(std::move(socket), new_session(*identity)) {
    set_up();
  }
  explicit AsioStream(Socket socket) requires std::is_same_v<Layer, Socket>
      : layer_(std::move(socket)) {
    set_up();
  }

  void post(std::function<void()> work) override { asio::post(strand(), std::move(work)); }

  void handshake(std::function<void(bool)> done) override {
    if constexpr (std::is_same_v<Layer, TlsSocket>) {
      layer_.async_handshake(asio::ssl::stream_base::server,
                             [done = std::move(done)](const error_code& code) { done(!code); });
    } else {
      post([done = std::move(done)] { done(true); });
    }
  }

  void read_some(std::span<char> into, std::function<void(IoResult)> done) override {
    layer_.async_read_some(asio::buffer(into.data(), into.size()),
                           [done = std::move(done)](const error_code& code, size_t bytes) {
                             done(io_result(code, bytes));
                           });
  }

  void write_some(std::string_view bytes, std::function<void(IoResult)> done) override {
    layer_.async_write_some(asio::buffer(bytes.data(), bytes.size()),
                            [done = std::move(done)](const error_code& code, size_t written) {
                              done(io_result(code, written));
                            });
  }

  void wake_at(Clock::time_point time, std::function<void()> done) override {
    timer_.expires_at(time);
    timer_.async_wait([done = std::move(done)](const error_code& code) {
      if (!code) {
        done();
      }
    });
  }

  void shut_down(std::shared_ptr<void> owner) override {
    if constexpr (std::is_same_v<Layer, TlsSocket>) {
      // Waits for the client's end too; at the latest close() ends it.
      layer_.async_shutdown([owner = std::move(owner)](const error_code&) {});
    } else {
      error_code ignored;
      socket().shutdown(Socket::shutdown_send, ignored);
    }
  }

  void close() override {
    error_code ignored;
    timer_.cancel();
    socket().close(ignored);
  }

  int64_t unacknowledged_bytes() override {
    int bytes = 0;
    return ::ioctl(socket().native_handle(), SIOCOUTQ, &bytes) == 0 ? bytes : 0;
  }

  const std::string& peer() const override { return peer_; }
  const std::string& local_address() const override { return local_address_; }

 private:
  Socket& socket() {
    if constexpr (std::is_same_v<Layer, TlsSocket>) {
      return layer_.next_layer();
    } else {
      return layer_;
    }
  }
  Strand strand() { return socket().get_executor(); }

  void set_up() {
    error_code code;
    socket().set_option(tcp::no_delay(true), code);
    const tcp::endpoint peer = socket().remote_endpoint(code);
    const std::string address = address_text(peer.address());
    peer_ = peer.address().is_v6() && address.find(':') != std::string::npos
                ? str_cat("[", address, "]:", peer.port())
                : str_cat(address, ":", peer.port());
    local_address_ = address_text(socket().local_endpoint(code).address());
  }

  Layer layer_;
  Timer timer_{strand()};
  std::string peer_;
  std::string local_address_;
};

tcp::endpoint endpoint_of(asio::io_context& io, const HttpOptions& options) {
  error_code code;
  const asio::ip::address address = asio::ip::make_address(options.address, code);
  if (!code) {
    return {address, options.port};
  }
  const auto found = tcp::resolver(io).resolve(options.address, str_cat(options.port), code);
  if (code || found.empty()) {
    throw Error(ErrorCode::io, str_cat("address '", options.address, "' is unknown: ",
                                       code.message(), "; give an IP address of this machine"));
  }
  return found.begin()->endpoint();
}

bool is_shortage(const error_code& code) {
  const int number = code.value();
  return number == EMFILE || number == ENFILE || number == ENOMEM || number == ENOBUFS;
}

// A descriptor that is given up to accept and close one connection when there are no others left.
class ReserveDescriptor {
 public:
  ReserveDescriptor() { take(); }
  ~ReserveDescriptor() { give_up(); }
  ReserveDescriptor(const ReserveDescriptor&) = delete;
  ReserveDescriptor& operator=(const ReserveDescriptor&) = delete;

  // Nothing if it is there; another thread may have taken what was given up.
  void take() {
    if (descriptor_ < 0) {
      descriptor_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
  }
  void give_up() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
    descriptor_ = -1;
  }

 private:
  int descriptor_ = -1;
};

}  // namespace

class HttpIo::State {
 public:
  State(const HttpOptions& options, std::shared_ptr<const TlsIdentity> identity)
      : identity_(std::move(identity)) {
    const tcp::endpoint endpoint = endpoint_of(io_, options);
    try {
      acceptor_.open(endpoint.protocol());
      acceptor_.set_option(tcp::acceptor::reuse_address(true));
      acceptor_.bind(endpoint);
      acceptor_.listen();
      port_ = acceptor_.local_endpoint().port();
    } catch (const boost::system::system_error& error) {
      throw Error(ErrorCode::io,
                  str_cat("cannot listen on ", options.address, " port ", options.port, ": ",
                          error.code().message(), "; choose another address or port"));
    }
  }

  ~State() { finish(); }

  void start(int threads, OnStream on_stream) {
    on_stream_ = std::move(on_stream);
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this] { run(); });
    }
    asio::post(strand_, [this] { accept_next(); });
  }

  uint16_t port() const { return port_; }
  int64_t accept_failures() const { return accept_failures_; }

  void set_identity(std::shared_ptr<const TlsIdentity> identity) {
    const std::lock_guard guard(mutex_);
    identity_ = std::move(identity);
  }

  void stop_accepting() {
    if (threads_.empty()) {
      close_acceptor();
      return;
    }
    std::promise<void> closed;
    asio::post(strand_, [this, &closed] {
      close_acceptor();
      closed.set_value();
    });
    closed.get_future().wait();
  }

  void finish() {
    if (is_finished_) {
      return;
    }
    is_finished_ = true;
    stop_accepting();
    work_.reset();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

 private:
  void run() {
    while (true) {
      try {
        io_.run();
        return;
      } catch (const std::exception& error) {
        log_line(LogLevel::error, str_cat("http: a connection was lost: ", error.what()));
      }
    }
  }

  void close_acceptor() {
    error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
  }

  void accept_next() {
    if (!acceptor_.is_open()) {
      return;
    }
    acceptor_.async_accept(asio::make_strand(io_), [this](const error_code& code, Socket socket) {
      if (!acceptor_.is_open()) {
        return;
      }
      if (!code) {
        is_short_ = false;
        reserve_.take();
        hand_over(std::move(socket));
      } else if (code.value() != ECONNABORTED) {
        pause_accepting(code);
        return;
      }
      accept_next();
    });
  }

  void hand_over(Socket socket) {
    std::shared_ptr<const TlsIdentity> identity;
    {
      const std::lock_guard guard(mutex_);
      identity = identity_;
    }
    try {
      if (identity == nullptr) {
        on_stream_(std::make_unique<AsioStream<Socket>>(std::move(socket)));
      } else {
        on_stream_(std::make_unique<AsioStream<TlsSocket>>(std::move(socket), identity));
      }
    } catch (const std::exception& error) {
      log_line(LogLevel::error, str_cat("http: a connection was not taken: ", error.what()));
    }
  }

  void pause_accepting(const error_code& code) {
    ++accept_failures_;
    if (!is_short_) {
      log_line(LogLevel::warning,
               str_cat("http: no connection can be accepted: ", code.message(),
                       "; raise the limit of open files, or lower that of connections"));
    }
    is_short_ = true;
    if (is_shortage(code)) {
      reserve_.give_up();
      const int socket = ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC);
      if (socket >= 0) {
        ::close(socket);
      }
      reserve_.take();
    }
    pause_.expires_after(kAcceptPause);
    pause_.async_wait([this](const error_code& stopped) {
      if (!stopped) {
        reserve_.take();
        accept_next();
      }
    });
  }

  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(io_);
  Strand strand_ = asio::make_strand(io_);
  asio::basic_socket_acceptor<tcp, Strand> acceptor_{strand_};
  Timer pause_{strand_};
  ReserveDescriptor reserve_;
  OnStream on_stream_;
  uint16_t port_ = 0;
  bool is_short_ = false;
  bool is_finished_ = false;
  std::atomic<int64_t> accept_failures_ = 0;
  std::mutex mutex_;
  std::shared_ptr<const TlsIdentity> identity_;
  std::vector<std::thread> threads_;
};

HttpIo::HttpIo(const HttpOptions& options, std::shared_ptr<const TlsIdentity> identity)
    : state_(std::make_unique<State>(options, std::move(identity))) {}

HttpIo::~HttpIo() = default;

void HttpIo::start(int threads, OnStream on_stream) {
  state_->start(threads, std::move(on_stream));
}

uint16_t HttpIo::port() const { return state_->port(); }

void HttpIo::set_identity(std::shared_ptr<const TlsIdentity> identity) {
  state_->set_identity(std::move(identity));
}

void HttpIo::stop_accepting() { state_->stop_accepting(); }

void HttpIo::finish() { state_->finish(); }

int64_t HttpIo::accept_failures() const { return state_->accept_failures(); }

}  // namespace tessera::server
