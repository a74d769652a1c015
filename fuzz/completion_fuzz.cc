// models/deepseek_v41/completion.h: a byte of options, a line of stop strings separated by '|',
// then the completion. The streaming parser gives one answer however the text is cut; the strict
// one refuses the text or gives arguments that are JSON where all values are strings.
#include <algorithm>
#include <string>
#include <vector>

#include "fuzz/target.h"
#include "io/json.h"
#include "models/deepseek_v41/completion.h"
#include "tokenizer/utf8.h"

namespace tessera::deepseek_v41 {
namespace {

struct Input {
  CompletionOptions options;
  std::string text;
};

Input input_of(const std::string& bytes) {
  using Start = CompletionOptions::Start;
  constexpr Start kStarts[] = {Start::answer, Start::reasoning, Start::calls,
                               Start::continued_answer, Start::continued_reasoning};
  Input input;
  const unsigned flags = bytes.empty() ? 0 : static_cast<unsigned char>(bytes[0]) & 0x7fU;
  input.options.start = kStarts[flags % 8 % std::size(kStarts)];
  input.options.parses_calls = (flags & 8U) == 0;
  input.options.is_json = (flags & 16U) != 0;
  const size_t line = std::min(bytes.find('\n'), bytes.size());
  for (size_t begin = 1; begin < line;) {
    const size_t end = std::min(bytes.find('|', begin), line);
    if (end > begin && is_valid_utf8(bytes.substr(begin, end - begin))) {
      input.options.stop.push_back(bytes.substr(begin, end - begin));
    }
    begin = end + 1;
  }
  input.text = bytes.substr(std::min(line + 1, bytes.size()));
  return input;
}

struct Parsed {
  Answer answer;
  std::string stop_string;
  bool is_finished = false;
  int64_t calls = 0;
  bool operator==(const Parsed&) const = default;
};

void add(std::vector<AnswerDelta>& deltas, Parsed& parsed) {
  for (const AnswerDelta& delta : deltas) {
    TESSERA_CHECK(is_valid_utf8(delta.text));
    TESSERA_CHECK(!delta.text.empty() || delta.kind == AnswerDelta::Kind::call_name);
    append(delta, parsed.answer);
  }
  deltas.clear();
}

// In one piece, or in pieces of 1 to `longest` code points.
Parsed parse_whole_or_cut(const Input& input, std::optional<size_t> longest) {
  CompletionParser parser(input.options);
  Parsed parsed;
  std::vector<AnswerDelta> deltas;
  uint32_t state = 1;
  for (size_t at = 0; at < input.text.size();) {
    const size_t begin = at;
    state = state * 1664525 + 1013904223;
    const size_t count = longest.has_value() ? 1 + (state >> 8) % *longest : input.text.size();
    for (size_t i = 0; i < count && at < input.text.size(); ++i) {
      next_code_point(input.text, at);
    }
    parser.push(std::string_view(input.text).substr(begin, at - begin), deltas);
    add(deltas, parsed);
  }
  parser.finish(deltas);
  add(deltas, parsed);
  parsed.stop_string = parser.stop_string();
  parsed.is_finished = parser.is_finished();
  parsed.calls = parser.calls();
  TESSERA_CHECK(parsed.calls == static_cast<int64_t>(parsed.answer.tool_calls.size()));
  return parsed;
}

void check_strict(const std::string& text, bool is_thinking) {
  const std::optional<Answer> answer =
      fuzz::parse_or_refuse([&] { return parse_completion(text, is_thinking); });
  if (!answer.has_value() || text.find("string=\"false\"") != std::string::npos) {
    return;
  }
  for (const AnsweredCall& call : answer->tool_calls) {
    TESSERA_CHECK(io::parse_json(call.arguments, "arguments").is_object());
  }
}

void check(const std::string& bytes) {
  const Input input = input_of(bytes);
  const Parsed whole = parse_whole_or_cut(input, std::nullopt);
  for (const size_t longest : {size_t{1}, size_t{3}, size_t{17}}) {
    TESSERA_CHECK(parse_whole_or_cut(input, longest) == whole);
  }
  check_strict(input.text, false);
  check_strict(input.text, true);
}

}  // namespace
}  // namespace tessera::deepseek_v41

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tessera::deepseek_v41::check(
      tessera::replace_invalid_utf8({reinterpret_cast<const char*>(data), size}));
  return 0;
}
