// models/deepseek_v41/chat_request.h: any bytes are refused or read as a Chat Completions body that
// encodes; what files allow includes what a network allows, and spelling does not matter.
#include "fuzz/byte_tokenizer.h"
#include "fuzz/target.h"
#include "models/deepseek_v41/chat_request.h"

namespace {

using namespace tessera;
using deepseek_v41::ChatRequest;
using deepseek_v41::ImagePaths;
using deepseek_v41::Prompt;

std::optional<Prompt> encode(const ChatRequest& request, EncodingRevision revision) {
  const deepseek_v41::PromptEncoder encoder(fuzz::byte_tokenizer(), fuzz::kImageId);
  deepseek_v41::PromptOptions options;
  options.is_thinking = request.is_thinking.value_or(!request.forces_calls);
  options.effort = request.effort.value_or(75);
  options.revision = revision;
  options.starts_calls = request.forces_calls;
  return fuzz::parse_or_refuse([&] { return encoder.encode(request.messages, options); });
}

std::optional<ChatRequest> read(std::string_view text, ImagePaths paths) {
  return fuzz::parse_or_refuse(
      [&] { return deepseek_v41::parse_chat_request(text, "request", paths); });
}

void check_request(const ChatRequest& request, std::string_view text) {
  const std::string compact = io::dump_compact(io::parse_json(text, "request"));
  const std::optional<ChatRequest> again = read(compact, ImagePaths::allow);
  TESSERA_CHECK(again.has_value());
  for (const EncodingRevision revision :
       {EncodingRevision::ref, EncodingRevision::ref_1017, EncodingRevision::recipe}) {
    const std::optional<Prompt> prompt = encode(request, revision);
    const std::optional<Prompt> other = encode(*again, revision);
    TESSERA_CHECK(prompt.has_value() == other.has_value());
    if (prompt.has_value()) {
      fuzz::check_prompt(*prompt, false);
      TESSERA_CHECK(prompt->text == other->text && prompt->ids == other->ids);
      TESSERA_CHECK(!request.forces_calls || prompt->text.ends_with("<｜DSML｜ calls>\n"));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::optional<ChatRequest> request = read(text, ImagePaths::allow);
  const bool is_allowed = read(text, ImagePaths::refuse).has_value();
  TESSERA_CHECK(!is_allowed || request.has_value());
  if (request.has_value()) {
    check_request(*request, text);
  }
  return 0;
}
