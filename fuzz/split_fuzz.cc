// tokenizer/pre_tokenizer.h: a line with a pattern, then text. The pattern is refused, or cuts the
// text into pieces that are not empty and end between characters.
#include <string>

#include "fuzz/target.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  const std::string input = replace_invalid_utf8({reinterpret_cast<const char*>(data), size});
  const size_t line = input.find('\n');
  const std::string text = line == std::string::npos ? std::string() : input.substr(line + 1);
  const std::optional<PreTokenizer> splitter = fuzz::parse_or_refuse([&] {
    return PreTokenizer({{input.substr(0, line), true, "rule"}}, "input");
  });
  if (!splitter.has_value()) {
    return 0;
  }
  const std::optional<std::vector<uint32_t>> ends = fuzz::parse_or_refuse([&] {
    std::vector<uint32_t> result;
    splitter->split(text, result);
    return result;
  });
  if (ends.has_value()) {
    uint32_t previous = 0;
    for (const uint32_t end : *ends) {
      TESSERA_CHECK(end > previous && end <= text.size());
      TESSERA_CHECK(end == text.size() || (static_cast<uint8_t>(text[end]) & 0xc0U) != 0x80);
      previous = end;
    }
    TESSERA_CHECK(previous == text.size());
  }
  return 0;
}
