// One connection: reads requests, hands them to the handler, sends the answers. Internal to the
// transport.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "server/http_exchange_state.h"
#include "server/http_handler_pool.h"
#include "server/http_io.h"
#include "server/http_parser.h"

namespace tessera::server {

class HttpConnection;

struct HttpCounters {
  std::atomic<int64_t> accepted = 0;
  std::atomic<int64_t> refused = 0;
  std::atomic<int64_t> requests = 0;
  std::atomic<int64_t> active_requests = 0;
  std::atomic<int64_t> transport_errors = 0;
  std::atomic<int64_t> timeouts = 0;
  std::atomic<int64_t> dropped_readers = 0;
  std::atomic<int64_t> left_clients = 0;
  std::atomic<int64_t> received_bytes = 0;
  std::atomic<int64_t> sent_bytes = 0;
};

// All open connections, so that they can be closed.
class ConnectionList {
 public:
  // False after close_all(): then the connection has to go.
  bool add(const std::shared_ptr<HttpConnection>& connection);
  void remove(const HttpConnection* connection);
  int64_t size() const;
  void close_all();

 private:
  mutable std::mutex mutex_;
  bool is_closed_ = false;
  std::unordered_map<const HttpConnection*, std::weak_ptr<HttpConnection>> connections_;
};

// What the connections of a server share; the server outlives them.
struct HttpService {
  HttpLimits limits;
  RequestRules rules;
  std::shared_ptr<AnswerRules> answers;
  HandlerPool& handlers;
  HttpCounters counters = {};
  ConnectionList connections = {};
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(std::unique_ptr<HttpStream> stream, HttpService& service);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  enum class Admission { served, refused };  // refused: 503, whatever is asked
  void start(Admission admission);
  void close_soon();  // from any thread

 private:
  using Clock = HttpStream::Clock;
  enum class Phase {
    handshake,  // of TLS
    head,       // waits for a request, or has a part of its head
    body,       // has the head
    exchange,   // the application answers
    refusing,   // the transport's own answer is being sent; what arrives is thrown away
    lingering,  // everything was sent; waits for the client to close
    closed,
  };

  void begin(Admission admission);

  // Reading.
  void read_more();
  void on_read(IoResult result);
  void on_input_end(IoEnd end);
  void advance();
  void advance_head();
  bool begin_head();
  void begin_request(int64_t head_bytes);
  void advance_body();
  void begin_exchange();
  void refuse(const HttpRefusal& refusal);

  // Writing.
  void send(std::string bytes);
  void pump();
  void pump_exchange();
  void write_more();
  void on_written(IoResult result);
  void finish_exchange(bool keeps_alive);
  void linger();
  void close();

  // Time.
  void set_read_deadline(std::chrono::milliseconds time);
  void arm_timer();
  void on_timer();
  void on_read_timeout();
  bool has_write_progress();

  const std::unique_ptr<HttpStream> stream_;
  HttpService& service_;
  Phase phase_ = Phase::handshake;

  std::string area_;   // what a read writes to
  std::string input_;  // received and not used
  bool is_reading_ = false;
  bool is_input_ended_ = false;

  // The request that is being read.
  bool has_head_begun_ = false;
  HeadScanner scanner_;
  std::optional<RequestParser> parser_;
  RequestTarget target_;
  std::string request_id_;
  std::vector<HttpField> extra_fields_;  // of its answer
  int64_t requests_ = 0;                 // of the connection

  std::shared_ptr<ExchangeState> exchange_;
  bool is_exchange_output_ = false;  // output_ is the application's
  std::string output_;               // being sent
  size_t sent_ = 0;                  // of output_
  std::string next_output_;          // of the transport, behind output_
  bool is_writing_ = false;
  int64_t unacknowledged_bytes_ = 0;  // when progress was last looked at

  Clock::time_point read_deadline_ = Clock::time_point::max();
  Clock::time_point write_deadline_ = Clock::time_point::max();
  Clock::time_point armed_ = Clock::time_point::max();
};

}  // namespace tessera::server
