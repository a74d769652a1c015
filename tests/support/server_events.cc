// The event streams of server_client.h.
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "tests/support/json_lines.h"
#include "tests/support/server_client.h"

namespace tessera::test {
namespace {

using io::Json;

// Stages of a choice, which only go forward.
enum class Stage { none, role, reasoning, content, calls, end };

struct JoinedChoice {
  Stage stage = Stage::none;
  std::string reasoning;
  bool has_reasoning = false;
  std::string content;
  std::vector<Json> calls;
  Json logprobs;
  Json finish_reason;
};

void advance(JoinedChoice& choice, Stage stage, bool repeats = true) {
  EXPECT_TRUE(choice.stage < stage || (repeats && choice.stage == stage))
      << "an event of stage " << static_cast<int>(stage) << " behind one of stage "
      << static_cast<int>(choice.stage);
  EXPECT_TRUE(choice.stage != Stage::none || stage == Stage::role) << "the role comes first";
  choice.stage = stage;
}

// "function" with more text at the end of its arguments.
void add_call_piece(const Json& piece, std::vector<Json>& calls) {
  const size_t index = static_cast<size_t>(integer_of(piece, "index"));
  const Json* const function = piece.find("function");
  ASSERT_NE(function, nullptr);
  if (index == calls.size()) {
    Json call = Json::object();
    for (const auto& [name, value] : piece.members()) {
      if (name != "index") {
        call.set(name, value);
      }
    }
    EXPECT_EQ(text_of(*function, "arguments"), "");
    calls.push_back(std::move(call));
    return;
  }
  ASSERT_EQ(index + 1, calls.size()) << "calls come one after the other";
  EXPECT_EQ(piece.find("id"), nullptr);
  Json joined = *calls[index].find("function");
  const std::string arguments = text_of(joined, "arguments") + text_of(*function, "arguments");
  joined.set("arguments", Json::string(arguments));
  calls[index].set("function", std::move(joined));
}

void add_delta(const Json& delta, bool is_last, JoinedChoice& choice) {
  if (is_last) {
    EXPECT_TRUE(delta.members().empty());
    return advance(choice, Stage::end, false);
  }
  if (delta.find("role") != nullptr) {
    EXPECT_EQ(io::dump_compact(delta), R"({"role":"assistant","content":""})");
    return advance(choice, Stage::role, false);
  }
  ASSERT_EQ(delta.members().size(), 1U);
  const auto& [name, value] = delta.members().front();
  if (name == "reasoning_content") {
    advance(choice, Stage::reasoning);
    choice.has_reasoning = true;
    choice.reasoning += value.text();
  } else if (name == "content") {
    advance(choice, Stage::content);
    choice.content += value.text();
  } else {
    ASSERT_EQ(name, "tool_calls");
    ASSERT_EQ(value.items().size(), 1U);
    advance(choice, Stage::calls);
    add_call_piece(value.items().front(), choice.calls);
  }
  EXPECT_TRUE(name == "tool_calls" || !value.text().empty()) << "an empty piece";
}

Json message_of(const JoinedChoice& choice) {
  Json message = Json::object({{"role", Json::string("assistant")}});
  const bool is_calls_only = choice.content.empty() && !choice.calls.empty();
  message.set("content", is_calls_only ? Json() : Json::string(choice.content));
  if (choice.has_reasoning) {
    message.set("reasoning_content", Json::string(choice.reasoning));
  }
  if (!choice.calls.empty()) {
    message.set("tool_calls", Json::array(choice.calls));
  }
  return message;
}

// `add`: (choice of an event, whether it is the last of the choice, what is known of it).
template <typename Add, typename Finish>
Json joined(const EventStream& stream, const char* object, const Add& add, const Finish& finish) {
  std::map<int64_t, JoinedChoice> choices;
  Json usage;
  for (const Json& event : stream.events) {
    EXPECT_TRUE(usage.is_null()) << "an event behind the usage";
    EXPECT_EQ(text_of(event, "object"), object);
    EXPECT_EQ(text_of(event, "id"), text_of(stream.events.front(), "id"));
    const Json* const list = event.find("choices");
    if (list == nullptr || list->items().empty()) {
      const Json* const found = event.find("usage");
      usage = found == nullptr ? Json() : *found;
      EXPECT_TRUE(usage.is_object()) << io::dump_compact(event);
      continue;
    }
    const Json& entry = list->items().front();
    JoinedChoice& choice = choices[integer_of(entry, "index")];
    const bool is_last = !entry.find("finish_reason")->is_null();
    if (is_last) {
      choice.finish_reason = *entry.find("finish_reason");
      choice.logprobs = *entry.find("logprobs");
    } else {
      EXPECT_TRUE(entry.find("logprobs")->is_null());
    }
    add(entry, is_last, choice);
  }
  Json list = Json::array();
  for (const auto& [index, choice] : choices) {
    EXPECT_FALSE(choice.finish_reason.is_null()) << "choice " << index << " has no end";
    Json entry = Json::object({{"index", Json::number(index)}});
    finish(choice, entry);
    entry.set("logprobs", choice.logprobs);
    entry.set("finish_reason", choice.finish_reason);
    list.items().push_back(std::move(entry));
  }
  return Json::object({{"choices", std::move(list)}, {"usage", std::move(usage)}});
}

}  // namespace

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    const size_t length = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 0;
    if (length == 0 || i + length > text.size()) {
      return false;
    }
    for (size_t k = 1; k < length; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0U) != 0x80U) {
        return false;
      }
    }
    i += length;
  }
  return true;
}

