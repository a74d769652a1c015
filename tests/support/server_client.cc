#include "tests/support/server_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"

namespace tessera::test {
namespace {

bool is_same_name(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

size_t number_of(std::string_view text, int base) {
  size_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

}  // namespace

std::string HttpAnswer::header(std::string_view name) const {
  for (size_t begin = head.find("\r\n"); begin != std::string::npos;) {
    begin += 2;
    const size_t end = head.find("\r\n", begin);
    const std::string_view line = std::string_view(head).substr(begin, end - begin);
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos && is_same_name(line.substr(0, colon), name)) {
      const size_t value = line.find_first_not_of(' ', colon + 1);
      return value == std::string_view::npos ? "" : std::string(line.substr(value));
    }
    begin = end;
  }
  return "";
}

io::Json HttpAnswer::json() const {
  try {
    return io::parse_json(body, "answer");
  } catch (const Error& error) {
    ADD_FAILURE() << "status " << status << ", no JSON: " << error.what() << ": '"
                  << body.substr(0, 300) << "'";
    return {};
  }
}

std::string http_request(std::string_view method, std::string_view path, std::string_view body,
                         const HttpFields& more) {
  HttpFields fields = {{"Host", "localhost"}};
  if (!body.empty()) {
    fields.push_back({"Content-Type", "application/json"});
    fields.push_back({"Content-Length", str_cat(body.size())});
  }
  for (const auto& field : more) {
    const auto same = std::find_if(fields.begin(), fields.end(), [&](const auto& f) {
      return is_same_name(f.first, field.first);
    });
    if (same != fields.end()) {
      same->second = field.second;
    } else {
      fields.push_back(field);
    }
  }
  std::string text = str_cat(method, " ", path, " HTTP/1.1\r\n");
  for (const auto& [name, value] : fields) {
    text += str_cat(name, ": ", value, "\r\n");
  }
  return str_cat(text, "\r\n", body);
}

HttpConnection::HttpConnection(int port)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int on = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    close();
  }
}

HttpConnection::~HttpConnection() { close(); }

HttpConnection::HttpConnection(HttpConnection&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      bytes_(std::move(other.bytes_)),
      answer_(std::move(other.answer_)) {}

void HttpConnection::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) {
      return;  // the answer tells why: an early refusal
    }
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

bool HttpConnection::receive() {
  std::array<char, 65536> block;
  pollfd wait = {.fd = socket_, .events = POLLIN, .revents = 0};
  if (socket_ < 0 || ::poll(&wait, 1, kPatienceMs) <= 0) {
    return false;
  }
  const ssize_t count = ::recv(socket_, block.data(), block.size(), 0);
  if (count > 0) {
    bytes_.append(block.data(), static_cast<size_t>(count));
  }
  return count > 0;
}

// Whether the head has come.
bool HttpConnection::take_head() {
  if (answer_.status != 0) {
    return true;
  }
  const size_t end = bytes_.find("\r\n\r\n");
  if (end == std::string::npos) {
    return false;
  }
  answer_.head = bytes_.substr(0, end + 4);
  bytes_.erase(0, end + 4);
  answer_.status = static_cast<int>(number_of(std::string_view(answer_.head).substr(9, 3), 10));
  return true;
}

// Moves what has come of the body; whether that is all of it.
bool HttpConnection::take_body() {
  if (answer_.header("Transfer-Encoding") != "chunked") {
    const size_t length = number_of(answer_.header("Content-Length"), 10);
    const size_t count = std::min(length - answer_.body.size(), bytes_.size());
    answer_.body.append(bytes_, 0, count);
    bytes_.erase(0, count);
    return answer_.body.size() == length;
  }
  while (true) {
    const size_t line = bytes_.find("\r\n");
    if (line == std::string::npos) {
      return false;
    }
    const size_t size = number_of(std::string_view(bytes_).substr(0, line), 16);
    if (bytes_.size() < line + 2 + size + 2) {
      return false;
    }
    EXPECT_EQ(bytes_.substr(line + 2 + size, 2), "\r\n") << "framing of chunks";
    if (size > 0) {
      answer_.chunks.push_back(bytes_.substr(line + 2, size));
      answer_.body += answer_.chunks.back();
    }
    bytes_.erase(0, line + 2 + size + 2);
    if (size == 0) {
      return true;
    }
  }
}

HttpAnswer HttpConnection::read() {
  while (!take_head() || !take_body()) {
    if (!receive()) {
      return std::exchange(answer_, {});
    }
  }
  answer_.is_whole = true;
  return std::exchange(answer_, {});
}

HttpAnswer HttpConnection::read_until(std::string_view text) {
  while (true) {
    const bool is_whole = take_head() && take_body();
    if (is_whole || answer_.body.find(text) != std::string::npos || !receive()) {
      HttpAnswer answer = answer_;
      answer.is_whole = is_whole;
      return answer;
    }
  }
}

HttpAnswer HttpConnection::ask(std::string_view method, std::string_view path,
                               std::string_view body, const HttpFields& more) {
  send(http_request(method, path, body, more));
  return read();
}

bool HttpConnection::is_closed_by_server() {
  while (receive()) {
  }
  pollfd wait = {.fd = socket_, .events = POLLIN, .revents = 0};
  return socket_ < 0 || ::poll(&wait, 1, 0) > 0;
}

void HttpConnection::close() {
  if (socket_ >= 0) {
    ::close(std::exchange(socket_, -1));
  }
}

void HttpConnection::reset() {
  const linger now = {.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  close();
}

}  // namespace tessera::test
