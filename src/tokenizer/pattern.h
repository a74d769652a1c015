// The regular expressions of tokenizer files, read strictly. Their dialect (Oniguruma's, in UTF-8)
// and PCRE2's agree on little more than what is accepted here: literals, escapes of punctuation,
// \r \n \t \f \v \0 \xHH \x{H..} \uHHHH, \s \S \d \D, \p{general category} \P{..} \p{^..}, classes
// with ranges and negation, `.`, groups ( (?: (?i: (?> (?= (?! (?<= (?<!, alternatives, and the
// quantifiers * + ? {m} {m,} {m,n} with a lazy `?`, of which * + ? also take a possessive `+`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/unicode.h"

namespace tessera {

// A piece of a pattern: syntax to copy, or a set of code points that matches one character.
struct PatternPart {
  std::string syntax;
  int set = -1;  // index of the set; -1: syntax
};

// Splits a pattern into parts; its sets are appended to `sets`, equal ones once. `where` names the
// pattern in messages. Throws Error{bad_file} naming any construct outside the list above. Inside
// (?i: only literals and classes of ASCII characters and negations of such classes are accepted.
std::vector<PatternPart> parse_pattern(std::string_view pattern, std::string_view where,
                                       std::vector<CodePointSet>& sets);

// The same for a literal string.
std::vector<PatternPart> parse_literal(std::string_view text, std::vector<CodePointSet>& sets);

}  // namespace tessera
