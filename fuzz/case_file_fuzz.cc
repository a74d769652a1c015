// models/deepseek_v41/prompt_json.h: any bytes are refused or read as the conversations of a case
// file, which encode or are refused.
#include "fuzz/byte_tokenizer.h"
#include "fuzz/target.h"
#include "models/deepseek_v41/prompt_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto cases = fuzz::parse_or_refuse(
      [&] { return deepseek_v41::cases_from_json(io::parse_json(text, "cases"), "cases"); });
  if (!cases.has_value()) {
    fuzz::parse_or_refuse([&] { return deepseek_v41::parse_tagged_text(text); });
    return 0;
  }
  const deepseek_v41::PromptEncoder encoder(fuzz::byte_tokenizer(), fuzz::kImageId);
  for (const deepseek_v41::PromptCase& one : *cases) {
    const auto prompt = fuzz::parse_or_refuse([&] {
      return one.raw_prompt ? encoder.encode_raw(*one.raw_prompt, one.raw_images)
                            : encoder.encode(one.messages,
                                             {.is_thinking = one.is_thinking.value_or(true),
                                              .effort = one.effort.value_or(75)},
                                             one.context);
    });
    if (prompt.has_value()) {
      fuzz::check_prompt(*prompt, one.raw_prompt.has_value());
    }
  }
  return 0;
}
