// Recorded requests (tests/golden/text/chat_requests.jsonl): the rows about sampling and transport.
// The others are chat_request_test.cc's.
#include <gtest/gtest.h>

#include <map>

#include "server/api_chat.h"
#include "server/api_test.h"
#include "tests/support/json_lines.h"

namespace tessera::server {
namespace {

using io::Json;

bool is_ours(const std::string& id) {
  return (id >= "r076" && id <= "r108") || (id >= "r121" && id <= "r125");
}

// Refused by deepseek-recipe, accepted here.
const std::map<std::string, std::string>& accepted_here() {
  static const std::map<std::string, std::string> reasons = {
      {"r092", "top_p 0 is in OpenAI's range: the most likely token alone"},
      {"r097", "n 2: several answers are supported"},
      {"r099", "seed -1: OpenAI's seeds have a sign"},
      {"r124", "model null counts as absent, as for every field"},
  };
  return reasons;
}

// Of what else is refused: the field that is named.
const std::map<std::string, std::string>& params() {
  static const std::map<std::string, std::string> names = {
      {"r076", "stop"},
      {"r078", "stop"},
      {"r079", "stop[0]"},
      {"r080", "stop"},
      {"r082", "max_tokens"},
      {"r083", "max_tokens"},
      {"r084", "max_tokens"},
      {"r086", "max_tokens"},
      {"r088", "temperature"},
      {"r090", "temperature"},
      {"r091", "temperature"},
      {"r093", "top_p"},
      {"r094", "top_p"},
      {"r095", "presence_penalty"},
      {"r096", "frequency_penalty"},
      {"r098", "n"},
      {"r100", "seed"},
      {"r103", "top_logprobs"},
      {"r104", "top_logprobs"},
      {"r105", "logprobs"},
      {"r106", "stream"},
      {"r107", "stream_options"},
      {"r121", "model"},
      {"r122", "model"},
      {"r125", "model"},
  };
  return names;
}

// The names that the recorded server has.
ApiLimits recorded_limits() {
  ApiLimits limits;
  limits.models = {"DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"};
  return limits;
}

void check_refused(const std::string& id, const Json& row) {
  const std::string body = io::dump_compact(*row.find("request"));
  const auto param = params().find(id);
  try {
    parse_chat_body(body, recorded_limits());
    EXPECT_TRUE(accepted_here().contains(id));
    EXPECT_EQ(param, params().end());
  } catch (const ApiError& error) {
    ASSERT_NE(param, params().end()) << error.message();
    EXPECT_EQ(error.param(), param->second);
    // r121, r122: an unknown model is 404, as with OpenAI; deepseek-recipe says 400.
    EXPECT_EQ(error.status(), id == "r121" || id == "r122" ? 404 : 400);
  }
}

void check_accepted(const std::string& id, const Json& row) {
  const ChatCall call = parse_chat_body(io::dump_compact(*row.find("request")), recorded_limits());
  const Json& sampling = *row.find("sampling");
  EXPECT_EQ(call.request.sampling.temperature.value_or(1.0),
            sampling.find("temperature")->as_double());
  std::vector<std::string> stop;
  for (const Json& text : row.find("parsing")->find("stop")->items()) {
    stop.push_back(text.text());
  }
  EXPECT_EQ(call.request.stop, stop);
  // deepseek-recipe does not read max_completion_tokens.
  const std::optional<int64_t> most =
      id == "r087" ? std::optional<int64_t>(5) : sampling.find("max_tokens")->as_int64();
  EXPECT_EQ(call.request.max_tokens, most);
  EXPECT_EQ(call.options.ignored_fields, 0);
}

TEST(ApiGolden, RowsOfSamplingAndTransport) {
  size_t refused = 0;
  size_t accepted = 0;
  for (const Json& row :
       tessera::test::read_json_lines(tessera::test::golden_path("text/chat_requests.jsonl"))) {
    const std::string id = tessera::test::text_of(row, "id");
    if (!is_ours(id)) {
      continue;
    }
    SCOPED_TRACE(id);
    if (row.find("accepted") != nullptr) {
      ++accepted;
      check_accepted(id, row);
    } else {
      ++refused;
      check_refused(id, row);
    }
  }
  EXPECT_EQ(refused, accepted_here().size() + params().size());
  EXPECT_EQ(accepted, 9U);
}

}  // namespace
}  // namespace tessera::server
