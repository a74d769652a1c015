// Requests that run side by side. The law: each gets, bit for bit, what it gets alone.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "runtime/engine.h"
#include "tests/support/sanitizers.h"

namespace tessera {
namespace {

const std::string kDemo = TESSERA_SOURCE_DIR "/models/demo";

Request ask(const std::string& text, const std::vector<std::string>& pictures = {}) {
  Request request;
  Message message;
  for (const std::string& picture : pictures) {
    message.content.emplace_back();
    message.content.back().kind = ContentBlock::Kind::image;
    message.content.back().image.value = kDemo + "/eval/images/" + picture;
  }
  message.content.emplace_back();
  message.content.back().text = text;
  request.messages.push_back(std::move(message));
  request.sampling.temperature = 0;
  request.max_tokens = 10;
  request.logprobs = 2;
  return request;
}

// Runs for as long as a test may take.
Request endless() {
  Request request = ask("Tell me something.");
  request.ignores_eos = true;
  request.max_tokens = 1900;
  return request;
}

// Takes connections and says nothing.
class SilentHost {
 public:
  SilentHost() : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
    EXPECT_EQ(::listen(fd_, 16), 0);
    socklen_t size = sizeof(at);
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &size);
    port_ = ntohs(at.sin_port);
  }
  ~SilentHost() { ::close(fd_); }
  SilentHost(const SilentHost&) = delete;
  SilentHost& operator=(const SilentHost&) = delete;
  std::string url() const { return str_cat("http://127.0.0.1:", port_, "/a.png"); }

 private:
  int fd_;
  int port_ = 0;
};

// Text and pictures, greedy and sampled, one answer and several, both languages, long and short.
std::vector<Request> mixed() {
  std::vector<Request> all;
  all.push_back(ask("What does the image show?", {"p001.png"}));
  all.push_back(ask("How many cats are there?"));
  all.push_back(ask("图里有几只猫？", {"p002.png", "p001.png"}));
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text += i % 2 == 0 ? "two red cats and " : "一只猫，";
  }
  all.push_back(ask(text));
  all.back().ignores_eos = true;
  all.push_back(ask("Tell me something.", {"p003.png"}));
  all.back().sampling.temperature = 1.5;
  all.back().sampling.seed = 7;
  all.back().choices = 3;
  all.push_back(ask("Tell me something."));
  all.back().sampling.temperature = 1.0;
  all.back().sampling.seed = 8;
  all.back().sampling.frequency_penalty = 0.5;
  all.back().stop = {"e"};
  return all;
}

EngineOptions options_of(int threads, int64_t step_rows, int64_t kept, int64_t cache) {
  EngineOptions options;
  options.model = kDemo;
  options.threads = threads;
  options.step_rows = step_rows;
  options.prefix_cache_bytes = kept;
  options.prefix_interval = 10;
  options.picture_cache_bytes = cache;
  options.context = 2048;
  options.serving.max_running = 4;
  options.serving.rows_beside_answers = std::min<int64_t>(step_rows, 5);
  return options;
}

// What each request gets alone.
const std::vector<Result>& expected() {
  static const std::vector<Result> results = [] {
    const std::unique_ptr<Engine> engine = Engine::open(options_of(1, 512, 0, 0));
    std::vector<Result> all;
    for (const Request& request : mixed()) {
      all.push_back(engine->generate(request));
    }
    return all;
  }();
  return results;
}

void expect_same(const Result& got, const Result& want, const std::string& name) {
  ASSERT_EQ(got.choices.size(), want.choices.size()) << name;
  EXPECT_EQ(got.prompt_tokens, want.prompt_tokens) << name;
  for (size_t i = 0; i < want.choices.size(); ++i) {
    const Choice& a = got.choices[i];
    const Choice& b = want.choices[i];
    ASSERT_EQ(a.ids, b.ids) << name << ", answer " << i;
    EXPECT_EQ(a.text, b.text) << name;
    EXPECT_EQ(a.finish_reason, b.finish_reason) << name;
    EXPECT_EQ(a.stop_string, b.stop_string) << name;
    ASSERT_EQ(a.logprobs.size(), b.logprobs.size()) << name;
    for (size_t k = 0; k < b.logprobs.size(); ++k) {
      EXPECT_EQ(a.logprobs[k].token.logprob, b.logprobs[k].token.logprob)  // not "nearly"
          << name << ", answer " << i << ", token " << k;
    }
  }
}

