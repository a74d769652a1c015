#include "server/service.h"

#include <openssl/rand.h>

#include <array>
#include <ctime>
#include <utility>

#include "base/base64.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str_cat.h"
#include "server/api_chat.h"
#include "server/api_completion.h"
#include "server/api_error.h"
#include "server/api_pictures.h"
#include "server/api_tokens.h"
#include "server/api_wire.h"
#include "server/error_response.h"
#include "server/generation_answer.h"

namespace tessera::server {

namespace embedded {
extern const std::string_view openapi_json;  // src/server/openapi.json
}

namespace {

using io::Json;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kModelPath = "/v1/models/";
constexpr std::chrono::milliseconds kTick{250};
// A plan decodes pictures on the thread that asks: others stay free.
constexpr int kPlansAtATime = 2;

uint64_t random_seed() {
  uint64_t seed = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&seed), sizeof(seed));
  return seed >> 1;  // a client can send it back as an int64
}

}  // namespace

Service::Service(const ServerOptions& options)
    : options_(options),
      limits_{
          .models = options.model_names,
          .max_choices = options.max_choices,
          .picture_paths = options.reads_media_files ? PicturePaths::allow : PicturePaths::refuse},
      started_(std::time(nullptr)),
      last_move_(Clock::now()),
      pump_(std::make_unique<AnswerPump>(std::min(kTick, options.keep_alive))) {}

Service::~Service() { drop_engine(); }

void Service::set_engine(std::unique_ptr<Engine> engine) {
  engine_ = std::move(engine);
  ready_engine_ = engine_.get();
}

// Answers look tokens up until they end, so the engine goes last.
void Service::drop_engine() {
  if (pump_ != nullptr) {
    pump_->wait_until_empty();
  }
  ready_engine_ = nullptr;
  pump_ = nullptr;
  engine_ = nullptr;
}

int64_t Service::unfinished() const { return static_cast<int64_t>(pump_->size()); }

Engine& Service::engine() const {
  Engine* const engine = ready_engine_.load();
  if (engine == nullptr || is_draining_) {
    ApiError error(ApiFault::draining, engine == nullptr
                                           ? "the model is not loaded; ask again later"
                                           : "the server is shutting down; ask another one");
    error.retry_after_s = 5;
    throw error;
  }
  return *engine;
}

const Service::Route* Service::find(std::string_view path) {
  static constexpr std::array<Route, 13> kRoutes = {{
      {"POST", "/v1/chat/completions", &Service::chat},
      {"POST", "/v1/completions", &Service::completion},
      {"GET", "/v1/models", &Service::models},
      {"GET", kModelPath, &Service::model},
      {"POST", "/v1/images/plan", &Service::plan_pictures},
      {"POST", "/tokenize", &Service::tokenize},
      {"POST", "/detokenize", &Service::detokenize},
      {"GET", "/metrics", &Service::metrics},
      {"GET", "/health", &Service::health, true},
      {"GET", "/ready", &Service::ready, true},
      {"GET", "/version", &Service::version, true},
      {"GET", "/openapi.json", &Service::openapi, true},
      {"GET", "/", &Service::version, true},
  }};
  for (const Route& route : kRoutes) {
    const bool is_path = route.path == kModelPath
                             ? path.starts_with(kModelPath) && path.size() > kModelPath.size()
                             : path == route.path;
    if (is_path) {
      return &route;
    }
  }
  return nullptr;
}

void Service::handle(const std::shared_ptr<Exchange>& exchange) {
  try {
    route(exchange);
  } catch (const std::exception& error) {
    const std::string& id = exchange->request().id;
    const ApiError told = api_error_of(
        error, {.request_id = id, .stage = "request", .is_draining = is_draining_.load()});
    if (told.status() >= 500 && told.fault() == ApiFault::internal) {
      log_line(LogLevel::error, str_cat("request ", id, " failed: ", error.what()));
    }
    answered(*exchange, told.status());
    exchange->respond(error_response(told));
  }
}

