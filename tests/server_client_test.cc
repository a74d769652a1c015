// The client of these tests sees what is wrong with a stream.
#include "tests/support/server_client.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <string>

namespace tessera::test {
namespace {

HttpAnswer stream_of(std::vector<std::string> chunks) {
  HttpAnswer answer;
  answer.status = 200;
  answer.head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
  for (const std::string& chunk : chunks) {
    answer.body += chunk;
  }
  answer.chunks = std::move(chunks);
  answer.is_whole = true;
  return answer;
}

const std::string kDone = "data: [DONE]\n\n";

TEST(ServerClient, WholeStreams) {
  const EventStream stream =
      events_of(stream_of({": waiting\n\n", "data: {\"a\": \"根\"}\n\n" + kDone}));
  EXPECT_EQ(stream.events.size(), 1U);
  EXPECT_EQ(stream.comments, 1);
}

TEST(ServerClient, BrokenStreams) {
  EXPECT_NONFATAL_FAILURE(events_of(stream_of({"data: {}\n\n"})), "no [DONE]");
  EXPECT_NONFATAL_FAILURE(events_of(stream_of({kDone, "data: {}\n\n"})), "behind [DONE]");
  EXPECT_NONFATAL_FAILURE(events_of(stream_of({"{}\n\n", kDone})), "no event");
  EXPECT_NONFATAL_FAILURE(events_of(stream_of({"data: {}\n", "\n" + kDone + "data"})),
                          "no blank line");
  const std::string text = "data: {\"a\": \"根\"}\n\n";
  EXPECT_TRUE(is_utf8(text));
  EXPECT_FALSE(is_utf8(text.substr(0, 14)));
  EXPECT_TRUE(is_utf8("a根\xf0\x9f\xa5\x95"));
  EXPECT_FALSE(is_utf8("\xe6\xa0"));
  EXPECT_FALSE(is_utf8("\xb9"));
}

constexpr const char* kHead =
    R"(data: {"id": "1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": )";
constexpr const char* kTail = R"(, "logprobs": null, "finish_reason": null}]})";

std::string delta(const std::string& value) { return kHead + value + kTail + "\n\n"; }

const std::string kRole = delta(R"({"role": "assistant", "content": ""})");
const std::string kText = delta(R"({"content": "x"})");
const std::string kReasoning = delta(R"({"reasoning_content": "y"})");
const std::string kEnd =
    std::string(kHead) + R"({}, "logprobs": null, "finish_reason": "stop"}]})" + "\n\n" + kDone;

TEST(ServerClient, OrderOfEvents) {
  const io::Json joined =
      joined_chat(events_of(stream_of({kRole, kReasoning, kText, kText, kEnd})));
  EXPECT_EQ(io::dump_compact(joined),
            R"({"choices":[{"index":0,"message":{"role":"assistant","content":"xx",)"
            R"("reasoning_content":"y"},"logprobs":null,"finish_reason":"stop"}],"usage":null})");
  EXPECT_NONFATAL_FAILURE(joined_chat(events_of(stream_of({kRole, kText, kReasoning, kEnd}))),
                          "behind one of stage");
  EXPECT_NONFATAL_FAILURE(joined_chat(events_of(stream_of({kText, kEnd}))), "role comes first");
  EXPECT_NONFATAL_FAILURE(joined_chat(events_of(stream_of({kRole, kText, kDone}))), "has no end");
}

}  // namespace
}  // namespace tessera::test