void expect_all_same(Engine& engine, const std::string& name) {
  std::vector<std::shared_ptr<Ticket>> tickets;
  for (Request& request : mixed()) {
    tickets.push_back(engine.submit(std::move(request)));
  }
  for (size_t i = 0; i < tickets.size(); ++i) {
    expect_same(tickets[i]->result(), expected()[i], str_cat(name, ", request ", i));
  }
}

TEST(Scheduler, NothingThatRunsBesideChangesAnAnswer) {
  const std::pair<int64_t, int> mixes[] = {{1, 2}, {7, 1}, {64, 2}, {512, 1}};
  for (const auto& [step_rows, threads] : mixes) {
    const std::unique_ptr<Engine> engine = Engine::open(options_of(threads, step_rows, 0, 0));
    expect_all_same(*engine, str_cat("steps of ", step_rows, ", ", threads, " threads"));
  }
}

// The second round finds states and pictures of the first.
TEST(Scheduler, NothingThatIsKeptChangesAnAnswer) {
  const std::unique_ptr<Engine> engine = Engine::open(options_of(2, 7, 8 << 20, 1 << 20));
  for (int round = 0; round < 3; ++round) {
    expect_all_same(*engine, str_cat("round ", round));
  }
  Request again = ask("What does the image show?", {"p001.png"});
  const Result result = engine->submit(again)->result();
  EXPECT_GT(result.cached_tokens, 0);
  const ServingStatistics statistics = engine->serving_statistics();
  EXPECT_EQ(statistics.ended, 19);
  EXPECT_GT(statistics.cached_tokens, 0);
  EXPECT_GT(statistics.cached_pictures, 0);
  EXPECT_EQ(statistics.unfinished, 0);
  EXPECT_LT(statistics.steps, statistics.rows);
}

// More than the caches hold: states and pictures come and go all the time.
TEST(Scheduler, CachesThatAreTooSmallChangeNoAnswer) {
  EngineOptions options = options_of(1, 64, 60'000, 65'536);  // few states, few pictures
  options.serving.max_running = 2;
  options.serving.cache_tokens = 700;  // so that requests wait for memory
  const std::unique_ptr<Engine> engine = Engine::open(options);
  for (int round = 0; round < 4; ++round) {
    expect_all_same(*engine, str_cat("small caches, round ", round));
  }
}

