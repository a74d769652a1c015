#include "tests/support/scripted_http_server.h"

#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <list>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "base/str_cat.h"

namespace tessera::test {
namespace {

// Writing to a connection that the client has closed must not end the test program.
void block_sigpipe() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

int listen_on_loopback(int& port) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (listener < 0 || ::bind(listener, generic, size) != 0 || ::listen(listener, 64) != 0 ||
      ::getsockname(listener, generic, &size) != 0) {
    throw std::runtime_error("cannot listen on 127.0.0.1");
  }
  port = ntohs(address.sin_port);
  return listener;
}

class SocketConnection final : public ScriptedHttpServer::Connection {
 public:
  SocketConnection(int socket, const std::atomic<bool>& is_stopping)
      : socket_(socket), is_stopping_(is_stopping) {}
  ~SocketConnection() override {
    SSL_free(tls_);
    ::close(socket_);
  }

  bool start_tls(SSL_CTX* context) {
    tls_ = SSL_new(context);
    return SSL_set_fd(tls_, socket_) == 1 && SSL_accept(tls_) == 1;
  }

  bool read_request() {
    std::array<char, 4096> block;
    while (request_.find("\r\n\r\n") == std::string::npos) {
      const auto got = tls_ != nullptr
                           ? SSL_read(tls_, block.data(), static_cast<int>(block.size()))
                           : static_cast<int>(::recv(socket_, block.data(), block.size(), 0));
      if (got <= 0) {
        return false;
      }
      request_.append(block.data(), static_cast<size_t>(got));
      if (!request_.starts_with("GET ")) {  // a client that speaks TLS, for one
        return false;
      }
    }
    return true;
  }

  const std::string& request() const override { return request_; }

  bool send(std::string_view bytes) override {
    while (!bytes.empty() && !is_stopping_) {
      const auto sent =
          tls_ != nullptr
              ? SSL_write(tls_, bytes.data(), static_cast<int>(bytes.size()))
              : static_cast<int>(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL));
      if (sent <= 0) {
        return false;
      }
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return !is_stopping_;
  }

  bool wait(std::chrono::milliseconds time) override {
    pollfd events{socket_, POLLRDHUP, 0};
    return ::poll(&events, 1, static_cast<int>(time.count())) == 0 && !is_stopping_;
  }

  // Makes all reads and writes of the script's thread fail.
  void shut_down() { ::shutdown(socket_, SHUT_RDWR); }

  // Lets the client read what was sent before the socket is closed.
  void say_goodbye() {
    if (tls_ != nullptr) {
      SSL_shutdown(tls_);
    }
    ::shutdown(socket_, SHUT_WR);
  }

 private:
  int socket_;
  const std::atomic<bool>& is_stopping_;
  SSL* tls_ = nullptr;
  std::string request_;
};

}  // namespace

std::string ScriptedHttpServer::Connection::path() const {
  const size_t begin = request().find(' ') + 1;
  return request().substr(begin, request().find(' ', begin) - begin);
}

bool ScriptedHttpServer::Connection::answer(std::string_view status, std::string_view headers,
                                            std::string_view body) {
  return send(str_cat("HTTP/1.1 ", status, "\r\n", headers, "\r\n", body));
}

class ScriptedHttpServer::State {
 public:
  State(Script script, SSL_CTX* tls)
      : script_(std::move(script)), tls_(tls), listener_(listen_on_loopback(port_)) {
    acceptor_ = std::thread([this] { accept_all(); });
  }

  ~State() {
    is_stopping_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    ::close(listener_);
    for (Worker& worker : workers_) {
      worker.connection.shut_down();
      worker.thread.join();
    }
  }

  int port() const { return port_; }

  std::vector<std::string> requests() const {
    const std::lock_guard guard(mutex_);
    return requests_;
  }

  int connections() const { return connections_; }

 private:
  struct Worker {
    Worker(int socket, const std::atomic<bool>& is_stopping) : connection(socket, is_stopping) {}
    SocketConnection connection;
    std::thread thread;
  };

  void accept_all() {
    block_sigpipe();
    while (!is_stopping_) {
      const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (socket < 0) {
        return;
      }
      ++connections_;
      Worker& worker = workers_.emplace_back(socket, is_stopping_);
      worker.thread = std::thread([this, &worker] { serve(worker.connection); });
    }
  }

  void serve(SocketConnection& connection) {
    if ((tls_ != nullptr && !connection.start_tls(tls_)) || !connection.read_request()) {
      connection.shut_down();
      return;
    }
    {
      const std::lock_guard guard(mutex_);
      requests_.push_back(connection.request());
    }
    script_(connection);
    connection.say_goodbye();
  }

  Script script_;
  SSL_CTX* tls_;
  int port_ = 0;
  int listener_;
  std::atomic<bool> is_stopping_ = false;
  std::atomic<int> connections_ = 0;
  std::list<Worker> workers_;  // of the acceptor, until it has ended
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  std::thread acceptor_;
};

ScriptedHttpServer::ScriptedHttpServer(Script script, ssl_ctx_st* tls)
    : state_(std::make_unique<State>(std::move(script), tls)) {}

ScriptedHttpServer::~ScriptedHttpServer() = default;

int ScriptedHttpServer::port() const { return state_->port(); }

std::string ScriptedHttpServer::url(std::string_view path, std::string_view host) const {
  return str_cat("http://", host, ":", port(), path);
}

std::vector<std::string> ScriptedHttpServer::requests() const { return state_->requests(); }

int ScriptedHttpServer::connections() const { return state_->connections(); }

}  // namespace tessera::test
