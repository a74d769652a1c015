// tokenizer/tokenizer.h: any tokenizer.json is refused or works on text.
#include <string>

#include "fuzz/target.h"
#include "tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::optional<Tokenizer> tokenizer = fuzz::parse_or_refuse(
      [&] { return Tokenizer::from_json(io::parse_json(text, "input"), "input"); });
  if (!tokenizer.has_value()) {
    return 0;
  }
  // In normalisation form C, so that decoding gives it back whatever the normaliser.
  constexpr std::string_view kSample =
      "Hello  world 12345's 中文 é\r\n\n <x><｜User｜> 🙂!!\t";
  for (const AddedTokens added : {AddedTokens::plain, AddedTokens::recognise}) {
    const std::optional<std::vector<int32_t>> ids =
        fuzz::parse_or_refuse([&] { return tokenizer->encode(kSample, added); });
    if (ids.has_value()) {
      const std::string decoded = tokenizer->decode(*ids);
      TESSERA_CHECK(added == AddedTokens::recognise || decoded == kSample);
      StreamDecoder decoder(*tokenizer);
      std::string streamed;
      for (const int32_t id : *ids) {
        TESSERA_CHECK(tokenizer->contains(id));
        streamed += decoder.push(id);
      }
      TESSERA_CHECK(streamed + decoder.flush() == decoded);
    }
  }
  return 0;
}