EventStream events_of(const HttpAnswer& answer) {
  EventStream stream;
  EXPECT_EQ(answer.status, 200) << answer.body.substr(0, 300);
  EXPECT_EQ(answer.header("Content-Type"), "text/event-stream");
  EXPECT_TRUE(answer.is_whole) << "the stream has no end";
  for (const std::string& chunk : answer.chunks) {
    EXPECT_TRUE(is_utf8(chunk)) << "a chunk splits a code point: '" << chunk << "'";
  }
  bool is_done = false;
  for (size_t begin = 0; begin < answer.body.size();) {
    const size_t end = answer.body.find("\n\n", begin);
    if (end == std::string::npos) {
      ADD_FAILURE() << "no blank line at the end: '" << answer.body.substr(begin) << "'";
      break;
    }
    const std::string event = answer.body.substr(begin, end - begin);
    begin = end + 2;
    EXPECT_FALSE(is_done) << "behind [DONE]: '" << event << "'";
    EXPECT_EQ(event.find_first_of("\r\n"), std::string::npos) << "more than a line: '" << event;
    if (event.starts_with(":")) {
      ++stream.comments;
    } else if (event == "data: [DONE]") {
      is_done = true;
    } else if (event.starts_with("data: {")) {
      stream.events.push_back(io::parse_json(event.substr(6), "event"));
    } else {
      ADD_FAILURE() << "no event: '" << event << "'";
    }
  }
  EXPECT_TRUE(is_done) << "no [DONE] at the end";
  return stream;
}

Json joined_chat(const EventStream& stream) {
  return joined(
      stream, "chat.completion.chunk",
      [](const Json& entry, bool is_last, JoinedChoice& choice) {
        add_delta(*entry.find("delta"), is_last, choice);
      },
      [](const JoinedChoice& choice, Json& entry) { entry.set("message", message_of(choice)); });
}

Json joined_text(const EventStream& stream) {
  return joined(
      stream, "text_completion",
      [](const Json& entry, bool is_last, JoinedChoice& choice) {
        EXPECT_NE(choice.stage, Stage::end) << "a piece behind the end of its choice";
        choice.stage = is_last ? Stage::end : Stage::content;
        EXPECT_EQ(text_of(entry, "text").empty(), is_last);
        choice.content += text_of(entry, "text");
      },
      [](const JoinedChoice& choice, Json& entry) {
        entry.set("text", Json::string(choice.content));
      });
}

}  // namespace tessera::test