// Answers that grow into each other's room: the latest request gives its memory back and goes on
// later, with the same bits.
TEST(Scheduler, WhoCameLastGivesWay) {
  std::vector<Request> requests = {ask("Tell me something."), ask("What is this?", {"p001.png"}),
                                   ask("讲点什么。")};
  std::vector<Result> alone;
  int64_t prompts = 0;
  {
    const std::unique_ptr<Engine> engine = Engine::open(options_of(1, 512, 0, 0));
    for (Request& request : requests) {
      request.ignores_eos = true;
      request.max_tokens = 100;
      request.sampling.temperature = 1;
      alone.push_back(engine->generate(request));
      prompts += alone.back().prompt_tokens;
    }
    requests[1].choices = 2;  // forks are saved as forks
    alone[1] = engine->generate(requests[1]);
  }
  for (const int64_t kept : {0, 4 << 20}) {
    EngineOptions options = options_of(2, 64, kept, 0);
    options.serving.answer_room = 1;
    options.serving.cache_tokens = prompts + 220;
    const std::unique_ptr<Engine> engine = Engine::open(options);
    std::vector<std::shared_ptr<Ticket>> tickets;
    for (const Request& request : requests) {
      tickets.push_back(engine->submit(request));
    }
    for (size_t i = 0; i < requests.size(); ++i) {
      expect_same(tickets[i]->result(), alone[i], str_cat("request ", i, ", kept ", kept));
    }
    EXPECT_GT(engine->serving_statistics().swapped_out, 0);
    // One that is dropped while it is swapped out leaves nothing behind either.
    const std::shared_ptr<Ticket> first = engine->submit(requests[1]);
    const std::shared_ptr<Ticket> dropped = engine->submit(requests[0]);
    const int64_t swapped = engine->serving_statistics().swapped_out;
    while (engine->serving_statistics().swapped_out == swapped && !dropped->has_ended()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    dropped->cancel();
    expect_same(first->result(), alone[1], "beside a dropped one");
    dropped->result();
    expect_same(engine->submit(requests[2])->result(), alone[2], "after it");
  }
}

TEST(Scheduler, ThePlanOfItsMemory) {
  EngineOptions options = options_of(1, 64, 8 << 20, 1 << 20);
  options.serving.max_running = 16;
  const std::unique_ptr<Engine> engine = Engine::open(options);
  const MemoryPlan plan = engine->memory_plan();
  EXPECT_GT(plan.bytes(), 9 << 20);
  EXPECT_NE(plan.text().find("cache pages"), std::string::npos) << plan.text();
  EXPECT_NE(plan.text().find("together"), std::string::npos);
  std::vector<std::shared_ptr<Ticket>> tickets;
  for (const Request& request : mixed()) {
    tickets.push_back(engine->submit(request));
  }
  for (const std::shared_ptr<Ticket>& ticket : tickets) {
    ticket->result();
  }
  const MemoryPlan after = engine->memory_plan();
  for (const MemoryPlan::Part& part : plan.parts) {
    for (const MemoryPlan::Part& now : after.parts) {
      EXPECT_TRUE(now.name != part.name || now.name == "scratch" || now.bytes == part.bytes)
          << part.name;
    }
  }
}

TEST(Scheduler, RequestsFromSeveralThreadsAndAlone) {
  const std::unique_ptr<Engine> engine = Engine::open(options_of(1, 64, 0, 1 << 20));
  std::vector<std::thread> users;
  for (int user = 0; user < 3; ++user) {
    users.emplace_back([&] { expect_all_same(*engine, "side by side"); });
  }
  const Request alone = ask("How many cats are there?");
  expect_same(engine->generate(alone), expected()[1], "alone, between steps");
  for (std::thread& user : users) {
    user.join();
  }
}

TEST(Scheduler, EventsOfARequestAddUp) {
  const std::unique_ptr<Engine> engine = Engine::open(options_of(1, 64, 0, 0));
  const std::shared_ptr<Ticket> ticket =
      engine->submit(ask("What does the image show?", {"p001.png"}));
  std::string content;
  int pictures = 0;
  while (const std::optional<RequestEvent> event = ticket->next()) {
    if (event->kind == RequestEvent::Kind::delta &&
        event->delta.kind == AnswerDelta::Kind::content) {
      content += event->delta.text;
    }
    pictures += event->text == "picture" ? 1 : 0;
  }
  EXPECT_TRUE(ticket->has_ended());
  EXPECT_GT(pictures, 0);
  EXPECT_EQ(content, ticket->result().choices[0].answer.content);
  EXPECT_FALSE(ticket->next(std::chrono::milliseconds(1)).has_value());
}

// A request that is cancelled anywhere leaves nothing behind, and others go on.
TEST(Scheduler, CancelledRequestsLeaveNoTrace) {
  const std::unique_ptr<Engine> engine = Engine::open(options_of(1, 3, 1 << 20, 1 << 20));
  const std::vector<Request> all = mixed();
  const int rounds = test::kHasThreadSanitizer ? 20 : 100;
  for (int round = 0; round < rounds; ++round) {
    const size_t which = static_cast<size_t>(round) % all.size();
    const std::shared_ptr<Ticket> dropped = engine->submit(all[which]);
    const std::shared_ptr<Ticket> other = engine->submit(all[1]);
    for (int i = 0; i < round % 30; ++i) {
      dropped->next(std::chrono::milliseconds(2));
    }
    dropped->cancel();
    expect_same(other->result(), expected()[1], str_cat("round ", round));
    const Result result = dropped->result();
    if (result.is_cancelled) {
      EXPECT_EQ(result.choices.back().finish_reason, FinishReason::cancelled);
    }
  }
  EXPECT_EQ(engine->serving_statistics().unfinished, 0);
}

TEST(Scheduler, AFailingRequestTakesNoOtherWithIt) {
  const std::unique_ptr<Engine> engine = Engine::open(options_of(1, 64, 0, 0));
  const std::shared_ptr<Ticket> good = engine->submit(mixed()[2]);
  const std::shared_ptr<Ticket> bad = engine->submit(ask("x", {"no such picture.png"}));
  EXPECT_THROW(bad->result(), Error);
  expect_same(good->result(), expected()[2], "beside a failing one");
  EXPECT_EQ(engine->serving_statistics().failed, 1);
}

// Requests that share a system prompt or a picture compute what they share once.
TEST(Scheduler, ASharedBeginningIsComputedOnce) {
  EngineOptions plain_options = options_of(1, 512, 0, 0);
  const std::unique_ptr<Engine> plain = Engine::open(plain_options);
  const std::unique_ptr<Engine> engine = Engine::open(options_of(1, 64, 8 << 20, 1 << 20));
  Message system;
  system.role = Role::system;
  system.content.emplace_back().text = "Count what you see. 请数一数图里的东西。 Be short.";
  int64_t shared = 0;
  for (const char* question : {"How many cats?", "几只猫？", "What is red?"}) {
    Request request = ask(question, {"p001.png"});
    request.messages.insert(request.messages.begin(), system);
    const Result got = engine->submit(request)->result();
    expect_same(got, plain->generate(request), question);
    EXPECT_GE(got.cached_tokens, shared) << question;
    shared = 10;  // the system prompt has more
  }
}

// What one tenant left is of no use to another, and the answers are the same.
TEST(Scheduler, TenantsDoNotShareWhatIsKept) {
  const std::unique_ptr<Engine> engine = Engine::open(options_of(1, 64, 8 << 20, 1 << 20));
  Request request = mixed()[0];
  request.tenant = "a";
  engine->submit(request)->result();
  request.tenant = "b";
  const Result other = engine->submit(request)->result();
  EXPECT_EQ(other.cached_tokens, 0);
  EXPECT_EQ(other.cached_pictures, 0);
  expect_same(other, expected()[0], "another tenant");
  request.tenant = "a";
  const Result again = engine->submit(request)->result();
  EXPECT_GT(again.cached_tokens, 0);
  expect_same(again, expected()[0], "the same tenant");
  const ServingStatistics statistics = engine->serving_statistics();
  EXPECT_EQ(statistics.cached_tokens, again.cached_tokens);
  EXPECT_EQ(statistics.prompt_tokens, 3 * again.prompt_tokens);
  EXPECT_EQ(statistics.pictures, 3);
}

TEST(Scheduler, WhatIsLateEnds) {
  const std::unique_ptr<Engine> engine = Engine::open(options_of(1, 1, 0, 0));
  Request request = endless();
  request.deadline = std::chrono::milliseconds(30);
  const Result late = engine->submit(request)->result();
  EXPECT_TRUE(late.is_cancelled);
  EXPECT_TRUE(late.is_late);
  request = mixed()[1];
  request.deadline = std::chrono::minutes(10);
  const Result result = engine->submit(request)->result();
  EXPECT_FALSE(result.is_late);
  expect_same(result, expected()[1], "in time");
}

Failure refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

// A picture whose host says nothing holds up neither texts nor, with a thread to spare, others.
TEST(Scheduler, APictureThatDoesNotComeKeepsNobodyWaiting) {
  SilentHost host;
  EngineOptions options = options_of(1, 64, 0, 0);
  options.pictures.fetch.is_enabled = true;
  options.pictures.fetch.allows_private_hosts = true;
  options.pictures.fetch.total_timeout = std::chrono::hours(1);
  const std::unique_ptr<Engine> engine = Engine::open(options);
  Request slow = ask("What is this?");
  slow.messages[0].content.emplace_back().kind = ContentBlock::Kind::image;
  slow.messages[0].content.back().image.value = host.url();
  std::vector<std::shared_ptr<Ticket>> waiting;
  for (int i = 0; i < 3; ++i) {
    waiting.push_back(engine->submit(slow));
  }
  expect_same(engine->submit(mixed()[1])->result(), expected()[1], "beside slow pictures");
  EXPECT_FALSE(waiting[0]->has_ended());
  for (const std::shared_ptr<Ticket>& ticket : waiting) {
    ticket->cancel();
  }
  for (const std::shared_ptr<Ticket>& ticket : waiting) {
    EXPECT_TRUE(ticket->result().is_cancelled);
  }
}

TEST(Scheduler, WhatCanNeverFitIsSaidWithItsSum) {
  EngineOptions options = options_of(1, 64, 0, 0);
  options.serving.cache_tokens = 100;
  const std::unique_ptr<Engine> engine = Engine::open(options);
  Request request = ask("How many cats are there?");
  request.max_tokens = 200;
  const std::string message = refusal([&] { engine->submit(request)->result(); }).message;
  EXPECT_NE(message.find("the caches hold 100"), std::string::npos) << message;
  expect_same(engine->submit(mixed()[1])->result(), expected()[1], "after it");
}

TEST(Scheduler, AFullQueueRefusesAtOnce) {
  EngineOptions options = options_of(1, 1, 0, 0);
  options.serving.max_queued = 2;
  const std::unique_ptr<Engine> engine = Engine::open(options);
  const std::shared_ptr<Ticket> a = engine->submit(endless());
  const std::shared_ptr<Ticket> b = engine->submit(endless());
  EXPECT_EQ(refusal([&] { engine->submit(mixed()[1]); }).code, ErrorCode::queue_full);
  a->cancel();
  b->cancel();
  a->result();
  b->result();
  engine->drain();
  EXPECT_EQ(refusal([&] { engine->submit(mixed()[1]); }).code, ErrorCode::queue_full);
}

TEST(Scheduler, OptionsOutOfRangeAreNamedAtOnce) {
  const std::unique_ptr<Engine> engine = Engine::open(options_of(1, 64, 0, 0));
  Request request = ask("x");
  request.sampling.top_p = 2;
  EXPECT_NE(refusal([&] { engine->submit(request); }).message.find("top_p"), std::string::npos);
  EngineOptions options = options_of(1, 64, 0, 0);
  options.serving.encode_share = 1;
  EXPECT_NE(refusal([&] { Engine::open(options); }).message.find("encode_share"),
            std::string::npos);
  const auto refused = [](const std::function<void(EngineOptions&)>& change) {
    EngineOptions changed = options_of(1, 64, 0, 0);
    change(changed);
    return refusal([&] { Engine::open(changed); }).message;
  };
  using O = EngineOptions;
  EXPECT_NE(refused([](O& o) { o.step_rows = 0; }).find("step_rows is 0"), std::string::npos);
  EXPECT_NE(refused([](O& o) { o.prefix_interval = 0; }).find("prefix_interval is 0"),
            std::string::npos);
  EXPECT_NE(refused([](O& o) { o.prefix_cache_bytes = -1; }).find("prefix_cache_bytes is -1"),
            std::string::npos);
  EXPECT_NE(refused([](O& o) { o.prefix_cache_bytes = 100; }).find("a state of this model has"),
            std::string::npos);
  EXPECT_NE(refused([](O& o) { o.picture_cache_bytes = 100; }).find("the largest picture"),
            std::string::npos);
  EXPECT_NE(refused([](O& o) { o.serving.answer_room = 0; }).find("answer_room is 0"),
            std::string::npos);
}

TEST(Scheduler, ParitySwitchesThatDependOnStepsAreRefused) {
  EngineOptions options = options_of(1, 64, 0, 0);
  options.reference_index_slot = true;
  const std::unique_ptr<Engine> engine = Engine::open(options);
  EXPECT_NE(refusal([&] { engine->submit(ask("x")); }).message.find("index-slot"),
            std::string::npos);
}

// An engine that goes ends what still runs.
TEST(Scheduler, RequestsOfAnEngineThatGoesAreCancelled) {
  std::shared_ptr<Ticket> ticket;
  {
    const std::unique_ptr<Engine> engine = Engine::open(options_of(1, 1, 0, 0));
    ticket = engine->submit(endless());
  }
  EXPECT_TRUE(ticket->has_ended());
  EXPECT_TRUE(ticket->result().is_cancelled);
}

TEST(Scheduler, TheHeartbeatBeatsWithoutWork) {
  const std::unique_ptr<Engine> engine = Engine::open(options_of(1, 64, 0, 0));
  engine->submit(mixed()[1])->result();
  const int64_t before = engine->serving_statistics().heartbeat;
  while (engine->serving_statistics().heartbeat == before) {  // else the test never ends
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace
}  // namespace tessera
