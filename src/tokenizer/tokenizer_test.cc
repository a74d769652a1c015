#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/str_cat.h"
#include "tokenizer/byte_alphabet.h"

namespace tessera {
namespace {

using io::Json;

Json json_of(std::string_view text) { return io::parse_json(text, "test"); }

// The 256 bytes as tokens 0..255, then `words`, made by merges of their first bytes and the last.
Json small_model(const std::vector<std::string>& words) {
  Json vocab = Json::object();
  for (size_t byte = 0; byte < 256; ++byte) {
    std::string text;
    append_utf8(text, byte_alphabet()[byte]);
    vocab.members().emplace_back(text, Json::number(static_cast<int64_t>(byte)));
  }
  Json merges = Json::array();
  int64_t id = 256;
  for (const std::string& word : words) {
    vocab.members().emplace_back(word, Json::number(id++));
    merges.items().push_back(
        Json::string(str_cat(word.substr(0, word.size() - 1), " ", word.substr(word.size() - 1))));
  }
  return Json::object({{"type", Json::string("BPE")}, {"vocab", vocab}, {"merges", merges}});
}

Json small_file() {
  return Json::object(
      {{"version", Json::string("1.0")},
       {"added_tokens", json_of(R"([{"id":300,"content":"<x>","special":true,"normalized":false},
                                    {"id":301,"content":"<x>y","special":false,"normalized":true}])")},
       {"normalizer", Json()},
       {"pre_tokenizer",
        json_of(R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})")},
       {"post_processor", Json()},
       {"decoder", json_of(R"({"type":"ByteLevel"})")},
       {"model", small_model({"ab", "abc", "Ġa"})}});
}

Tokenizer load(const Json& root) { return Tokenizer::from_json(root, "t.json"); }

using Ids = std::vector<int32_t>;

TEST(Tokenizer, CutsWithTheByteLevelPattern) {
  const Tokenizer tokenizer = load(small_file());
  EXPECT_EQ(tokenizer.size(), 302);
  // Words are cut before blanks; "ab" is merged first, and " a" only where no "ab" takes the a.
  EXPECT_EQ(tokenizer.encode("abc abc", AddedTokens::plain), (Ids{257, ' ', 257}));
  EXPECT_EQ(tokenizer.encode("a a", AddedTokens::plain), (Ids{'a', 258}));
  EXPECT_EQ(tokenizer.encode("", AddedTokens::plain), Ids{});
}

TEST(Tokenizer, LooksForNormalizedAddedTokensLast) {
  const Tokenizer tokenizer = load(small_file());
  // "<x>" is cut out of the text before "<x>y" is looked for.
  EXPECT_EQ(tokenizer.encode("<x>y", AddedTokens::recognise), (Ids{300, 'y'}));
  EXPECT_EQ(tokenizer.encode("<x>y", AddedTokens::plain), (Ids{'<', 'x', '>', 'y'}));
  EXPECT_EQ(tokenizer.decode(Ids{300, 'y', 301}, SpecialTokens::skip), "y<x>y");
  EXPECT_TRUE(tokenizer.is_special(300));
  EXPECT_FALSE(tokenizer.is_special(301));
}

TEST(Tokenizer, IdsWithoutTokenAreEmpty) {
  const Tokenizer tokenizer = load(small_file());
  for (const int32_t id : {-1, 259, 299, 302, INT32_MAX, INT32_MIN}) {
    EXPECT_FALSE(tokenizer.contains(id));
    EXPECT_EQ(tokenizer.token_bytes(id), "");
    EXPECT_EQ(tokenizer.token_text(id), "");
    EXPECT_FALSE(tokenizer.is_special(id));
    EXPECT_EQ(StreamDecoder(tokenizer).push(id), "");
  }
  EXPECT_EQ(tokenizer.decode(Ids{'a', 299, 'b'}), "ab");
}

TEST(Tokenizer, ReplacesIllFormedUtf8) {
  const Tokenizer tokenizer = load(small_file());
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a\xff\xe4\xb8z", AddedTokens::recognise)),
            "a\ufffd\ufffdz");
  EXPECT_EQ(tokenizer.encode("\xff", AddedTokens::plain), (Ids{0xef, 0xbf, 0xbd}));
}

TEST(Tokenizer, NormalizesToNfc) {
  Json root = small_file();
  root.set("normalizer", json_of(R"({"type":"Sequence","normalizers":[{"type":"NFC"}]})"));
  const Tokenizer tokenizer = load(root);
  EXPECT_EQ(tokenizer.encode("e\u0301", AddedTokens::plain), (Ids{0xc3, 0xa9}));
  EXPECT_EQ(tokenizer.encode("e\u0301<x>", AddedTokens::recognise), (Ids{0xc3, 0xa9, 300}));
}

TEST(Tokenizer, TakesMergesAsPairs) {
  Json root = small_file();
  Json model = *root.find("model");
  model.set("merges", json_of(R"([["a","b"],["ab","c"]])"));
  root.set("model", model);
  EXPECT_EQ(load(root).encode("abc", AddedTokens::plain), Ids{257});
}

// Replaces the value at a path of keys; "0" is a list index; no value: removes the key.
void change(Json& root, const std::vector<std::string>& path, const Json& value) {
  Json* node = &root;
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    if (node->is_array()) {
      node = &node->items()[0];
    } else {
      Json child = *node->find(path[i]);
      node = &node->set(path[i], std::move(child));
    }
  }
  if (node->is_array()) {
    node->items()[0] = value;
  } else {
    node->set(path.back(), value);
  }
}

