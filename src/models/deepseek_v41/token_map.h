// Engram's compressed token map: tokens that differ only in case, accents or surrounding blanks
// share a class. Specification section 6.1.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace tessera::deepseek_v41 {

struct TokenMap {
  std::vector<int32_t> classes;  // [vocab], class of every token id
  int64_t class_count = 0;
};

// Classes are numbered in order of first appearance.
TokenMap make_token_map(const Tokenizer& tokenizer);

// The same, compared with the model's config.json: throws Error{bad_file} naming `name` (of the
// tokenizer file) when the tokenizer does not have exactly `vocab` ids without gaps, or the map not
// `class_count` classes (engram_compressed_vocab_size): every hash of n-grams would be wrong.
TokenMap make_token_map(const Tokenizer& tokenizer, int64_t vocab, int64_t class_count,
                        std::string_view name);

}  // namespace tessera::deepseek_v41
