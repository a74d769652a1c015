// The client of http_test.h.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <thread>

#include "base/ascii.h"
#include "base/str_cat.h"
#include "server/http_test.h"

namespace tessera::server::test {
namespace {

constexpr std::chrono::milliseconds kPatience{120'000};

SSL_CTX* client_context() {
  static SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  return context;
}

}  // namespace

std::string Answer::header(std::string_view name) const {
  size_t begin = head.find("\r\n");
  while (begin != std::string::npos && begin + 4 < head.size()) {
    begin += 2;
    const size_t end = head.find("\r\n", begin);
    const std::string_view line = std::string_view(head).substr(begin, end - begin);
    const size_t colon = line.find(':');
    if (is_equal_in_any_case(line.substr(0, colon), name)) {
      return std::string(trim(line.substr(colon + 1), kHttpBlanks));
    }
    begin = end;
  }
  return "";
}

class Client::State {
 public:
  State(uint16_t port, Security security, int receive_buffer)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    ::signal(SIGPIPE, SIG_IGN);  // of OpenSSL's writes
    if (receive_buffer > 0) {
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    }
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    if (security == Security::tls && is_connected_) {
      tls_ = SSL_new(client_context());
      const int result = SSL_set_fd(tls_, socket_) == 1 ? SSL_connect(tls_) : 0;
      is_connected_ = result == 1;
      EXPECT_TRUE(is_connected_) << "TLS error " << SSL_get_error(tls_, result) << ", "
                                 << std::strerror(errno) << ", "
                                 << ERR_error_string(ERR_peek_error(), nullptr);
    }
  }
  ~State() { close(); }

  bool send(std::string_view bytes) {
    while (!bytes.empty() && is_connected_) {
      const int sent =
          tls_ != nullptr
              ? SSL_write(tls_, bytes.data(), static_cast<int>(bytes.size()))
              : static_cast<int>(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL));
      if (sent <= 0) {
        return false;
      }
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return is_connected_;
  }

  bool has_input_within(std::chrono::milliseconds time) {
    if (!buffer.empty() || (tls_ != nullptr && SSL_pending(tls_) > 0)) {
      return true;
    }
    pollfd events{socket_, POLLIN, 0};
    return ::poll(&events, 1, static_cast<int>(time.count())) > 0;
  }

  // False at the end, after an error, or after a silence.
  bool receive() {
    std::array<char, 65536> block;
    if (!is_connected_ || !has_input_within(kPatience)) {
      is_silent = true;
      return false;
    }
    const int got = tls_ != nullptr
                        ? SSL_read(tls_, block.data(), static_cast<int>(block.size()))
                        : static_cast<int>(::recv(socket_, block.data(), block.size(), 0));
    if (got <= 0) {
      return false;
    }
    buffer.append(block.data(), static_cast<size_t>(got));
    return true;
  }

  bool receive_until(size_t bytes) {
    while (buffer.size() < bytes) {
      if (!receive()) {
        return false;
      }
    }
    return true;
  }

  // Position behind `text`, or npos.
  size_t receive_text(std::string_view text, size_t from) {
    while (true) {
      const size_t found = buffer.find(text, from);
      if (found != std::string::npos) {
        return found + text.size();
      }
      if (!receive()) {
        return std::string::npos;
      }
    }
  }

  void shut_down() { ::shutdown(socket_, SHUT_WR); }

  void reset() {
    const linger now{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close();
  }

  void close() {
    SSL_free(std::exchange(tls_, nullptr));
    if (socket_ >= 0) {
      ::close(socket_);
    }
    socket_ = -1;
    is_connected_ = false;
  }

  std::string certificate_name() {
    std::array<char, 128> text{};
    X509* const certificate = tls_ != nullptr ? SSL_get1_peer_certificate(tls_) : nullptr;
    if (certificate != nullptr) {
      X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, text.data(),
                                static_cast<int>(text.size()));
      X509_free(certificate);
    }
    return text.data();
  }

