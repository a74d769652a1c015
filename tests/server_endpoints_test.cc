// What the server says about itself, and how it is configured.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>

#include "base/str_cat.h"
#include "tests/support/running_server.h"

namespace tessera::test {
namespace {

using io::Json;

TEST(ServerEndpoints, HealthVersionModels) {
  const RunningServer& server = demo_server();
  EXPECT_EQ(text_of(answered(server.get("/health")), "status"), "ok");
  EXPECT_EQ(text_of(answered(server.get("/ready")), "status"), "ready");
  const std::string version = run_program({"version"}).out;
  EXPECT_NE(version.find(text_of(answered(server.get("/version")), "version")), std::string::npos);
  const Json models = answered(server.get("/v1/models"));
  EXPECT_EQ(text_of(models, "object"), "list");
  const Json& model = models.find("data")->items().at(0);
  EXPECT_EQ(text_of(model, "id"), "tessera-demo");
  EXPECT_EQ(integer_of(model, "max_model_len"), 32768);
  EXPECT_EQ(io::dump_compact(answered(server.get("/v1/models/tessera-demo"))),
            io::dump_compact(model));
  EXPECT_EQ(server.get("/health", {{"X-Request-Id", "mine-7"}}).header("X-Request-Id"), "mine-7");
  // A HEAD has no body: the next answer of the connection follows at once.
  HttpConnection connection(server.port());
  connection.send(http_request("HEAD", "/health") + http_request("GET", "/nothing"));
  const std::string both = connection.read_until("unknown_url").body;
  EXPECT_NE(both.find("404"), std::string::npos) << both;
}

TEST(ServerEndpoints, OpenApiHasEveryRoute) {
  const Json api = answered(demo_server().get("/openapi.json"));
  EXPECT_TRUE(text_of(api, "openapi").starts_with("3."));
  const std::map<std::string, std::string> routes = {{"/v1/chat/completions", "post"},
                                                     {"/v1/completions", "post"},
                                                     {"/v1/models", "get"},
                                                     {"/v1/models/{name}", "get"},
                                                     {"/v1/images/plan", "post"},
                                                     {"/tokenize", "post"},
                                                     {"/detokenize", "post"},
                                                     {"/metrics", "get"},
                                                     {"/health", "get"},
                                                     {"/ready", "get"},
                                                     {"/version", "get"},
                                                     {"/openapi.json", "get"}};
  std::map<std::string, std::string> found;
  for (const auto& [path, methods] : api.find("paths")->members()) {
    ASSERT_EQ(methods.members().size(), 1U) << path;
    found[path] = methods.members().front().first;
  }
  EXPECT_EQ(found, routes);
}

// Lines of the text exposition format: comments, and names with labels and one number.
std::map<std::string, double> metrics_of(const RunningServer& server) {
  std::map<std::string, double> values;
  std::set<std::string> typed;
  const HttpAnswer answer = server.get("/metrics");
  EXPECT_EQ(answer.header("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_TRUE(answer.body.ends_with("\n"));
  std::istringstream lines(answer.body);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first;
    std::string kind;
    std::string name;
    words >> first >> kind >> name;
    if (first == "#") {
      EXPECT_TRUE(kind == "HELP" || kind == "TYPE") << line;
      EXPECT_TRUE(kind == "HELP" || typed.insert(name).second) << "twice: " << line;
      continue;
    }
    const size_t blank = line.rfind(' ');
    size_t used = 0;
    const std::string number = line.substr(blank + 1);
    const double value = std::stod(number, &used);
    EXPECT_EQ(used, number.size()) << line;
    EXPECT_GE(value, 0.0) << line;
    const std::string metric = line.substr(0, blank);
    EXPECT_TRUE(metric.starts_with("tessera:")) << line;
    EXPECT_EQ(metric.find('{') == std::string::npos, metric.back() != '}') << line;
    EXPECT_TRUE(values.emplace(metric, value).second) << "twice: " << line;
  }
  return values;
}

TEST(ServerEndpoints, MetricsCount) {
  const RunningServer& server = demo_server();
  const std::map<std::string, double> before = metrics_of(server);
  const Json got = answered(server.post(kChat, ask_body("Hello", R"("temperature": 0)")));
  const Json cut = answered(server.post(kCompletions, R"({"prompt": "a", "max_tokens": 1})"));
  server.get("/nothing");
  std::map<std::string, double> after = metrics_of(server);
  const auto moved = [&](const std::string& name) {
    const auto old = before.find(name);
    return after[name] - (old == before.end() ? 0 : old->second);
  };
  const double answers =
      static_cast<double>(usage_of(got, "completion_tokens") + usage_of(cut, "completion_tokens"));
  EXPECT_EQ(moved("tessera:generation_tokens_total"), answers);
  EXPECT_EQ(moved("tessera:prompt_tokens_total"),
            static_cast<double>(usage_of(got, "prompt_tokens") + usage_of(cut, "prompt_tokens")));
  EXPECT_EQ(moved(R"(tessera:request_success_total{endpoint="chat",finished_reason="stop"})"), 1);
  EXPECT_EQ(
      moved(R"(tessera:request_success_total{endpoint="completion",finished_reason="length"})"), 1);
  EXPECT_EQ(moved(R"(tessera:http_responses_total{path="/v1/chat/completions",status="200"})"), 1);
  EXPECT_EQ(moved(R"(tessera:http_responses_total{path="other",status="404"})"), 1);
  EXPECT_EQ(moved("tessera:e2e_request_latency_seconds_count"), 2);
  EXPECT_GT(moved("tessera:engine_steps_total"), 0);
  EXPECT_GT(moved("tessera:http_sent_bytes_total"), 0);
  EXPECT_EQ(after["tessera:num_requests_running"], 0);
  EXPECT_GT(after["tessera:kv_cache_usage_perc"], 0);  // kept states
  EXPECT_LT(after["tessera:kv_cache_usage_perc"], 1);
}

TEST(ServerConfig, FileAndChecks) {
  const TempFolder folder;
  const std::string good = folder.write(
      "good.toml", "model-name = [\"first\", \"second\"]\nmax-choices = 2\nmax-running = 3\n");
  const ProgramResult checked = run_program({"serve", "--config", good, "--check-config"});
  EXPECT_EQ(checked.status, 0) << checked.err;
  const ProgramResult shown =
      run_program({"serve", "--config", good, "--max-running", "4", "--print-effective-config"});
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_NE(shown.out.find("max-choices = 2\n"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("max-running = 4\n"), std::string::npos) << shown.out;
  const std::string again = folder.write("again.toml", shown.out);
  EXPECT_EQ(run_program({"serve", "--config", again, "--print-effective-config"}).out, shown.out);
  for (const char* bad : {"max-runing = 3\n", "max-running = \"many\"\n", "max-running = 0\n",
                          "port = 99999\n", "max-body = 0\n", "tls-cert = \"only-one.pem\"\n",
                          "encode-share = 7\n", "= 3\n", "media-root = \"/nowhere\"\n"}) {
    expect_error(
        run_program({"serve", "--config", folder.write("bad.toml", bad), "--check-config"}), 2);
  }
  expect_error(run_program({"serve", "--config", folder / "missing.toml", "--check-config"}), 2,
               {"missing.toml: cannot open"});
  expect_error(run_program({"serve", "--config", folder.path(), "--check-config"}), 2,
               {folder.path(), "is a folder"});

  const RunningServer server({"--config", good});
  EXPECT_EQ(server.get("/v1/models/second").status, 200);
  const Json got = answered(server.post(kChat, ask_body("Hello", R"("model": "second", "n": 2)")));
  EXPECT_EQ(text_of(got, "model"), "first");
  EXPECT_EQ(server.post(kChat, ask_body("Hello", R"("n": 3)")).status, 400);
}

TEST(ServerConfig, APortThatIsTaken) {
  expect_error(run_program({"serve", "--quiet", "--port", str_cat(demo_server().port())}), 3,
               {str_cat(demo_server().port())});
}

}  // namespace
}  // namespace tessera::test
