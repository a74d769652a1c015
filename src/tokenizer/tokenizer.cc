#include "tokenizer/tokenizer.h"

#include <utf8proc.h>

#include <limits>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "tokenizer/added_token_matcher.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/piece_cache.h"
#include "tokenizer/tokenizer_json.h"

namespace tessera {
namespace {

using Spellings = std::vector<std::pair<std::string, int32_t>>;

// `text` in normalisation form C. `text` is valid UTF-8.
std::string to_nfc(std::string_view text) {
  // Nothing below U+0300 composes or reorders; its lead bytes are below 0xcc.
  bool may_change = false;
  for (const char c : text) {
    may_change = may_change || static_cast<unsigned char>(c) >= 0xcc;
  }
  if (!may_change) {
    return std::string(text);
  }
  utf8proc_uint8_t* composed = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &composed,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(composed, &std::free);
  if (size < 0) {
    throw Error(ErrorCode::bad_request,
                str_cat("cannot normalise a text of ", text.size(), " bytes: ",
                        static_cast<const char*>(utf8proc_errmsg(size)), "; shorten the text"));
  }
  return std::string(reinterpret_cast<const char*>(composed), static_cast<size_t>(size));
}

}  // namespace

struct Tokenizer::State {
  Vocabulary tokens;
  std::vector<AddedToken> added;
  std::vector<bool> is_special;       // [size]
  std::string bytes;                  // of all tokens, by id
  std::vector<uint64_t> bytes_begin;  // [size + 1], in `bytes`
  AddedTokenMatcher before_normalizer;
  AddedTokenMatcher after_normalizer;
  bool normalizes;
  PreTokenizer pre_tokenizer;
  BytePairEncoder encoder;

  void encode_plain(std::string_view text, std::vector<int32_t>& ids) const;
  void encode_normalized(std::string_view text, std::vector<int32_t>& ids) const;
};

// Pieces, merged one by one. `text` is normalised and has no added tokens.
void Tokenizer::State::encode_plain(std::string_view text, std::vector<int32_t>& ids) const {
  std::vector<uint32_t> ends;
  pre_tokenizer.split(text, ends);
  BytePairEncoder::Scratch scratch;
  PieceCache cache(text, ends.size());
  size_t begin = 0;
  for (const uint32_t end : ends) {
    const size_t size = end - begin;
    if (size > PieceCache::kLongest) {
      encoder.encode(text.substr(begin, size), ids, scratch);
    } else if (PieceCache::Entry& known = cache.entry(begin, size);
               cache.matches(known, begin, size)) {
      for (size_t i = 0; i < known.ids_size; ++i) {
        ids.push_back(ids[known.ids_begin + i]);
      }
    } else {
      const size_t ids_begin = ids.size();
      encoder.encode(text.substr(begin, size), ids, scratch);
      known = {static_cast<uint32_t>(begin), static_cast<uint32_t>(ids_begin),
               static_cast<uint16_t>(size), static_cast<uint16_t>(ids.size() - ids_begin)};
    }
    begin = end;
  }
}

// Text between added tokens of the first kind: normalises, then looks for the second kind.
void Tokenizer::State::encode_normalized(std::string_view text, std::vector<int32_t>& ids) const {
  std::string normalized;
  if (normalizes) {
    normalized = to_nfc(text);
    text = normalized;
  }
  size_t begin = 0;
  while (const auto match = after_normalizer.find(text, begin)) {
    encode_plain(text.substr(begin, match->begin - begin), ids);
    ids.push_back(match->id);
    begin = match->end;
  }
  encode_plain(text.substr(begin), ids);
}

Tokenizer::Tokenizer(std::unique_ptr<const State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Tokenizer Tokenizer::load(const std::string& path) {
  return from_json(io::read_json_file(path), path);
}

Tokenizer Tokenizer::from_json(const io::Json& root, std::string_view name) {
  TokenizerParts parts = read_tokenizer_json(root, name);
  const int32_t size = parts.tokens.size();
  std::vector<bool> is_special(static_cast<size_t>(size));
  std::vector<bool> is_added(static_cast<size_t>(size));
  Spellings before;
  Spellings after;
  for (const AddedToken& token : parts.added) {
    is_special[static_cast<size_t>(token.id)] = token.is_special;
    is_added[static_cast<size_t>(token.id)] = true;
    if (token.is_normalized) {
      after.emplace_back(parts.normalizes ? to_nfc(token.text) : token.text, token.id);
    } else {
      before.emplace_back(token.text, token.id);
    }
  }
  std::string bytes;
  std::vector<uint64_t> bytes_begin;
  bytes_begin.reserve(static_cast<size_t>(size) + 1);
  for (int32_t id = 0; id < size; ++id) {
    bytes_begin.push_back(bytes.size());
    const std::string_view text = parts.tokens.text(id);
    if (is_added[static_cast<size_t>(id)] || !append_bytes_of_alphabet(text, bytes)) {
      bytes.append(text);
    }
  }
  bytes_begin.push_back(bytes.size());
  PreTokenizer pre_tokenizer(parts.splits, name);
  BytePairEncoder encoder(parts.byte_ids, parts.merges);
  return Tokenizer(std::make_unique<const State>(
      State{std::move(parts.tokens), std::move(parts.added), std::move(is_special),
            std::move(bytes), std::move(bytes_begin), AddedTokenMatcher(std::move(before)),
            AddedTokenMatcher(std::move(after)), parts.normalizes, std::move(pre_tokenizer),
            std::move(encoder)}));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, AddedTokens added) const {
  if (text.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max() / 4)) {
    throw Error(ErrorCode::bad_request,
                str_cat("the text has ", text.size(), " bytes, at most ",
                        std::numeric_limits<int32_t>::max() / 4, " can be encoded; shorten it"));
  }
  std::string repaired;
  if (!is_valid_utf8(text)) {
    repaired = replace_invalid_utf8(text);
    text = repaired;
  }
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3);
  if (added == AddedTokens::plain) {
    state_->encode_plain(state_->normalizes ? std::string_view(repaired = to_nfc(text)) : text,
                         ids);
    return ids;
  }
  size_t begin = 0;
  while (const auto match = state_->before_normalizer.find(text, begin)) {
    state_->encode_normalized(text.substr(begin, match->begin - begin), ids);
    ids.push_back(match->id);
    begin = match->end;
  }
  state_->encode_normalized(text.substr(begin), ids);
  return ids;
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  if (!contains(id)) {
    return {};
  }
  const size_t index = static_cast<size_t>(id);
  const uint64_t begin = state_->bytes_begin[index];
  return std::string_view(state_->bytes).substr(begin, state_->bytes_begin[index + 1] - begin);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, SpecialTokens special) const {
  std::string text;
  for (const int32_t id : ids) {
    if (special == SpecialTokens::keep || !is_special(id)) {
      text.append(token_bytes(id));
    }
  }
  return is_valid_utf8(text) ? text : replace_invalid_utf8(text);
}

std::string_view Tokenizer::token_text(int32_t id) const { return state_->tokens.text(id); }

std::optional<int32_t> Tokenizer::token_id(std::string_view text) const {
  return state_->tokens.find(text);
}

int32_t Tokenizer::size() const { return state_->tokens.size(); }

bool Tokenizer::contains(int32_t id) const { return state_->tokens.contains(id); }

bool Tokenizer::is_special(int32_t id) const {
  return contains(id) && state_->is_special[static_cast<size_t>(id)];
}

const std::vector<AddedToken>& Tokenizer::added_tokens() const { return state_->added; }

}  // namespace tessera
