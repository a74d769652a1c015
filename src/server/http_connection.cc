#include "server/http_connection.h"

#include <utility>

#include "base/str_cat.h"

namespace tessera::server {
namespace {

constexpr size_t kReadBytes = size_t{4} << 10;       // of an idle connection
constexpr size_t kBodyReadBytes = size_t{64} << 10;  // of one whose body is being read
constexpr std::chrono::milliseconds kLingerTime{2'000};
constexpr std::chrono::milliseconds kNoDeadline = std::chrono::milliseconds::max();

}  // namespace

HttpConnection::HttpConnection(std::unique_ptr<HttpStream> stream, HttpService& service)
    : stream_(std::move(stream)), service_(service) {}

HttpConnection::~HttpConnection() { close(); }

void HttpConnection::start(Admission admission) {
  stream_->post([self = shared_from_this(), admission] { self->begin(admission); });
}

void HttpConnection::close_soon() {
  stream_->post([self = shared_from_this()] { self->close(); });
}

void HttpConnection::begin(Admission admission) {
  if (phase_ == Phase::closed) {
    return;
  }
  set_read_deadline(service_.limits.header_timeout);
  stream_->handshake([self = shared_from_this(), admission](bool is_ok) {
    if (!is_ok) {
      self->close();
    }
    if (self->phase_ == Phase::closed) {
      return;
    }
    self->phase_ = Phase::head;
    self->set_read_deadline(self->service_.limits.idle_timeout);
    if (admission == Admission::refused) {
      self->refuse({503, "the server has too many connections; try again later"});
    }
    self->read_more();
  });
}

void HttpConnection::read_more() {
  const bool is_full =
      phase_ == Phase::exchange && std::ssize(input_) >= service_.limits.header_bytes;
  if (is_reading_ || is_input_ended_ || is_full || phase_ == Phase::closed) {
    return;
  }
  is_reading_ = true;
  const size_t bytes = phase_ == Phase::body ? kBodyReadBytes : kReadBytes;
  if (area_.size() != bytes) {
    area_ = std::string(bytes, '\0');
  }
  stream_->read_some({area_.data(), area_.size()},
                     [self = shared_from_this()](IoResult result) { self->on_read(result); });
}

void HttpConnection::on_read(IoResult result) {
  is_reading_ = false;
  if (phase_ == Phase::closed) {
    return;
  }
  if (result.end != IoEnd::none) {
    on_input_end(result.end);
    return;
  }
  service_.counters.received_bytes += result.bytes;
  if (phase_ != Phase::refusing && phase_ != Phase::lingering) {
    input_.append(area_, 0, static_cast<size_t>(result.bytes));
    advance();
  }
  read_more();
}

void HttpConnection::on_input_end(IoEnd end) {
  is_input_ended_ = true;
  if (end == IoEnd::failed || phase_ != Phase::exchange) {
    if (end == IoEnd::failed || phase_ != Phase::refusing) {
      close();
    }
  } else if (exchange_->is_streaming()) {
    close();
  } else {
    // The client may have closed only its sending side, so it is answered if that is soon.
    set_read_deadline(service_.limits.write_timeout);
    ++service_.counters.left_clients;
    exchange_->client_left();
  }
}

void HttpConnection::advance() {
  if (phase_ == Phase::head) {
    advance_head();
  } else if (phase_ == Phase::body) {
    advance_body();
  }
}

// Empty lines before a request are passed over (RFC 9112, section 2.2).
bool HttpConnection::begin_head() {
  while (input_.starts_with("\r\n")) {
    input_.erase(0, 2);
  }
  if (input_.empty() || input_ == "\r") {
    return false;
  }
  has_head_begun_ = true;
  scanner_ = {};
  target_ = {};
  request_id_.clear();
  extra_fields_.clear();
  parser_.emplace();
  set_read_deadline(service_.limits.header_timeout);
  return true;
}

void HttpConnection::advance_head() {
  if (!has_head_begun_ && !begin_head()) {
    if (is_input_ended_) {
      close();
    }
    return;
  }
  const int64_t bytes = scanner_.scan(input_);
  if (scanner_.is_bad()) {
    refuse({400,
            "the head of the request has control characters, folded lines, or lines that do "
            "not end in CR LF"});
  } else if (std::max(bytes, bytes == 0 ? std::ssize(input_) : 0) > service_.limits.header_bytes) {
    refuse({scanner_.has_line() ? 431 : 414, str_cat("the head of the request has more than ",
                                                     service_.limits.header_bytes, " bytes")});
  } else if (bytes > 0) {
    begin_request(bytes);
  } else if (is_input_ended_) {
    close();
  }
}

void HttpConnection::begin_request(int64_t head_bytes) {
  has_head_begun_ = false;
  ++requests_;
  std::optional<HttpRefusal> refusal =
      parser_->read_head(std::string_view(input_).substr(0, static_cast<size_t>(head_bytes)));
  input_.erase(0, static_cast<size_t>(head_bytes));
  const RequestHead& head = parser_->head();
  request_id_ = request_id(head.fields);
  extra_fields_ = cors_fields(head, service_.rules);
  if (!refusal.has_value()) {
    refusal = check_head(head, service_.rules, stream_->local_address(), target_);
  }
  if (refusal.has_value()) {
    refuse(*refusal);
    return;
  }
  phase_ = Phase::body;
  set_read_deadline(service_.limits.body_timeout);
  if (expects_continue(head) && input_.empty() && !parser_->is_done()) {
    send(std::string(kContinue));
  }
  advance_body();
}

void HttpConnection::advance_body() {
  std::optional<HttpRefusal> refusal;
  if (!parser_->is_done()) {
    const HttpLimits& limits = service_.limits;
    const int64_t taken =
        parser_->read_body(input_, limits.body_bytes, limits.header_bytes, refusal);
    input_.erase(0, static_cast<size_t>(taken));
  }
  if (refusal.has_value()) {
    refuse(*refusal);
  } else if (parser_->is_done()) {
    begin_exchange();
  } else if (is_input_ended_) {
    close();
  }
}

void HttpConnection::begin_exchange() {
  phase_ = Phase::exchange;
  set_read_deadline(is_input_ended_ ? service_.limits.write_timeout : kNoDeadline);
  const bool is_answered_here = is_preflight(parser_->head()) && !extra_fields_.empty();
  const bool is_allowed = allows_origin(parser_->head(), service_.rules);
  RequestHead head = parser_->take_head();
  ExchangeTraits traits{
      .extra_fields = std::move(extra_fields_),
      .is_http_10 = head.minor_version == 0,
      .is_head = head.method == "HEAD",
      .keeps_alive = head.keeps_alive && requests_ < service_.limits.requests_per_connection,
      .has_left = is_input_ended_};
  HttpRequest request{.method = std::move(head.method),
                      .path = std::move(target_.path),
                      .query = std::move(target_.query),
                      .headers = std::move(head.fields),
                      .body = parser_->take_body(),
                      .id = std::move(request_id_),
                      .peer = stream_->peer()};
  parser_.reset();
  ++service_.counters.requests;
  ++service_.counters.active_requests;
  exchange_ = std::make_shared<ExchangeState>(
      service_.answers, std::move(request), std::move(traits),
      [self = shared_from_this()] { self->stream_->post([self] { self->pump(); }); });
  if (!is_answered_here) {
    service_.handlers.add(std::make_shared<Exchange>(exchange_));
  } else if (is_allowed) {
    exchange_->respond({.status = 204});
  } else {
    exchange_->respond({.status = 403,
                        .body = service_.answers->error_body(
                            403, "pages of this origin may not use this server")});
  }
}

void HttpConnection::refuse(const HttpRefusal& refusal) {
  phase_ = Phase::refusing;
  set_read_deadline(kNoDeadline);
  ++service_.counters.transport_errors;
  input_ = {};
  HttpResponse response{.status = refusal.status,
                        .body = service_.answers->error_body(refusal.status, refusal.message)};
  if (refusal.status == 503) {
    response.headers.push_back({"Retry-After", "1"});
  }
  if (request_id_.empty()) {
    request_id_ = request_id({});
  }
  std::string bytes = response_head(
      response, {.keeps_alive = false, .request_id = request_id_, .extra_fields = &extra_fields_});
  if (!parser_.has_value() || parser_->head().method != "HEAD") {
    bytes += response.body;
  }
  parser_.reset();
  send(std::move(bytes));
}

void HttpConnection::send(std::string bytes) {
  next_output_ += bytes;
  pump();
}

// Begins the next write, or goes on to what comes behind the last one.
void HttpConnection::pump() {
  if (phase_ == Phase::closed) {
    return;
  }
  if (exchange_ != nullptr && exchange_->is_too_slow()) {
    ++service_.counters.dropped_readers;
    close();
  } else if (is_writing_) {
    return;
  } else if (!next_output_.empty()) {
    output_ = std::exchange(next_output_, {});
    is_exchange_output_ = false;
    write_more();
  } else if (phase_ == Phase::refusing) {
    linger();
  } else if (phase_ == Phase::exchange) {
    pump_exchange();
  }
}

void HttpConnection::pump_exchange() {
  ExchangeState::Output next = exchange_->take_output();
  if (!next.bytes.empty()) {
    output_ = std::move(next.bytes);
    is_exchange_output_ = true;
    write_more();
  } else if (next.is_cut) {
    close();
  } else if (next.is_last) {
    exchange_->finish();
    exchange_.reset();
    --service_.counters.active_requests;
    finish_exchange(next.keeps_alive);
  }
}

void HttpConnection::write_more() {
  is_writing_ = true;
  write_deadline_ = Clock::now() + service_.limits.write_timeout;
  unacknowledged_bytes_ = stream_->unacknowledged_bytes();
  arm_timer();
  stream_->write_some(std::string_view(output_).substr(sent_),
                      [self = shared_from_this()](IoResult result) { self->on_written(result); });
}

void HttpConnection::on_written(IoResult result) {
  is_writing_ = false;
  write_deadline_ = Clock::time_point::max();
  if (phase_ == Phase::closed) {
    return;
  }
  if (result.end != IoEnd::none) {
    close();
    return;
  }
  service_.counters.sent_bytes += result.bytes;
  if (is_exchange_output_) {
    exchange_->sent(result.bytes);
  }
  sent_ += static_cast<size_t>(result.bytes);
  if (sent_ < output_.size()) {
    write_more();
    return;
  }
  output_ = {};
  sent_ = 0;
  pump();
}

void HttpConnection::finish_exchange(bool keeps_alive) {
  if (!keeps_alive) {
    linger();
    return;
  }
  phase_ = Phase::head;
  set_read_deadline(service_.limits.idle_timeout);
  advance();
  read_more();
}

// Closing a socket while bytes arrive would reset the connection and could take the answer with it.
void HttpConnection::linger() {
  if (is_input_ended_) {
    close();
    return;
  }
  phase_ = Phase::lingering;
  input_ = {};
  set_read_deadline(kLingerTime);
  stream_->shut_down(shared_from_this());
  read_more();
}

void HttpConnection::close() {
  if (std::exchange(phase_, Phase::closed) == Phase::closed) {
    return;
  }
  if (exchange_ != nullptr) {
    service_.counters.left_clients += exchange_->is_gone() ? 0 : 1;
    exchange_->close();
    exchange_.reset();
    --service_.counters.active_requests;
  }
  stream_->close();
  service_.connections.remove(this);
}

void HttpConnection::set_read_deadline(std::chrono::milliseconds time) {
  read_deadline_ = time == kNoDeadline ? Clock::time_point::max() : Clock::now() + time;
  arm_timer();
}

// A deadline that moves back leaves the timer alone: it is looked at when the timer fires.
void HttpConnection::arm_timer() {
  const Clock::time_point next = std::min(read_deadline_, write_deadline_);
  if (next < armed_) {
    armed_ = next;
    stream_->wake_at(next, [self = shared_from_this()] { self->on_timer(); });
  }
}

void HttpConnection::on_timer() {
  armed_ = Clock::time_point::max();
  if (phase_ == Phase::closed) {
    return;
  }
  const Clock::time_point now = Clock::now();
  if (write_deadline_ <= now && !has_write_progress()) {
    ++service_.counters.dropped_readers;
    close();
    return;
  }
  if (read_deadline_ <= now) {
    on_read_timeout();
  }
  if (phase_ != Phase::closed) {
    arm_timer();
  }
}

// A socket takes more only when much of what it holds has gone, so a slow reader shows up here
// first.
bool HttpConnection::has_write_progress() {
  const int64_t before = std::exchange(unacknowledged_bytes_, stream_->unacknowledged_bytes());
  write_deadline_ = Clock::now() + service_.limits.write_timeout;
  return unacknowledged_bytes_ < before;
}

void HttpConnection::on_read_timeout() {
  read_deadline_ = Clock::time_point::max();
  if (phase_ == Phase::body || (phase_ == Phase::head && has_head_begun_)) {
    ++service_.counters.timeouts;
    refuse({408, phase_ == Phase::body ? "the body of the request came too slowly"
                                       : "the head of the request came too slowly"});
  } else {
    close();
  }
}

}  // namespace tessera::server
