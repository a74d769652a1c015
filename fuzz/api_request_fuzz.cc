// server/api_*.h: any bytes as the body of any endpoint are refused by an ApiError of status 400 or
// 404, or give a request that the engine accepts.
#include "fuzz/target.h"
#include "io/json.h"
#include "server/api_chat.h"
#include "server/api_completion.h"
#include "server/api_error.h"
#include "server/api_tokens.h"

namespace {

using namespace tessera;
using namespace tessera::server;

void check_error(const ApiError& error) {
  TESSERA_CHECK(error.status() == 400 || error.status() == 404);
  TESSERA_CHECK(error.message().find('\n') == std::string::npos);
  TESSERA_CHECK(is_valid_utf8(error.message()) && is_valid_utf8(error.param()));
  const io::Json body = io::parse_json(error_body(error), "error");
  TESSERA_CHECK(body.find("error")->find("message")->text() == error.message());
}

template <typename Parse>
auto parse_or_refuse(Parse parse) -> std::optional<decltype(parse())> {
  try {
    return parse();
  } catch (const ApiError& error) {
    check_error(error);
    return std::nullopt;
  }
}

bool is_same(const Request& a, const Request& b) {
  return a.messages.size() == b.messages.size() && a.raw_prompt == b.raw_prompt &&
         a.stop == b.stop && a.max_tokens == b.max_tokens && a.choices == b.choices &&
         a.logprobs == b.logprobs && a.sampling.temperature == b.sampling.temperature &&
         a.sampling.logit_bias == b.sampling.logit_bias && a.sampling.seed == b.sampling.seed;
}

// Parses the text, and once more as we would spell it.
template <typename Parse>
void check_call(std::string_view text, Parse parse) {
  const auto call = parse_or_refuse([&] { return parse(text, ApiLimits()); });
  if (call.has_value()) {
    check_options(call->request, OptionNames::api);
    const std::string compact = io::dump_compact(io::parse_json(text, "body"));
    TESSERA_CHECK(is_same(call->request, parse(compact, ApiLimits()).request));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_call(text, parse_chat_body);
  check_call(text, parse_completion_body);
  parse_or_refuse([&] { return parse_tokenize_body(text, {}); });
  const TokenBytes bytes = [](int32_t id) {
    return id < 100 ? std::string_view("\xe4x") : std::string_view();
  };
  const auto ids = parse_or_refuse([&] { return parse_detokenize_body(text, {}, bytes); });
  if (ids.has_value()) {
    TESSERA_CHECK(is_valid_utf8(detokenize_json(*ids, bytes).find("prompt")->text()));
  }
  return 0;
}
