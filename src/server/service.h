// What the server answers: paths to handlers. Sees the engine through runtime/engine.h alone.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/engine.h"
#include "server/answer_pump.h"
#include "server/api_call.h"
#include "server/api_pictures.h"
#include "server/api_stream.h"
#include "server/http_exchange.h"
#include "server/http_server.h"
#include "server/metrics.h"
#include "server/server_options.h"

namespace tessera::server {

class Service {
 public:
  explicit Service(const ServerOptions& options);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // HttpHandler. Requests for the model are answered 503 before there is an engine.
  void handle(const std::shared_ptr<Exchange>& exchange);
  // Where the transport's numbers come from, for /metrics.
  void set_transport(const HttpServer* transport) { transport_ = transport; }

  void set_engine(std::unique_ptr<Engine> engine);
  // No new generations from here on; those that run go on.
  void begin_draining() { is_draining_ = true; }
  int64_t unfinished() const;
  // Waits for the generations that run, and lets the model go. When no handler runs any more; the
  // transport's stop() has cancelled what nobody reads.
  void drop_engine();

 private:
  struct Caller {
    std::shared_ptr<Exchange> exchange;
    std::string tenant;
  };
  using Handler = void (Service::*)(const Caller&);
  struct Route {
    std::string_view method;
    std::string_view path;
    Handler handler;
    bool is_open = false;  // without a key
  };
  static const Route* find(std::string_view path);  // nullptr: nothing is there

  void route(const std::shared_ptr<Exchange>& exchange);
  Engine& engine() const;
  void chat(const Caller& caller);
  void completion(const Caller& caller);
  void models(const Caller& caller);
  void model(const Caller& caller);
  void tokenize(const Caller& caller);
  void detokenize(const Caller& caller);
  void plan_pictures(const Caller& caller);
  io::Json plan_of(const PlanCall& call);
  void health(const Caller& caller);
  void ready(const Caller& caller);
  void metrics(const Caller& caller);
  void version(const Caller& caller);
  void openapi(const Caller& caller);
  void generate(const Caller& caller, Request request, const CallOptions& options,
                AnswerStream::Kind kind, std::string echo);
  void respond(const Caller& caller, const io::Json& body, int status = 200);
  void answered(const Exchange& exchange, int status, std::string_view more = {});
  // Milliseconds since the engine moved last, 0 while it has nothing to do.
  double stalled_ms();

  const ServerOptions options_;
  ApiLimits limits_;
  int64_t started_ = 0;  // seconds since 1970
  Metrics metrics_;
  std::atomic<const HttpServer*> transport_ = nullptr;
  std::atomic<bool> is_draining_ = false;
  std::atomic<int> planning_ = 0;  // plan_pictures under way
  std::unique_ptr<Engine> engine_;
  std::atomic<Engine*> ready_engine_ = nullptr;
  std::mutex pulse_mutex_;
  int64_t last_beat_ = -1;
  std::chrono::steady_clock::time_point last_move_;
  std::unique_ptr<AnswerPump> pump_;
};

}  // namespace tessera::server