struct Refusal {
  std::vector<std::string> path;
  std::string value;
  std::string message;
};

TEST(Tokenizer, NamesWhatItDoesNotSupport) {
  const std::vector<Refusal> refusals = {
      {{"version"}, R"("2.0")", "t.json: version is '2.0'"},
      {{"truncation"}, "{}", "t.json: truncation is an object"},
      {{"padding"}, "{}", "t.json: padding is an object"},
      {{"extra"}, "1", "t.json: key 'extra' is 1, supported: no such key"},
      {{"normalizer"}, R"({"type":"NFKC"})", "t.json: normalizer.type is 'NFKC'"},
      {{"normalizer"},
       R"({"type":"Sequence","normalizers":[{"type":"Lowercase"}]})",
       "t.json: normalizer.normalizers[0].type is 'Lowercase'"},
      {{"normalizer"},
       R"({"type":"Sequence","normalizers":[{"type":"Sequence","normalizers":[]}]})",
       "t.json: normalizer.normalizers[0].type is 'Sequence'"},
      {{"pre_tokenizer"}, "null", "t.json: pre_tokenizer is null"},
      {{"pre_tokenizer"}, R"({"type":"Metaspace"})", "t.json: pre_tokenizer.type is 'Metaspace'"},
      {{"pre_tokenizer"},
       R"({"type":"ByteLevel","add_prefix_space":true})",
       "t.json: pre_tokenizer.add_prefix_space is true"},
      {{"pre_tokenizer"},
       R"({"type":"ByteLevel"})",
       "t.json: pre_tokenizer.add_prefix_space is missing"},
      {{"pre_tokenizer"},
       R"({"type":"Sequence","pretokenizers":[]})",
       "t.json: pre_tokenizer is an object, supported: ByteLevel, or a Sequence"},
      {{"pre_tokenizer"},
       R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"a"},
           "behavior":"Removed","invert":false}]})",
       "t.json: pre_tokenizer.pretokenizers[0].behavior is 'Removed', supported: \"Isolated\""},
      {{"pre_tokenizer"},
       R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"a"},
           "behavior":"Isolated","invert":true}]})",
       "t.json: pre_tokenizer.pretokenizers[0].invert is true"},
      {{"pre_tokenizer"},
       R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"\\p{Han}"},
           "behavior":"Isolated"},{"type":"ByteLevel","add_prefix_space":false}]})",
       "t.json: pre_tokenizer.pretokenizers[0].pattern.Regex: pattern '\\p{Han}': the property"},
      {{"pre_tokenizer"},
       R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Glob":"a"},
           "behavior":"Isolated"}]})",
       "t.json: pre_tokenizer.pretokenizers[0].pattern.Glob is 'a'"},
      {{"post_processor"},
       R"({"type":"TemplateProcessing"})",
       "t.json: post_processor.type is 'TemplateProcessing'"},
      {{"decoder"}, "null", "t.json: decoder is null"},
      {{"decoder"}, R"({"type":"WordPiece"})", "t.json: decoder.type is 'WordPiece'"},
      {{"model"}, "3", "t.json: model is 3, supported: an object"},
      {{"model", "type"}, R"("Unigram")", "t.json: model.type is 'Unigram'"},
      {{"model", "dropout"}, "0.1", "t.json: model.dropout is 0.1"},
      {{"model", "unk_token"}, R"("<unk>")", "t.json: model.unk_token is '<unk>'"},
      {{"model", "end_of_word_suffix"}, R"("</w>")", "t.json: model.end_of_word_suffix is '</w>'"},
      {{"model", "byte_fallback"}, "true", "t.json: model.byte_fallback is true"},
      {{"model", "ignore_merges"}, "true", "t.json: model.ignore_merges is true"},
      {{"model", "new_option"}, "true", "t.json: model key 'new_option' is true"},
      {{"model", "vocab"}, "{}", "t.json: model.vocab is an object, supported: a vocabulary with"},
      {{"model", "vocab", "a"}, "-1", "t.json: model.vocab token 'a' is -1"},
      {{"model", "vocab", "a"}, "98", "t.json: model.vocab token 'b' is 98"},
      {{"model", "vocab", "a"}, "1e9", "t.json: model.vocab token 'a' is 1e9"},
      {{"model", "vocab", "a"}, "1000000000", "t.json: model.vocab token 'a' is 1000000000"},
      {{"model", "merges"}, "null", "t.json: model.merges is null"},
      {{"model", "merges", "0"}, R"("ab")", "t.json: model.merges[0] is 'ab', supported: two"},
      {{"model", "merges", "0"}, R"("a b c")", "t.json: model.merges[0] is 'a b c'"},
      {{"model", "merges", "0"}, R"("q q")", "t.json: model.merges[0] is 'q q', supported: two"},
      {{"model", "merges", "0"}, R"(["a"])", "t.json: model.merges[0] is a list of 1"},
      {{"model", "merges", "0"},
       R"("ab c")",
       "t.json: model.merges[1] is 'ab c', supported: a pair"},
      {{"added_tokens"}, "{}", "t.json: added_tokens is an object"},
      {{"added_tokens", "0", "lstrip"}, "true", "t.json: added_tokens[0].lstrip is true"},
      {{"added_tokens", "0", "rstrip"}, "true", "t.json: added_tokens[0].rstrip is true"},
      {{"added_tokens", "0", "single_word"}, "true", "t.json: added_tokens[0].single_word is true"},
      {{"added_tokens", "0", "content"}, R"("")", "t.json: added_tokens[0].content is ''"},
      {{"added_tokens", "0", "content"}, R"("a")", "t.json: added_tokens[0].content is 'a'"},
      {{"added_tokens", "0", "content"}, R"("<x>y")", "t.json: added_tokens[1].content is '<x>y'"},
      {{"added_tokens", "0", "id"}, "97", "t.json: added_tokens[0].content is '<x>'"},
      {{"added_tokens", "0", "id"}, "\"5\"", "t.json: added_tokens[0].id is '5'"},
  };
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(refusal.message);
    Json root = small_file();
    change(root, refusal.path, json_of(refusal.value));
    try {
      load(root);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_file);
      EXPECT_EQ(std::string(error.what()).substr(0, refusal.message.size()), refusal.message);
      EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos);
    }
  }
}

TEST(Tokenizer, NamesAFileThatIsMissing) {
  try {
    Tokenizer::load("/nowhere/tokenizer.json");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    EXPECT_NE(std::string_view(error.what()).find("/nowhere/tokenizer.json"),
              std::string_view::npos);
  }
}

}  // namespace
}  // namespace tessera
