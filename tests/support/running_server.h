// `tessera serve` with the demo model, as a process of its own on a free port of 127.0.0.1.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "io/json.h"
#include "tests/support/demo.h"
#include "tests/support/program.h"
#include "tests/support/server_client.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {

class RunningServer {
 public:
  // Returns when the model is loaded. Throws std::runtime_error if the program ends before.
  explicit RunningServer(const Arguments& more = {}, const ProgramOptions& options = {});
  ~RunningServer();  // ends it, if it runs
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;

  int port() const { return port_; }
  // Each on a connection of its own.
  HttpAnswer get(std::string_view path, const HttpFields& more = {}) const;
  HttpAnswer post(std::string_view path, std::string_view body, const HttpFields& more = {}) const;
  HttpConnection begin(std::string_view path, std::string_view body,
                       const HttpFields& more = {}) const;
  // The value of a line of /metrics, its labels being part of the name; -1 if there is none.
  double metric(std::string_view name) const;
  int64_t resident_bytes() const;  // VmRSS

  void send(int signal) const;
  ProgramResult finish();   // waits for the exit; `out` is what came up to the readiness
  ProgramResult stop();     // SIGTERM, and waits
  std::string log() const;  // standard error so far

 private:
  TempFolder folder_;
  int process_ = -1;  // its id
  int out_ = -1;
  int port_ = 0;
  std::string out_text_;
};

// One with the default options for all tests of this program.
const RunningServer& demo_server();

constexpr std::string_view kChat = "/v1/chat/completions";
constexpr std::string_view kCompletions = "/v1/completions";

// {"messages": [a user's message], more}. `content`: JSON; `more`: members of JSON.
std::string chat_body(std::string_view content, std::string_view more = {});
// The same for a text.
std::string ask_body(std::string_view text, std::string_view more = {});
std::string quoted_json(std::string_view text);
// {"type":"image_url",...} with the file as a data URL.
std::string picture_part(const std::string& file);
std::string text_part(std::string_view text);

// Members of an answer that is there. The test fails if the status is another one.
io::Json answered(const HttpAnswer& answer, int status = 200);
std::string content_of(const io::Json& answer, size_t choice = 0);
std::string finish_reason_of(const io::Json& answer, size_t choice = 0);
int64_t usage_of(const io::Json& answer, std::string_view key);
int64_t cached_tokens_of(const io::Json& answer);

// Asks again until `condition` holds, for 20 s at most.
[[nodiscard]] bool holds_soon(const std::function<bool()>& condition);

}  // namespace tessera::test
