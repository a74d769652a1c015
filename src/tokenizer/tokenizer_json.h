// tokenizer.json as parts that are checked one by one; Tokenizer puts them together.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "tokenizer/byte_pair_encoder.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace tessera {

struct TokenizerParts {
  Vocabulary tokens;  // the model's and the added ones
  std::array<int32_t, 256> byte_ids;
  std::vector<BytePairEncoder::Merge> merges;
  std::vector<SplitRule> splits;
  std::vector<AddedToken> added;
  bool normalizes = false;  // to NFC
};

// Throws Error{bad_file} as Tokenizer::from_json says.
TokenizerParts read_tokenizer_json(const io::Json& root, std::string_view name);

}  // namespace tessera
