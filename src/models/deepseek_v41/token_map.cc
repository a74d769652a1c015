#include "models/deepseek_v41/token_map.h"

#include <utf8proc.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/str_cat.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"
#include "tokenizer/vocabulary.h"

namespace tessera::deepseek_v41 {
namespace {

constexpr uint32_t kBlankSentinel = 0xe000;  // private use: keeps a lone blank from being stripped

bool is_blank(uint32_t c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

bool is_mark(uint32_t c) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
         category == UTF8PROC_CATEGORY_ME;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// NFKC and then NFD, which together are NFKD. `text` is valid UTF-8.
std::vector<uint32_t> decompose(std::string_view text) {
  if (is_ascii(text)) {
    return {text.begin(), text.end()};
  }
  // One code point decomposes to at most 18; longer results are asked for again.
  std::vector<utf8proc_int32_t> buffer(text.size() * 18);
  const utf8proc_ssize_t count =
      utf8proc_decompose(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                         static_cast<utf8proc_ssize_t>(text.size()), buffer.data(),
                         static_cast<utf8proc_ssize_t>(buffer.size()),
                         static_cast<utf8proc_option_t>(UTF8PROC_COMPAT | UTF8PROC_DECOMPOSE));
  if (count < 0 || static_cast<size_t>(count) > buffer.size()) {
    throw Error(ErrorCode::bad_file,
                str_cat("cannot normalise a token of ", text.size(),
                        " bytes: ", static_cast<const char*>(utf8proc_errmsg(count))));
  }
  return {buffer.begin(), buffer.begin() + count};
}

// Steps of the specification behind the decomposition: marks dropped, lower case per character,
// runs of blanks to one, white space stripped on both sides (but a lone blank stays).
std::string normalize(std::string_view text) {
  std::vector<uint32_t> kept;
  for (const uint32_t c : decompose(text)) {
    if (is_mark(c)) {
      continue;
    }
    const uint32_t lower = static_cast<uint32_t>(utf8proc_tolower(static_cast<int32_t>(c)));
    if (!is_blank(lower)) {
      kept.push_back(lower);
    } else if (kept.empty() || kept.back() != ' ') {
      kept.push_back(' ');
    }
  }
  if (kept.size() == 1 && kept[0] == ' ') {
    kept[0] = kBlankSentinel;
  }
  const CodePointSet& white_space = white_space_set();
  size_t begin = 0;
  size_t end = kept.size();
  while (begin < end && white_space.contains(kept[begin])) {
    ++begin;
  }
  while (end > begin && white_space.contains(kept[end - 1])) {
    --end;
  }
  std::string result;
  for (size_t i = begin; i < end; ++i) {
    append_utf8(result, kept[i] == kBlankSentinel ? ' ' : kept[i]);
  }
  return result;
}

std::string key_of(const Tokenizer& tokenizer, int32_t id) {
  const std::string text = tokenizer.decode({&id, 1});
  if (text.find(kReplacementCharacter) != std::string::npos) {
    return std::string(tokenizer.token_text(id));
  }
  std::string key = normalize(text);
  return key.empty() ? text : key;
}

}  // namespace

TokenMap make_token_map(const Tokenizer& tokenizer) {
  TokenMap map;
  map.classes.reserve(static_cast<size_t>(tokenizer.size()));
  Vocabulary keys(static_cast<size_t>(tokenizer.size()));
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    const std::string key = key_of(tokenizer, id);
    std::optional<int32_t> number = keys.find(key);
    if (!number) {
      number = keys.size();
      keys.add(*number, key);
    }
    map.classes.push_back(*number);
  }
  map.class_count = keys.size();
  return map;
}

TokenMap make_token_map(const Tokenizer& tokenizer, int64_t vocab, int64_t class_count,
                        std::string_view name) {
  int64_t tokens = 0;
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    tokens += tokenizer.contains(id) ? 1 : 0;
  }
  if (tokenizer.size() != vocab || tokens != vocab) {
    throw Error(ErrorCode::bad_file,
                str_cat(name, ": ", tokens, " tokens with ids up to ", tokenizer.size() - 1,
                        ", but config.json has vocab_size ", vocab,
                        "; use the tokenizer.json of this model"));
  }
  TokenMap map = make_token_map(tokenizer);
  if (map.class_count != class_count) {
    throw Error(ErrorCode::bad_file,
                str_cat(name, ": its tokens fall into ", map.class_count,
                        " Engram classes, but config.json has engram_compressed_vocab_size ",
                        class_count, "; use the tokenizer.json of this model"));
  }
  return map;
}

}  // namespace tessera::deepseek_v41
