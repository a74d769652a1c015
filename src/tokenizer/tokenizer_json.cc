#include "tokenizer/tokenizer_json.h"

#include <algorithm>
#include <initializer_list>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/utf8.h"

namespace tessera {
namespace {

using io::Json;

// What byte-level models of GPT-2 cut text with (ByteLevel, use_regex).
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// A JSON value and the path that names it in messages.
struct Node {
  const Json* value;  // nullptr: absent
  std::string path;

  Node child(std::string_view key) const {
    return {value->find(key), str_cat(path, path.ends_with(": ") ? "" : ".", key)};
  }
  Node item(size_t index) const { return {&value->items()[index], str_cat(path, "[", index, "]")}; }
  bool is_absent() const { return value == nullptr || value->is_null(); }
};

// A short spelling of the value for messages.
std::string shown(const Node& node) {
  if (node.value == nullptr) {
    return "missing";
  }
  switch (node.value->kind()) {
    case Json::Kind::object:
      return "an object";
    case Json::Kind::array:
      return str_cat("a list of ", node.value->items().size());
    case Json::Kind::string:
      return quoted(node.value->text());
    default:
      return io::dump_compact(*node.value).substr(0, 40);
  }
}

[[noreturn]] void fail(const Node& node, std::string_view expected) {
  throw Error(ErrorCode::bad_file, str_cat(node.path, " is ", shown(node), ", supported: ",
                                           expected, "; use another tokenizer.json"));
}

const Json& require_object(const Node& node) {
  if (node.value == nullptr || !node.value->is_object()) {
    fail(node, "an object");
  }
  return *node.value;
}

const std::string& require_string(const Node& node) {
  if (node.value == nullptr || !node.value->is_string()) {
    fail(node, "a string");
  }
  return node.value->text();
}

void require_keys(const Node& node, std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : require_object(node).members()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      fail({&value, str_cat(node.path, node.path.ends_with(": ") ? "key " : " key ", quoted(key))},
           "no such key");
    }
  }
}

bool read_flag(const Node& node, bool when_absent) {
  if (node.value == nullptr) {
    return when_absent;
  }
  const std::optional<bool> flag = node.value->as_boolean();
  if (!flag) {
    fail(node, "true or false");
  }
  return *flag;
}

void require_false(const Node& node) {
  if (!node.is_absent() && read_flag(node, false)) {
    fail(node, "false");
  }
}

void require_absent(const Node& node) {
  if (!node.is_absent()) {
    fail(node, "null");
  }
}

void require_type(const Node& node, std::string_view type) {
  if (require_string(node.child("type")) != type) {
    fail(node.child("type"), str_cat('"', type, '"'));
  }
}

// true: NFC.
bool read_normalizer(const Node& node) {
  constexpr std::string_view kSupported = "null, an empty Sequence, NFC";
  if (node.is_absent()) {
    return false;
  }
  require_object(node);
  const std::string& type = require_string(node.child("type"));
  if (type == "NFC") {
    require_keys(node, {"type"});
    return true;
  }
  const Node list = node.child("normalizers");
  if (type != "Sequence" || list.value == nullptr || !list.value->is_array()) {
    fail(node.child("type"), kSupported);
  }
  require_keys(node, {"type", "normalizers"});
  bool normalizes = false;
  for (size_t i = 0; i < list.value->items().size(); ++i) {
    const Node item = list.item(i);
    require_object(item);
    if (item.value->find("type") != nullptr && item.value->find("type")->text() == "Sequence") {
      fail(item.child("type"), "NFC");
    }
    normalizes = read_normalizer(item) || normalizes;
  }
  return normalizes;
}

SplitRule read_split(const Node& node) {
  require_keys(node, {"type", "pattern", "behavior", "invert"});
  if (require_string(node.child("behavior")) != "Isolated") {
    fail(node.child("behavior"), "\"Isolated\"");
  }
  require_false(node.child("invert"));
  const Node pattern = node.child("pattern");
  if (require_object(pattern).members().size() != 1) {
    fail(pattern, "one of Regex, String");
  }
  const std::string& kind = pattern.value->members()[0].first;
  if (kind != "Regex" && kind != "String") {
    fail(pattern.child(kind), "Regex, String");
  }
  const std::string& text = require_string(pattern.child(kind));
  if (text.empty()) {
    fail(pattern.child(kind), "a pattern that is not empty");
  }
  return {text, kind == "Regex", pattern.child(kind).path};
}

