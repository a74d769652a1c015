#include "trace/trace_info.h"

#include <optional>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace tessera::trace {
namespace {

constexpr std::string_view kFormat = "trace/1";
constexpr size_t kQuotedBytes = 60;  // of a metadata value in a message

const std::string* find(const Metadata& metadata, std::string_view key) {
  for (const auto& [name, value] : metadata) {
    if (name == key) {
      return &value;
    }
  }
  return nullptr;
}

std::string text_or_empty(const Metadata& metadata, std::string_view key) {
  const std::string* value = find(metadata, key);
  return value == nullptr ? std::string() : *value;
}

[[noreturn]] void fail(std::string_view name, std::string_view key, std::string_view expected,
                       std::string_view found) {
  throw Error(ErrorCode::bad_file,
              str_cat(name, ": metadata '", key, "': expected ", expected, ", found ",
                      quoted(found, kQuotedBytes), "; write the trace again"));
}

std::optional<TraceCall> parse_call(const io::Json& item) {
  const io::Json* start = nullptr;
  const io::Json* rows = nullptr;
  if (item.is_array() && item.items().size() == 2) {
    start = &item.items()[0];
    rows = &item.items()[1];
  } else if (item.is_object()) {
    start = item.find("start");
    rows = item.find("rows");
  }
  if (start == nullptr || rows == nullptr) {
    return std::nullopt;
  }
  // Below 2^32 a position and a row count can be added without overflow.
  constexpr int64_t kLargest = (int64_t{1} << 32) - 1;
  const int64_t first = start->as_int64().value_or(-1);
  const int64_t count = rows->as_int64().value_or(-1);
  if (first < 0 || first > kLargest || count < 0 || count > kLargest) {
    return std::nullopt;
  }
  return TraceCall{first, count};
}

std::vector<TraceCall> parse_calls(std::string_view text, std::string_view name) {
  constexpr std::string_view kExpected = "a JSON list of [start, rows]";
  const io::Json json = io::parse_json(text, str_cat(name, ": metadata 'calls'"));
  if (!json.is_array()) {
    fail(name, "calls", kExpected, text);
  }
  std::vector<TraceCall> calls;
  for (const io::Json& item : json.items()) {
    const std::optional<TraceCall> call = parse_call(item);
    if (!call) {
      fail(name, "calls", kExpected, text);
    }
    calls.push_back(*call);
  }
  return calls;
}

std::vector<int64_t> parse_tokens(std::string_view text, std::string_view name) {
  constexpr std::string_view kExpected = "a JSON list of token ids";
  const io::Json json = io::parse_json(text, str_cat(name, ": metadata 'tokens'"));
  if (!json.is_array()) {
    fail(name, "tokens", kExpected, text);
  }
  std::vector<int64_t> tokens;
  for (const io::Json& item : json.items()) {
    const std::optional<int64_t> id = item.as_int64();
    if (!id) {
      fail(name, "tokens", kExpected, text);
    }
    tokens.push_back(*id);
  }
  return tokens;
}

// "bf16" and "f32" for the spellings of PyTorch and of safetensors.
std::string parse_activations(const Metadata& metadata, std::string_view name) {
  const std::string* value = find(metadata, "activations");
  const std::string_view key = value != nullptr ? "activations" : "dtype";
  if (value == nullptr) {
    value = find(metadata, "dtype");
  }
  if (value == nullptr) {
    return {};
  }
  std::string_view spelling = *value;
  if (spelling.starts_with("torch.")) {
    spelling.remove_prefix(6);
  }
  if (spelling == "bf16" || spelling == "bfloat16" || spelling == "BF16") {
    return "bf16";
  }
  if (spelling == "f32" || spelling == "fp32" || spelling == "float32" || spelling == "F32") {
    return "f32";
  }
  fail(name, key, "bf16 or f32", *value);
}

}  // namespace

TraceInfo parse_trace_info(const Metadata& metadata, std::string_view name) {
  const std::string* format = find(metadata, "format");
  if (format != nullptr && *format != kFormat) {
    throw Error(ErrorCode::bad_file,
                str_cat(name, ": expected a trace of format '", kFormat, "', found format ",
                        quoted(*format, kQuotedBytes), "; is it a checkpoint?"));
  }
  TraceInfo info;
  info.producer = text_or_empty(metadata, "producer");
  info.model = text_or_empty(metadata, "model");
  info.index_keys = text_or_empty(metadata, "index_keys");
  info.overlay_of = text_or_empty(metadata, "overlay_of");
  info.activations = parse_activations(metadata, name);
  if (!info.index_keys.empty() && info.index_keys != "own" && info.index_keys != "reference") {
    fail(name, "index_keys", "own or reference", info.index_keys);
  }
  if (const std::string* text = find(metadata, "case")) {
    info.request = io::parse_json(*text, str_cat(name, ": metadata 'case'"));
    if (!info.request.is_object()) {
      fail(name, "case", "a JSON object", *text);
    }
  }
  if (const std::string* text = find(metadata, "calls")) {
    info.calls = parse_calls(*text, name);
  }
  if (const std::string* text = find(metadata, "tokens")) {
    info.tokens = parse_tokens(*text, name);
  }
  return info;
}

Metadata trace_metadata(const TraceInfo& info) {
  Metadata out = {{"format", std::string(kFormat)}};
  const auto put = [&](std::string_view key, std::string value) {
    if (!value.empty()) {
      out.emplace_back(key, std::move(value));
    }
  };
  put("producer", info.producer);
  put("model", info.model);
  if (!info.request.is_null()) {
    put("case", io::dump_python(info.request));
  }
  if (!info.calls.empty()) {
    std::string text;
    for (const TraceCall& call : info.calls) {
      text += str_cat(text.empty() ? "[[" : ", [", call.start, ", ", call.rows, "]");
    }
    put("calls", text + "]");
  }
  if (!info.tokens.empty()) {
    put("tokens", list_text(std::span<const int64_t>(info.tokens)));
  }
  put("activations", info.activations);
  put("index_keys", info.index_keys);
  put("overlay_of", info.overlay_of);
  return out;
}

}  // namespace tessera::trace
