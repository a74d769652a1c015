// The examples of docs/prompts.md: each `json request` or `json case` block is encoded and compared
// with the `text prompt` blocks behind it.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "models/deepseek_v41/chat_request.h"
#include "models/deepseek_v41/prompt.h"
#include "models/deepseek_v41/prompt_json.h"
#include "tests/support/released_tokenizer.h"

namespace tessera::deepseek_v41 {
namespace {

struct Block {
  std::string kind;  // what stands behind ```
  std::string text;  // without the last line end
  int line = 0;      // of the opening fence
};

std::vector<Block> read_blocks(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  std::vector<Block> blocks;
  bool is_inside = false;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (!line.starts_with("```")) {
      if (is_inside) {
        blocks.back().text += line + "\n";
      }
    } else if (is_inside) {
      is_inside = false;
      if (!blocks.back().text.empty()) {
        blocks.back().text.pop_back();
      }
    } else {
      is_inside = true;
      blocks.push_back({line.substr(3), "", number});
    }
  }
  EXPECT_FALSE(is_inside);
  return blocks;
}

Prompt encode_request(const std::string& text, EncodingRevision revision) {
  const ChatRequest request = parse_chat_request(text, "request", ImagePaths::refuse);
  PromptOptions options;
  options.is_thinking = request.is_thinking.value_or(true);
  options.effort = request.effort.value_or(75);
  options.revision = revision;
  options.starts_calls = request.forces_calls;
  return PromptEncoder(test::released_tokenizer(), test::kReleasedImageId)
      .encode(request.messages, options);
}

Prompt encode_case(const std::string& text, EncodingRevision revision) {
  const PromptEncoder encoder(test::released_tokenizer(), test::kReleasedImageId);
  const std::vector<PromptCase> cases = cases_from_json(io::parse_json(text, "case"), "case");
  EXPECT_EQ(cases.size(), 1U);
  const PromptCase& one = cases.at(0);
  if (one.raw_prompt) {
    return encoder.encode_raw(*one.raw_prompt, one.raw_images);
  }
  PromptOptions options;
  options.is_thinking = one.is_thinking.value_or(true);
  options.effort = one.effort.value_or(75);
  options.revision = revision;
  return encoder.encode(one.messages, options, one.context);
}

// `text` with the placeholder of the page replaced.
std::string filled(std::string text, const std::string& how_to_call) {
  constexpr std::string_view kMark = "[how to call tools]";
  const size_t at = text.find(kMark);
  return at == std::string::npos ? text : text.replace(at, kMark.size(), how_to_call);
}

TEST(PromptsPage, EveryExampleIsWhatTheEncoderWrites) {
  std::string how_to_call;
  std::string example;  // the last request or case
  bool is_request = false;
  int examples = 0;
  int prompts = 0;
  for (const Block& block : read_blocks(TESSERA_SOURCE_DIR "/docs/prompts.md")) {
    SCOPED_TRACE("docs/prompts.md, line " + std::to_string(block.line));
    if (block.kind == "json request" || block.kind == "json case") {
      example = block.text;
      is_request = block.kind == "json request";
      ++examples;
    } else if (block.kind == "text how to call tools") {
      how_to_call = block.text;
    } else if (block.kind == "text prompt" || block.kind == "text prompt of the serving library") {
      ASSERT_FALSE(example.empty());
      const EncodingRevision revision =
          block.kind == "text prompt" ? EncodingRevision::ref : EncodingRevision::recipe;
      const Prompt prompt =
          is_request ? encode_request(example, revision) : encode_case(example, revision);
      EXPECT_EQ(prompt.text, filled(block.text, how_to_call));
      ++prompts;
    } else {
      ADD_FAILURE() << "a block of unknown kind: " << block.kind;
    }
  }
  EXPECT_EQ(examples, 19);
  EXPECT_EQ(prompts, 21);
}

}  // namespace
}  // namespace tessera::deepseek_v41
