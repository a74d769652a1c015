// Text to token ids and back: byte-level byte-pair encoding as described by a Hugging Face
// tokenizer.json. Ids equal those of the `tokenizers` library, whose behaviour is the
// specification.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "tokenizer/utf8.h"

namespace tessera {

// Whether the spelling of an added token inside text becomes that token. `plain` is for text that
// callers wrote: there it is ordinary characters.
enum class AddedTokens { recognise, plain };

// Whether decode() leaves out tokens marked special.
enum class SpecialTokens { keep, skip };

struct AddedToken {
  int32_t id;
  std::string text;
  bool is_special;     // hidden by SpecialTokens::skip; says nothing about control tokens
  bool is_normalized;  // looked for after normalisation, behind those that are not
};

// Const after load and safe to use from several threads.
class Tokenizer {
 public:
  // Reads tokenizer.json. Supported: a BPE model without unknown token, dropout, markers or byte
  // fallback that has all 256 bytes; no normaliser or NFC; Split (Regex or String, Isolated) and
  // ByteLevel pre-tokenisers; ByteLevel post-processor and decoder; added tokens that are not
  // single_word, lstrip or rstrip. Throws Error{bad_file} naming anything else by its path in the
  // file, or what is missing or contradictory.
  static Tokenizer load(const std::string& path);
  // `name` stands at the start of messages.
  static Tokenizer from_json(const io::Json& root, std::string_view name);

  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // Ids of `text`; nothing is added before or after. Ill-formed UTF-8 is first replaced by U+FFFD
  // (tokenizer/utf8.h). Throws Error{bad_request} for a text of more than 512 MiB.
  std::vector<int32_t> encode(std::string_view text, AddedTokens added) const;

  // The bytes of a token: the vocabulary string through the inverse byte alphabet, an added token's
  // spelling. Empty for an id without token. Lives as long as the tokenizer.
  std::string_view token_bytes(int32_t id) const;

  // The bytes of all ids, decoded once; ill-formed sequences become U+FFFD.
  std::string decode(std::span<const int32_t> ids,
                     SpecialTokens special = SpecialTokens::keep) const;

  // The token as the file spells it. Empty for an id without token.
  std::string_view token_text(int32_t id) const;
  std::optional<int32_t> token_id(std::string_view text) const;

  // One more than the largest id.
  int32_t size() const;
  bool contains(int32_t id) const;
  bool is_special(int32_t id) const;
  // In the order of the file.
  const std::vector<AddedToken>& added_tokens() const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<const State> state);
  std::unique_ptr<const State> state_;
};

// Text of a stream of tokens: after each token everything that is complete UTF-8. At most 3 bytes
// of an unfinished sequence are held back; a byte that can no longer become valid turns into U+FFFD
// at once. The tokenizer outlives the decoder.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  // The text that `id` completes, maybe empty. An id without token adds nothing.
  std::string push(int32_t id) {
    std::string text;
    decoder_.push(tokenizer_->token_bytes(id), text);
    return text;
  }
  // End of the stream: U+FFFD for held-back bytes.
  std::string flush() {
    std::string text;
    decoder_.flush(text);
    return text;
  }

 private:
  const Tokenizer* tokenizer_;
  Utf8Decoder decoder_;
};

}  // namespace tessera