  bool read_chunks(std::string& body) {
    while (true) {
      const size_t line_end = receive_text("\r\n", 0);
      size_t size = 0;
      if (line_end == std::string::npos ||
          std::from_chars(buffer.data(), buffer.data() + line_end, size, 16).ec != std::errc() ||
          !receive_until(line_end + size + 2)) {
        return false;
      }
      body.append(buffer, line_end, size);
      buffer.erase(0, line_end + size + 2);
      if (size == 0) {
        return true;
      }
    }
  }

  std::string buffer;
  bool is_silent = false;

 private:
  int socket_;
  SSL* tls_ = nullptr;
  bool is_connected_ = false;
};

Client::Client(uint16_t port, Security security, int receive_buffer)
    : state_(std::make_unique<State>(port, security, receive_buffer)) {}

Client::~Client() = default;

bool Client::send(std::string_view bytes) { return state_->send(bytes); }

Answer Client::read(std::string_view method) {
  Answer out;
  std::string& buffer = state_->buffer;
  const size_t head_end = state_->receive_text("\r\n\r\n", 0);
  if (head_end == std::string::npos || !buffer.starts_with("HTTP/1.1 ")) {
    return out;
  }
  out.head = buffer.substr(0, head_end);
  buffer.erase(0, head_end);
  EXPECT_TRUE(parse_number(std::string_view(out.head).substr(9, 3), out.status));
  size_t length = 0;
  if (method == "HEAD" || out.status < 200 || out.status == 204) {
    out.is_whole = true;
  } else if (out.header("Transfer-Encoding") == "chunked") {
    out.is_whole = state_->read_chunks(out.body);
  } else if (parse_number(out.header("Content-Length"), length)) {
    out.is_whole = state_->receive_until(length);
    out.body = buffer.substr(0, length);
    buffer.erase(0, length);
  } else {
    out.body = read_to_end();
    out.is_whole = true;
  }
  return out;
}

Answer Client::get(std::string_view path) { return send(get_text(path)) ? read() : Answer(); }

Answer Client::post(std::string_view path, std::string_view body) {
  return send(post_text(path, body)) ? read() : Answer();
}

std::string Client::read_some() {
  if (state_->buffer.empty()) {
    state_->receive();
  }
  return std::exchange(state_->buffer, {});
}

std::string Client::read_to_end() {
  while (state_->receive()) {
  }
  EXPECT_FALSE(state_->is_silent) << "the server keeps the connection open";
  return std::exchange(state_->buffer, {});
}

bool Client::is_closed() { return !state_->receive() && !state_->is_silent; }

bool Client::has_input_within(std::chrono::milliseconds time) {
  return state_->has_input_within(time);
}

void Client::shut_down() { state_->shut_down(); }

void Client::reset() { state_->reset(); }

void Client::close() { state_->close(); }

std::string Client::certificate_name() { return state_->certificate_name(); }

std::string get_text(std::string_view path, std::string_view more_headers) {
  return str_cat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\n", more_headers, "\r\n");
}

std::string post_text(std::string_view path, std::string_view body, std::string_view more_headers) {
  return str_cat("POST ", path,
                 " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 "Content-Length: ",
                 body.size(), "\r\n", more_headers, "\r\n", body);
}

void Event::set() {
  const std::lock_guard guard(mutex_);
  ++count_;
  changed_.notify_all();
}

bool Event::wait(int times) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [this, times] { return count_ >= times; });
}

int Event::count() {
  const std::lock_guard guard(mutex_);
  return count_;
}

bool holds_soon(const std::function<bool()>& condition) {
  for (auto waited = 0ms; waited < kPatience; waited += 1ms) {
    if (condition()) {
      return true;
    }
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

HttpOptions local_options() {
  HttpOptions options;
  options.port = 0;
  return options;
}

}  // namespace tessera::server::test
