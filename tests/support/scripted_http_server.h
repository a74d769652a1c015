// A server on 127.0.0.1 that answers each HTTP request as a script says, also wrongly.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct ssl_ctx_st;

namespace tessera::test {

class ScriptedHttpServer {
 public:
  // One accepted connection whose request has been read.
  class Connection {
   public:
    Connection() = default;
    virtual ~Connection() = default;
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    virtual const std::string& request() const = 0;  // the head, with its last empty line
    std::string path() const;                        // "/a?b" of "GET /a?b HTTP/1.1"

    // False when the client or the server has gone; then the script should return.
    virtual bool send(std::string_view bytes) = 0;
    virtual bool wait(std::chrono::milliseconds time) = 0;

    // A head of "STATUS REASON" and headers of "Name: value\r\n", then the body.
    bool answer(std::string_view status, std::string_view headers, std::string_view body);
  };

  // Runs on a thread of its own for each connection, which is closed when it returns.
  using Script = std::function<void(Connection&)>;

  // Speaks TLS if `tls` is given; it has to outlive the server.
  explicit ScriptedHttpServer(Script script, ssl_ctx_st* tls = nullptr);
  ~ScriptedHttpServer();  // ends all connections and waits for the scripts
  ScriptedHttpServer(const ScriptedHttpServer&) = delete;
  ScriptedHttpServer& operator=(const ScriptedHttpServer&) = delete;

  int port() const;
  // "http://HOST:PORT/PATH"
  std::string url(std::string_view path, std::string_view host = "127.0.0.1") const;
  std::vector<std::string> requests() const;  // heads, in the order of their arrival
  int connections() const;                    // accepted, also those without a request

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::test
