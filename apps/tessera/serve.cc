// tessera serve: the OpenAI-compatible server.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/log.h"
#include "base/str_cat.h"
#include "build_info.h"
#include "commands.h"
#include "interrupt.h"
#include "output.h"
#include "request_options.h"
#include "runtime/engine.h"
#include "server/error_response.h"
#include "server/http_server.h"
#include "server/service.h"
#include "settings.h"

namespace tessera {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;
constexpr std::chrono::milliseconds kLookAgain{50};
constexpr std::chrono::seconds kPictureDeadline{60};
constexpr const char* kKeysVariable = "TESSERA_API_KEYS";

struct Arguments {
  ModelArguments model;
  std::vector<std::string> model_names;
  std::string host = "127.0.0.1";
  int64_t port = 8080;
  std::vector<std::string> allowed_hosts;
  std::vector<std::string> origins;
  std::string tls_certificate;
  std::string tls_key;
  std::string key_file;
  std::string media_root;
  int64_t io_threads = 1;
  int64_t handler_threads = 4;
  int64_t prepare_threads = 4;
  int64_t connections = 0;
  int64_t body_mib = 48;
  int64_t max_running = 8;
  int64_t max_queued = 256;
  int64_t cache_tokens = 0;
  int64_t step_rows = 512;
  int64_t rows_beside_answers = 64;
  double encode_share = 0.25;
  int64_t prefix_mib = 256;
  int64_t prefix_interval = 512;
  int64_t picture_mib = 256;
  int64_t max_choices = 16;
  double request_timeout_s = 0;
  double drain_timeout_s = 30;
  double keep_alive_s = 10;
  double stall_s = 60;
  std::string config;
  bool checks_config = false;
  bool prints_config = false;
};

std::chrono::milliseconds from_seconds(const char* name, double seconds) {
  if (!(seconds >= 0 && seconds <= 1e6)) {
    throw Error(ErrorCode::bad_request,
                str_cat(name, " ", seconds, ": expected 0 to 1000000 seconds"));
  }
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

int64_t in_range(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    throw Error(ErrorCode::bad_request,
                str_cat(name, " ", value, ": expected ", low, " to ", high));
  }
  return value;
}

EngineOptions engine_of(const Arguments& a) {
  EngineOptions o = engine_options(a.model);
  o.step_rows = a.step_rows;
  o.prefix_cache_bytes = in_range("--prefix-cache", a.prefix_mib, 0, 1 << 24) * kMebibyte;
  o.prefix_interval = a.prefix_interval;
  o.picture_cache_bytes = in_range("--picture-cache", a.picture_mib, 0, 1 << 24) * kMebibyte;
  o.serving.max_running = a.max_running;
  o.serving.max_queued = a.max_queued;
  o.serving.cache_tokens = a.cache_tokens;
  o.serving.rows_beside_answers = a.rows_beside_answers;
  o.serving.encode_share = a.encode_share;
  o.serving.prepare_threads =
      static_cast<int>(in_range("--prepare-threads", a.prepare_threads, 1, 64));
  o.pictures.budget = intake::BudgetLimits();
  o.pictures.deadline = kPictureDeadline;
  o.pictures.reads_files = !a.media_root.empty();
  o.pictures.media_root = a.media_root;
  if (!a.media_root.empty() && !std::filesystem::is_directory(a.media_root)) {
    throw Error(ErrorCode::bad_request,
                str_cat("--media-root ", a.media_root, ": expected a folder"));
  }
  check_options(o);
  return o;
}

server::ServerOptions server_of(const Arguments& a, const EngineOptions& engine) {
  server::ServerOptions o;
  o.http.address = a.host;
  o.http.port = static_cast<uint16_t>(in_range("--port", a.port, 0, 65535));
  o.http.allowed_hosts = a.allowed_hosts;
  o.http.allowed_origins = a.origins;
  o.http.tls_certificate = a.tls_certificate;
  o.http.tls_key = a.tls_key;
  o.http.io_threads = static_cast<int>(in_range("--io-threads", a.io_threads, 1, 64));
  o.http.handler_threads =
      static_cast<int>(in_range("--handler-threads", a.handler_threads, 1, 256));
  o.http.limits.connections = a.connections;
  o.http.limits.body_bytes = in_range("--max-body", a.body_mib, 1, 4096) * kMebibyte;
  o.http.error_body = server::transport_error_body;
  o.model_names = a.model_names;
  if (o.model_names.empty()) {
    o.model_names = {a.model.model.empty()
                         ? "tessera-demo"
                         : std::filesystem::path(engine.model).filename().string()};
  }
  if (!a.key_file.empty()) {
    o.keys.add_file(a.key_file);
  }
  if (const char* keys = std::getenv(kKeysVariable)) {
    o.keys.add_lines(keys, kKeysVariable);
  }
  o.reads_media_files = !a.media_root.empty();
  o.max_choices = in_range("--max-choices", a.max_choices, 1, kMaxChoices);
  if (a.request_timeout_s > 0) {
    o.request_timeout = from_seconds("--request-timeout", a.request_timeout_s);
  }
  o.keep_alive = std::max(from_seconds("--keep-alive", a.keep_alive_s), kLookAgain);
  o.stall = from_seconds("--stall", a.stall_s);
  o.version = TESSERA_VERSION;
  o.build = str_cat(TESSERA_COMMIT, ", ", TESSERA_COMPILER);
  o.fingerprint = str_cat("tessera-", TESSERA_VERSION, "-", TESSERA_COMMIT);
  server::check_options(o.http);
  return o;
}

void warn_about_exposure(const server::ServerOptions& options) {
  const bool is_loopback = options.http.address.starts_with("127.") ||
                           options.http.address == "::1" || options.http.address == "localhost";
  if (!is_loopback && options.keys.is_empty()) {
    log_line(LogLevel::warning, str_cat("anybody who reaches ", options.http.address,
                                        " may ask: there are no keys (--api-key-file)"));
  }
  if (!is_loopback && options.http.tls_certificate.empty()) {
    log_line(LogLevel::warning, "questions and keys travel unencrypted (--tls-cert, --tls-key)");
  }
}

void wait_for_end(server::HttpServer& http) {
  while (!interrupt_flag().load()) {
    std::this_thread::sleep_for(kLookAgain);
    if (reload_flag().exchange(false)) {
      try {
        http.reload_certificate();
        log_line(LogLevel::info, "the certificate was read again");
      } catch (const Error& error) {
        log_line(LogLevel::error, str_cat(error.what(), "; the old certificate stays"));
      }
    }
  }
}

// What runs may end, for so long; then it is cut off.
void drain(server::Service& service, server::HttpServer& http, std::chrono::milliseconds most) {
  using Clock = std::chrono::steady_clock;
  service.begin_draining();
  log_line(LogLevel::info, str_cat("draining: ", service.unfinished(), " requests run"));
  const Clock::time_point end = Clock::now() + most;
  while ((service.unfinished() > 0 || http.statistics().active_requests > 0) &&
         Clock::now() < end) {
    std::this_thread::sleep_for(kLookAgain);
  }
  http.stop_accepting();
  http.stop();
  service.drop_engine();
}

int serve(const Arguments& a, Settings& settings) {
  Output out;
  if (!a.config.empty()) {
    settings.read(a.config);
  }
  if (a.prints_config) {
    out.write(settings.show());
    return 0;
  }
  const EngineOptions engine = engine_of(a);
  const server::ServerOptions options = server_of(a, engine);
  const std::chrono::milliseconds drain_time = from_seconds("--drain-timeout", a.drain_timeout_s);
  if (a.checks_config) {
    out.write("the configuration is fine\n");
    return 0;
  }
  install_reload_handler();
  warn_about_exposure(options);
  server::Service service(options);
  server::HttpServer http(
      options.http, [&service](const std::shared_ptr<server::Exchange>& e) { service.handle(e); });
  service.set_transport(&http);
  const std::string scheme = options.http.tls_certificate.empty() ? "http" : "https";
  const bool is_v6 = options.http.address.find(':') != std::string::npos;
  out.write(str_cat("listening on ", scheme, "://", is_v6 ? "[" : "", options.http.address,
                    is_v6 ? "]" : "", ":", http.port(), "\n"));
  ProgressBar bar(a.model.is_quiet);
  Events events;
  events.on_progress = [&](std::string_view stage, int64_t done, int64_t total) {
    bar.update(stage, done, total);
  };
  std::unique_ptr<Engine> loaded = Engine::open(engine, events);
  bar.clear();
  const MemoryPlan plan = loaded->memory_plan();
  if (!a.model.is_quiet) {
    out.write(plan.text());
  }
  service.set_engine(std::move(loaded));
  out.write(str_cat("ready: ", options.model_names.front(), "\n"));
  wait_for_end(http);
  drain(service, http, drain_time);
  service.set_transport(nullptr);
  return 0;
}

void add_network_options(Settings& settings, Arguments& a) {
  settings.add("--host", a.host, "ADDRESS", "address to listen on (default 127.0.0.1)");
  settings.add("--port", a.port, "port (default 8080); 0: any that is free");
  settings.add("--allowed-host", a.allowed_hosts, "NAME",
               "name that a Host header may have, besides loopback and the address; *: any");
  settings.add("--cors-origin", a.origins, "ORIGIN",
               "web page that may call, https://page.example");
  settings.add("--tls-cert", a.tls_certificate, "FILE",
               "certificate chain, PEM; SIGHUP reads it again");
  settings.add("--tls-key", a.tls_key, "FILE", "its key, PEM");
  settings.add("--api-key-file", a.key_file, "FILE",
               "lines 'NAME KEY'; also the variable TESSERA_API_KEYS. Each key is a tenant");
  settings.add("--media-root", a.media_root, "DIR",
               "folder of pictures that requests may name by path");
  settings.add("--io-threads", a.io_threads, "threads for connections (default 1)");
  settings.add("--handler-threads", a.handler_threads, "threads that read requests (default 4)");
  settings.add("--max-connections", a.connections,
               "open at once (default: what the system allows)");
  settings.add("--max-body", a.body_mib, "MiB of a request (default 48)");
}

void add_engine_options(Settings& settings, Arguments& a) {
  settings.add("--model-name", a.model_names, "NAME",
               "name in requests and answers (default: the folder's); may be repeated");
  settings.add("--max-running", a.max_running, "requests in a step (default 8)");
  settings.add("--max-queued", a.max_queued,
               "requests that wait or run; more are answered 429 (default 256)");
  settings.add("--cache-tokens", a.cache_tokens,
               "tokens of all running requests (default: the context)");
  settings.add("--step-rows", a.step_rows, "most rows of a step (default 512)");
  settings.add("--rows-beside-answers", a.rows_beside_answers,
               "most rows of prompts in a step that writes answers (default 64)");
  settings.add("--encode-share", a.encode_share,
               "share of the time for pictures while answers are written (default 0.25)");
  settings.add("--prepare-threads", a.prepare_threads,
               "threads that fetch and decode pictures; one of several is for texts (default 4)");
  settings.add("--prefix-cache", a.prefix_mib, "MiB for states of earlier requests (default 256)");
  settings.add("--prefix-interval", a.prefix_interval,
               "tokens from one kept state to the next (default 512)");
  settings.add("--picture-cache", a.picture_mib, "MiB for encoded pictures (default 256)");
  settings.add("--max-choices", a.max_choices, "most answers per request (default 16)");
  settings.add("--request-timeout", a.request_timeout_s,
               "seconds from a request to its end (default: no limit)");
  settings.add("--drain-timeout", a.drain_timeout_s,
               "seconds that requests get when the server ends (default 30)");
  settings.add("--keep-alive", a.keep_alive_s,
               "seconds between comments in a quiet stream (default 10)");
  settings.add("--stall", a.stall_s,
               "seconds without a step after which /health fails (default 60)");
}

}  // namespace

void add_serve_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("serve", "OpenAI-compatible server");
  const auto a = std::make_shared<Arguments>();
  a->model.log_level = "info";
  add_model_options(*command, a->model);
  const auto settings = std::make_shared<Settings>(*command);
  add_network_options(*settings, *a);
  add_engine_options(*settings, *a);
  command->add_option("--config", a->config, "TOML file with options by their names")
      ->type_name("FILE")
      ->configurable(false);
  command->add_flag("--check-config", a->checks_config, "check the options and end")
      ->configurable(false);
  command->add_flag("--print-effective-config", a->prints_config, "print all options and end")
      ->configurable(false);
  command->footer(
      "Examples:\n"
      "  tessera serve\n"
      "  tessera serve --model /models/DeepSeek-V4.1-Flash --port 9000 --api-key-file keys.txt\n"
      "  curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \\\n"
      "    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}], \"stream\": true}'");
  command->callback([a, settings, &status] { status = serve(*a, *settings); });
}

}  // namespace tessera