void Service::route(const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  const Route* const found = find(request.path);
  if (found == nullptr) {
    throw ApiError(ApiFault::unknown_path, str_cat("there is nothing at ", request.path,
                                                   "; /openapi.json says what there is"));
  }
  const bool is_get = found->method == "GET";
  if (request.method != found->method && !(is_get && request.method == "HEAD")) {
    HttpResponse response = error_response(
        ApiError(ApiFault::wrong_method,
                 str_cat(request.path, " takes ", found->method, ", found ", request.method)));
    response.headers.push_back({"Allow", is_get ? "GET, HEAD" : "POST"});
    answered(*exchange, response.status);
    return exchange->respond(std::move(response));
  }
  Caller caller = {exchange, {}};
  if (!options_.keys.is_empty() && !found->is_open) {
    std::optional<std::string> tenant = options_.keys.tenant_of(request.header("Authorization"));
    if (!tenant.has_value()) {
      throw ApiError(ApiFault::invalid_key,
                     "expected a header 'Authorization: Bearer KEY' with a "
                     "key of this server");
    }
    caller.tenant = std::move(*tenant);
  }
  (this->*found->handler)(caller);
}

// A line of the log for every answer, and its count. Bodies are never logged.
void Service::answered(const Exchange& exchange, int status, std::string_view more) {
  const HttpRequest& request = exchange.request();
  const Route* const route = find(request.path);
  metrics_.count_response(route != nullptr ? route->path : "other", status);
  log_line(LogLevel::info,
           str_cat("request id=", request.id, " peer=", request.peer, " method=", request.method,
                   " path=", route != nullptr ? route->path : "other", " status=", status, more));
}

void Service::respond(const Caller& caller, const Json& body, int status) {
  HttpResponse response;
  response.status = status;
  response.body = wire_text(body);
  answered(*caller.exchange, status);
  caller.exchange->respond(std::move(response));
}

void Service::chat(const Caller& caller) {
  ChatCall call = parse_chat_body(caller.exchange->take_body(), limits_);
  generate(caller, std::move(call.request), call.options, AnswerStream::Kind::chat, {});
}

void Service::completion(const Caller& caller) {
  CompletionCall call = parse_completion_body(caller.exchange->take_body(), limits_);
  std::string echo = call.echoes_prompt ? call.request.raw_prompt.value_or("") : "";
  generate(caller, std::move(call.request), call.options, AnswerStream::Kind::text,
           std::move(echo));
}

void Service::generate(const Caller& caller, Request request, const CallOptions& options,
                       AnswerStream::Kind kind, std::string echo) {
  Engine& engine = this->engine();
  request.tenant = caller.tenant;
  request.deadline = options_.request_timeout;
  if (!options.has_seed) {
    request.sampling.seed = random_seed();
  }
  GenerationAnswer::Call call = {
      .kind = kind,
      .form = {.request_id = caller.exchange->request().id,
               .created = std::time(nullptr),
               .model = limits_.models.front(),
               .fingerprint = options_.fingerprint,
               .has_logprobs = request.logprobs.has_value(),
               .includes_usage = options.includes_usage,
               .echo = std::move(echo),
               .token_bytes = [&engine](int32_t id) { return engine.token_bytes(id); }},
      .choices = request.choices,
      .is_stream = options.is_stream,
      .keep_alive = options_.keep_alive,
      .on_end = [this, exchange = caller.exchange](const ServedAnswer& answer, int status) {
        metrics_.count_answer(answer);
        answered(*exchange, status,
                 str_cat(" reason=", answer.reason, " prompt_tokens=", answer.prompt_tokens,
                         " answer_tokens=", answer.answer_tokens, " queue_ms=", answer.queue_ms,
                         " first_ms=", answer.first_ms, " ms=", answer.end_ms));
      }};
  const std::shared_ptr<Ticket> ticket = engine.submit(std::move(request));
  caller.exchange->on_gone([weak = std::weak_ptr<Ticket>(ticket)] {
    if (const std::shared_ptr<Ticket> running = weak.lock()) {
      running->cancel();
    }
  });
  const auto answer = std::make_shared<GenerationAnswer>(caller.exchange, ticket, std::move(call));
  pump_->add(answer);
  ticket->listen(
      [pump = pump_.get(), weak = std::weak_ptr<PumpedAnswer>(answer)] { pump->wake(weak); });
}