// Checks a pre-tokeniser other than a Sequence and adds its rule.
// Returns whether it is the ByteLevel one.
bool read_pre_tokenizer_step(const Node& node, std::vector<SplitRule>& splits) {
  require_object(node);
  const std::string& type = require_string(node.child("type"));
  if (type == "Split") {
    splits.push_back(read_split(node));
    return false;
  }
  if (type != "ByteLevel") {
    fail(node.child("type"), "Split, ByteLevel");
  }
  require_keys(node, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
  const Node prefix = node.child("add_prefix_space");
  if (read_flag(prefix, true)) {
    fail(prefix, "false");
  }
  if (read_flag(node.child("use_regex"), true)) {
    splits.push_back({std::string(kByteLevelPattern), true, node.path});
  }
  return true;
}

void read_pre_tokenizer(const Node& node, std::vector<SplitRule>& splits) {
  if (node.is_absent()) {
    fail(node, "ByteLevel, or a Sequence that ends with it");
  }
  require_object(node);
  bool ends_with_byte_level = false;
  if (require_string(node.child("type")) == "Sequence") {
    require_keys(node, {"type", "pretokenizers"});
    const Node list = node.child("pretokenizers");
    if (list.value == nullptr || !list.value->is_array()) {
      fail(list, "a list");
    }
    for (size_t i = 0; i < list.value->items().size(); ++i) {
      if (ends_with_byte_level) {
        fail(list.item(i), "nothing after ByteLevel");
      }
      ends_with_byte_level = read_pre_tokenizer_step(list.item(i), splits);
    }
  } else {
    ends_with_byte_level = read_pre_tokenizer_step(node, splits);
  }
  if (!ends_with_byte_level) {
    fail(node, "ByteLevel, or a Sequence that ends with it");
  }
}

// Post-processor and decoder: ByteLevel, whose options do not change ids or text.
void require_byte_level(const Node& node, bool may_be_absent) {
  if (may_be_absent && node.is_absent()) {
    return;
  }
  require_object(node);
  require_type(node, "ByteLevel");
  require_keys(node, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
}

void require_plain_model(const Node& model) {
  require_keys(model,
               {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  require_type(model, "BPE");
  require_absent(model.child("dropout"));
  require_absent(model.child("unk_token"));
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Node affix = model.child(key);
    if (!affix.is_absent() && !require_string(affix).empty()) {
      fail(affix, "null");
    }
  }
  for (const std::string_view key : {"fuse_unk", "byte_fallback", "ignore_merges"}) {
    require_false(model.child(key));
  }
}

// Ids are below `end`, so that a wrong one cannot ask for gigabytes.
int32_t read_id(const Node& node, size_t end) {
  const std::optional<int64_t> id = node.value == nullptr ? std::nullopt : node.value->as_int64();
  if (!id || *id < 0 || *id >= static_cast<int64_t>(end)) {
    fail(node, str_cat("an id from 0 to ", end - 1));
  }
  return static_cast<int32_t>(*id);
}

void read_vocabulary(const Node& vocab, size_t end, Vocabulary& tokens) {
  for (const auto& [text, id_value] : vocab.value->members()) {
    const std::optional<int64_t> id = id_value.as_int64();
    if (!id || *id < 0 || *id >= static_cast<int64_t>(end)) {
      fail({&id_value, str_cat(vocab.path, " token ", quoted(text))},
           str_cat("an id from 0 to ", end - 1));
    }
    if (!tokens.add(static_cast<int32_t>(*id), text)) {
      fail({&id_value, str_cat(vocab.path, " token ", quoted(text))},
           "distinct tokens with distinct ids");
    }
  }
}

std::array<int32_t, 256> find_bytes(const Node& vocab, const Vocabulary& tokens) {
  std::array<int32_t, 256> ids{};
  for (size_t byte = 0; byte < 256; ++byte) {
    std::string text;
    append_utf8(text, byte_alphabet()[byte]);
    const std::optional<int32_t> id = tokens.find(text);
    if (!id) {
      fail(vocab, str_cat("a vocabulary with all 256 bytes (byte ", byte, ", spelled ", text,
                          ", is missing)"));
    }
    ids[byte] = *id;
  }
  return ids;
}

// `next`: the token that the merge makes if, as usual, they make tokens in the order of ids.
BytePairEncoder::Merge read_merge(const Node& list, size_t index, const Vocabulary& tokens,
                                  int32_t next, std::string& joined) {
  const Json& item = list.value->items()[index];
  std::string_view left;
  std::string_view right;
  if (item.is_string()) {
    const std::string_view text = item.text();
    const size_t blank = text.find(' ');
    if (blank == std::string_view::npos || text.find(' ', blank + 1) != std::string_view::npos) {
      fail(list.item(index), "two tokens separated by one blank");
    }
    left = text.substr(0, blank);
    right = text.substr(blank + 1);
  } else {
    const std::vector<Json>& pair = item.items();
    if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      fail(list.item(index), "two tokens");
    }
    left = pair[0].text();
    right = pair[1].text();
  }
  joined.assign(left).append(right);
  const std::optional<int32_t> left_id = tokens.find(left);
  const std::optional<int32_t> right_id = tokens.find(right);
  const bool is_next = tokens.contains(next) && tokens.text(next) == joined;
  const std::optional<int32_t> merged = is_next ? next : tokens.find(joined);
  if (!left_id || !right_id || !merged) {
    fail(list.item(index), "two tokens that are, also joined, in the vocabulary");
  }
  return {*left_id, *right_id, *merged};
}

std::vector<BytePairEncoder::Merge> read_merges(const Node& list, const Vocabulary& tokens) {
  if (list.value == nullptr || !list.value->is_array()) {
    fail(list, "a list");
  }
  const size_t count = list.value->items().size();
  std::vector<BytePairEncoder::Merge> merges;
  merges.reserve(count);
  // The last merge that makes a token, and the one before that makes the same: equal pairs do.
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> last_of(static_cast<size_t>(tokens.size()), kNone);
  std::vector<uint32_t> before(count, kNone);
  std::string joined;
  for (size_t i = 0; i < count; ++i) {
    const int32_t next = i == 0 ? 0 : merges.back().merged + 1;
    const BytePairEncoder::Merge merge = read_merge(list, i, tokens, next, joined);
    uint32_t& last = last_of[static_cast<size_t>(merge.merged)];
    for (uint32_t other = last; other != kNone; other = before[other]) {
      if (merges[other].left == merge.left) {
        fail(list.item(i), "a pair that does not repeat an earlier one");
      }
    }
    before[i] = last;
    last = static_cast<uint32_t>(i);
    merges.push_back(merge);
  }
  return merges;
}

AddedToken read_added_token(const Node& node, size_t end, Vocabulary& tokens) {
  require_keys(node, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  for (const std::string_view key : {"single_word", "lstrip", "rstrip"}) {
    require_false(node.child(key));
  }
  const int32_t id = read_id(node.child("id"), end);
  const std::string& text = require_string(node.child("content"));
  const std::optional<int32_t> known = tokens.find(text);
  if (text.empty() || (known ? *known != id : !tokens.add(id, text))) {
    fail(node.child("content"), str_cat("a token of its own or the vocabulary's token ", id));
  }
  const bool is_special = read_flag(node.child("special"), false);
  return {id, text, is_special, read_flag(node.child("normalized"), !is_special)};
}

std::vector<AddedToken> read_added_tokens(const Node& list, size_t end, Vocabulary& tokens) {
  std::vector<AddedToken> added;
  if (list.is_absent()) {
    return added;
  }
  std::vector<bool> is_added(end);
  for (size_t i = 0; i < list.value->items().size(); ++i) {
    added.push_back(read_added_token(list.item(i), end, tokens));
    const size_t id = static_cast<size_t>(added.back().id);
    if (is_added[id]) {
      fail(list.item(i).child("id"), "each added token once");
    }
    is_added[id] = true;
  }
  return added;
}

}  // namespace

TokenizerParts read_tokenizer_json(const Json& root, std::string_view name) {
  const Node top{&root, str_cat(name, ": ")};
  if (!root.is_object()) {
    throw Error(ErrorCode::bad_file,
                str_cat(name, ": expected a JSON object; is this a tokenizer.json?"));
  }
  require_keys(top, {"version", "truncation", "padding", "added_tokens", "normalizer",
                     "pre_tokenizer", "post_processor", "decoder", "model"});
  if (!top.child("version").is_absent() && require_string(top.child("version")) != "1.0") {
    fail(top.child("version"), "\"1.0\"");
  }
  require_absent(top.child("truncation"));
  require_absent(top.child("padding"));
  require_byte_level(top.child("post_processor"), true);
  require_byte_level(top.child("decoder"), false);
  const Node model = top.child("model");
  require_plain_model(model);
  const Node vocab = model.child("vocab");
  const Node added = top.child("added_tokens");
  require_object(vocab);
  if (!added.is_absent() && !added.value->is_array()) {
    fail(added, "a list");
  }

  const size_t count =
      vocab.value->members().size() + (added.is_absent() ? 0 : added.value->items().size());
  const size_t end = 2 * count + 65536;  // gaps between ids are rare and small
  TokenizerParts parts{Vocabulary(count), {}, {}, {}, {}, false};
  parts.normalizes = read_normalizer(top.child("normalizer"));
  read_pre_tokenizer(top.child("pre_tokenizer"), parts.splits);
  read_vocabulary(vocab, end, parts.tokens);
  parts.byte_ids = find_bytes(vocab, parts.tokens);
  parts.merges = read_merges(model.child("merges"), parts.tokens);
  parts.added = read_added_tokens(added, end, parts.tokens);
  return parts;
}

}  // namespace tessera
