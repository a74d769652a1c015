// The tokenizer of the released DeepSeek-V4.1, from the golden data.
#pragma once

#include "io/json.h"
#include "tests/support/json_lines.h"
#include "tests/support/xz.h"
#include "tokenizer/tokenizer.h"

namespace tessera::test {

constexpr int32_t kReleasedImageId = 129264;

inline const Tokenizer& released_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::from_json(
      io::parse_json(read_xz_file(golden_path("text/tokenizers/deepseek_v41.tokenizer.json.xz")),
                     "tokenizer.json"),
      "tokenizer.json");
  return tokenizer;
}

}  // namespace tessera::test