void Service::models(const Caller& caller) {
  std::vector<ServedModel> served;
  for (const std::string& name : limits_.models) {
    served.push_back({.name = name, .created = started_, .context = engine().context()});
  }
  respond(caller, models_json(served));
}

void Service::model(const Caller& caller) {
  std::vector<ServedModel> served;
  for (const std::string& name : limits_.models) {
    served.push_back({.name = name, .created = started_, .context = engine().context()});
  }
  const std::string_view path = caller.exchange->request().path;
  respond(caller, model_named(served, path.substr(kModelPath.size())));
}

void Service::tokenize(const Caller& caller) {
  Engine& engine = this->engine();
  const Request request = parse_tokenize_body(caller.exchange->take_body(), limits_);
  respond(caller,
          tokenize_json(engine.encode(request, ImageSpans::leave_out).ids, engine.context()));
}

void Service::detokenize(const Caller& caller) {
  Engine& engine = this->engine();
  const TokenBytes bytes = [&engine](int32_t id) { return engine.token_bytes(id); };
  respond(caller, detokenize_json(
                      parse_detokenize_body(caller.exchange->take_body(), limits_, bytes), bytes));
}

void Service::plan_pictures(const Caller& caller) {
  const PlanCall call = parse_plan_body(caller.exchange->take_body(), limits_);
  respond(caller, plan_of(call));
}

// Its place is free again before the client is answered.
Json Service::plan_of(const PlanCall& call) {
  struct Place {
    std::atomic<int>& count;
    const int taken;
    explicit Place(std::atomic<int>& c) : count(c), taken(++c) {}
    ~Place() { --count; }
  } const place(planning_);
  if (place.taken > kPlansAtATime) {
    ApiError error(ApiFault::queue_full, "other pictures are being planned; try again");
    error.retry_after_s = 1;
    throw error;
  }
  return plan_json(engine().plan_pictures(call.pictures, call.has_preview));
}

double Service::stalled_ms() {
  Engine* const engine = ready_engine_.load();
  const ServingStatistics now =
      engine == nullptr ? ServingStatistics() : engine->serving_statistics();
  const std::lock_guard lock(pulse_mutex_);
  if (now.heartbeat != last_beat_ || now.unfinished == 0) {
    last_beat_ = now.heartbeat;
    last_move_ = Clock::now();
  }
  return std::chrono::duration<double, std::milli>(Clock::now() - last_move_).count();
}

void Service::health(const Caller& caller) {
  const double stalled = stalled_ms();
  const bool is_well = stalled < static_cast<double>(options_.stall.count());
  Json body = Json::object();
  body.set("status", Json::string(is_well ? "ok" : "stalled"));
  if (!is_well) {
    body.set("stalled_ms", Json::number(stalled));
  }
  respond(caller, body, is_well ? 200 : 503);
}

void Service::ready(const Caller& caller) {
  const bool is_loading = ready_engine_.load() == nullptr;
  Json body = Json::object();
  body.set("status", Json::string(is_loading ? "loading" : is_draining_ ? "draining" : "ready"));
  respond(caller, body, is_loading || is_draining_ ? 503 : 200);
}

void Service::metrics(const Caller& caller) {
  Engine* const engine = ready_engine_.load();
  ServingStatistics statistics;
  std::optional<ResidencyStatistics> residency;
  if (engine != nullptr) {
    statistics = engine->serving_statistics();
    residency = engine->residency_statistics();
  }
  const HttpServer* const transport = transport_.load();
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = metrics_.text(engine == nullptr ? nullptr : &statistics, residency,
                                transport == nullptr ? HttpStatistics() : transport->statistics());
  answered(*caller.exchange, 200);
  caller.exchange->respond(std::move(response));
}

void Service::version(const Caller& caller) {
  Json body = Json::object();
  body.set("name", Json::string("tessera"));
  body.set("version", Json::string(options_.version));
  body.set("build", Json::string(options_.build));
  respond(caller, body);
}

void Service::openapi(const Caller& caller) {
  HttpResponse response;
  response.body = std::string(embedded::openapi_json);
  answered(*caller.exchange, 200);
  caller.exchange->respond(std::move(response));
}

}  // namespace tessera::server
