#include "tests/support/running_server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <span>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/base64.h"
#include "base/str_cat.h"

namespace tessera::test {
namespace {

using io::Json;

constexpr std::chrono::milliseconds kLookAgain{5};

const Json& member(const Json& object, std::string_view key) {
  static const Json none;
  const Json* const found = object.find(key);
  return found == nullptr ? none : *found;
}

const Json& choice_of(const Json& answer, size_t index) {
  static const Json none;
  const Json& list = member(answer, "choices");
  return index < list.items().size() ? list.items()[index] : none;
}

}  // namespace

RunningServer::RunningServer(const Arguments& more, const ProgramOptions& options) {
  std::vector<std::string> texts = {TESSERA_PROGRAM, "serve", "--port", "0", "--threads", "2"};
  texts.insert(texts.end(), more.begin(), more.end());
  std::vector<std::string> entries = environment_with(options.environment);
  std::vector<char*> argv = pointers(texts);
  std::vector<char*> envp = pointers(entries);
  const std::string log = folder_ / "log";  // a pipe that nobody reads would fill up
  const int err = ::open(log.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  std::array<int, 2> pipe{};
  if (err < 0 || ::pipe2(pipe.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error("cannot prepare the streams of the server");
  }
  process_ = ::fork();
  if (process_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // also when the test crashes
    ::dup2(pipe[1], STDOUT_FILENO);
    ::dup2(err, STDERR_FILENO);
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  ::close(pipe[1]);
  ::close(err);
  out_ = pipe[0];
  while (out_text_.find("\nready: ") == std::string::npos) {
    std::array<char, 4096> block;
    pollfd wait = {.fd = out_, .events = POLLIN, .revents = 0};
    const ssize_t count =
        ::poll(&wait, 1, kPatienceMs) > 0 ? ::read(out_, block.data(), block.size()) : 0;
    if (count <= 0) {
      throw std::runtime_error("the server ended before it was ready: " + read_bytes(log));
    }
    out_text_.append(block.data(), static_cast<size_t>(count));
  }
  const size_t colon = out_text_.rfind(':', out_text_.find('\n'));
  std::from_chars(out_text_.data() + colon + 1, out_text_.data() + out_text_.size(), port_);
}

RunningServer::~RunningServer() {
  if (process_ > 0) {
    ::kill(process_, SIGKILL);
    finish();
  }
}

HttpConnection RunningServer::begin(std::string_view path, std::string_view body,
                                    const HttpFields& more) const {
  HttpConnection connection(port_);
  connection.send(http_request("POST", path, body, more));
  return connection;
}

HttpAnswer RunningServer::get(std::string_view path, const HttpFields& more) const {
  return HttpConnection(port_).ask("GET", path, {}, more);
}

HttpAnswer RunningServer::post(std::string_view path, std::string_view body,
                               const HttpFields& more) const {
  return begin(path, body, more).read();
}

double RunningServer::metric(std::string_view name) const {
  std::istringstream lines(get("/metrics").body);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(str_cat(name, " "))) {
      return std::stod(line.substr(name.size() + 1));
    }
  }
  return -1;
}

int64_t RunningServer::resident_bytes() const {
  std::istringstream lines(read_bytes(str_cat("/proc/", process_, "/status")));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("VmRSS:")) {
      return std::stoll(line.substr(6)) * 1024;
    }
  }
  ADD_FAILURE() << "the server has no VmRSS";
  return 0;
}

void RunningServer::send(int signal) const { ::kill(process_, signal); }

ProgramResult RunningServer::finish() {
  int wait_status = 0;
  ::waitpid(std::exchange(process_, -1), &wait_status, 0);
  ::close(std::exchange(out_, -1));
  ProgramResult result;
  if (WIFEXITED(wait_status)) {
    result.status = WEXITSTATUS(wait_status);
  } else {
    result.signal = WTERMSIG(wait_status);
  }
  result.out = out_text_;
  result.err = log();
  return result;
}

ProgramResult RunningServer::stop() {
  send(SIGTERM);
  return finish();
}

std::string RunningServer::log() const { return read_bytes(folder_ / "log"); }

const RunningServer& demo_server() {
  static const RunningServer server;
  return server;
}

std::string quoted_json(std::string_view text) {
  return io::dump_compact(Json::string(std::string(text)));
}

std::string chat_body(std::string_view content, std::string_view more) {
  return str_cat(R"({"messages": [{"role": "user", "content": )", content, "}]",
                 more.empty() ? "" : ", ", more, "}");
}

std::string ask_body(std::string_view text, std::string_view more) {
  return chat_body(quoted_json(text), more);
}

std::string picture_part(const std::string& file) {
  const std::string bytes = read_bytes(file);
  return str_cat(R"({"type": "image_url", "image_url": {"url": "data:image/png;base64,)",
                 to_base64(std::as_bytes(std::span(bytes))), R"("}})");
}

std::string text_part(std::string_view text) {
  return str_cat(R"({"type": "text", "text": )", quoted_json(text), "}");
}

Json answered(const HttpAnswer& answer, int status) {
  EXPECT_EQ(answer.status, status) << answer.body.substr(0, 500);
  EXPECT_EQ(answer.header("Content-Type"), "application/json; charset=utf-8");
  return answer.json();
}

std::string content_of(const Json& answer, size_t choice) {
  return text_of(member(choice_of(answer, choice), "message"), "content");
}

std::string finish_reason_of(const Json& answer, size_t choice) {
  return text_of(choice_of(answer, choice), "finish_reason");
}

int64_t usage_of(const Json& answer, std::string_view key) {
  return integer_of(member(answer, "usage"), key);
}

int64_t cached_tokens_of(const Json& answer) {
  return integer_of(member(member(answer, "usage"), "prompt_tokens_details"), "cached_tokens");
}

bool holds_soon(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::sleep_for(kLookAgain);
  }
  return true;
}

}  // namespace tessera::test
