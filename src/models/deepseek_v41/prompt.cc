#include "models/deepseek_v41/prompt.h"

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"
#include "models/deepseek_v41/prompt_turns.h"
#include "models/deepseek_v41/prompt_writer.h"

namespace tessera::deepseek_v41 {
namespace {

constexpr std::string_view kBlockSeparator = "\n\n";

// The wording is part of the wire format.
constexpr std::string_view kToolsIntroduction =
    "## Tools\n\n"
    "You have access to a set of tools to help answer the user's question. You can invoke tools by "
    "writing a \"<｜DSML｜ calls>\" block like the following:\n\n"
    "<｜DSML｜ calls>\n"
    "<｜DSML｜ invoke name=\"$TOOL_NAME\">\n"
    "<｜DSML｜ parameter name=\"$PARAMETER_NAME\" string=\"true|false\">$PARAMETER_VALUE</｜DSML｜ "
    "parameter>\n"
    "...\n"
    "</｜DSML｜ invoke>\n"
    "<｜DSML｜ invoke name=\"$TOOL_NAME2\">\n"
    "...\n"
    "</｜DSML｜ invoke>\n"
    "</｜DSML｜ calls>\n\n"
    "String parameters should be specified as is and set `string=\"true\"`. For all other types "
    "(numbers, booleans, arrays, objects), pass the value in JSON format and set "
    "`string=\"false\"`.\n\n"
    "If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning "
    "inside <think>...</think> BEFORE any tool calls or final response.\n\n"
    "Otherwise, output directly after </think> with tool calls or final response.\n\n"
    "### Available Tool Schemas\n\n";
constexpr std::string_view kToolsEnd =
    "\n\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool "
    "calls.\n";
constexpr std::string_view kResponseFormat =
    "## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";

std::string_view task_token(Task task) {
  switch (task) {
    case Task::action:
      return "<｜action｜>";
    case Task::query:
      return "<｜query｜>";
    case Task::authority:
      return "<｜authority｜>";
    case Task::domain:
      return "<｜domain｜>";
    case Task::title:
      return "<｜title｜>";
    case Task::read_url:
      break;
  }
  return "<｜read_url｜>";
}

// Renders turns one after another (step 6).
class Renderer {
 public:
  // Turns before turns[first] are the context, which is not rendered.
  Renderer(std::vector<Turn> turns, size_t first, const PromptOptions& options,
           PromptWriter& writer)
      : turns_(std::move(turns)),
        first_(first),
        options_(options),
        has_own_headers_(options.revision == EncodingRevision::recipe),
        writer_(writer) {
    const bool has_tools = std::any_of(turns_.begin(), turns_.end(), [](const Turn& turn) {
      return !turn.message->tools.empty();
    });
    drops_ = options.drops_reasoning && !has_tools;
    if (has_own_headers_) {
      // The turn before the one that generation writes.
      last_ = static_cast<int64_t>(turns_.size()) - (turns_.back().is_open() ? 2 : 1);
      return;
    }
    for (size_t i = 0; i < turns_.size(); ++i) {
      const bool is_user =
          turns_[i].role == Role::user &&
          !(options.revision == EncodingRevision::ref_1017 && turns_[i].has_only_results());
      if (is_user || (turns_[i].role == Role::system && i > 0)) {
        last_ = static_cast<int64_t>(i);
      }
    }
  }

  void render_all() {
    for (size_t i = first_; i < turns_.size(); ++i) {
      render(i);
    }
    const Turn& tail = turns_.back();
    if ((has_own_headers_ || options_.starts_calls) && !has_header_behind(tail) &&
        !tail.is_open() && !tail.task) {
      render_header(static_cast<int64_t>(turns_.size()) - 1);
    }
    if (options_.starts_calls) {
      writer_.template_text(kCallsBegin);
    }
  }

 private:
  void render(size_t index) {
    const Turn& turn = turns_[index];
    if (index == 0) {
      render_start(turn);
    }
    switch (turn.role) {
      case Role::system:
        render_system(turn, index);
        break;
      case Role::latest_reminder:
        writer_.control(kLatestReminder);
        render_content(turn.message->content, false);
        break;
      case Role::assistant:
        render_assistant(turn, index);
        break;
      case Role::user:
      case Role::tool:
        render_user(turn);
        break;
    }
    render_tail(turn, index);
  }

  // Whether the reasoning behind turn `index` is written.
  bool thinks_from(int64_t index) const {
    return options_.is_thinking && (!drops_ || index >= last_);
  }

  // Whether render_tail opens the next assistant turn.
  bool has_header_behind(const Turn& turn) const {
    const bool is_first = &turn == turns_.data();
    return !has_own_headers_ && !turn.task &&
           (turn.role == Role::user || (turn.role == Role::system && !is_first));
  }

  // Opens the assistant turn behind turn `index`.
  void render_header(int64_t index) {
    writer_.control(kAssistant);
    writer_.control(thinks_from(index) ? kThink : kEndThink);
  }

  static bool continues_reasoning(const Message& message) {
    return message.is_open && message.tool_calls.empty() && is_blank(message.content);
  }

  void render_start(const Turn& turn) {
    if (options_.is_thinking || turn.role == Role::system) {
      writer_.control(kSystem);
    }
    if (options_.is_thinking) {
      writer_.plain(str_cat("Reasoning Effort: ", options_.effort,
                            " (range 1-100, the higher the value, the more thorough the "
                            "reasoning)\n\n"));
    }
  }

  void render_system(const Turn& turn, size_t index) {
    const Message& message = *turn.message;
    if (index > 0) {
      writer_.control(kSystem);
    }
    render_content(message.content, false);
    if (!message.tools.empty()) {
      writer_.plain(kBlockSeparator);
      writer_.template_text(kToolsIntroduction);
      for (size_t i = 0; i < message.tools.size(); ++i) {
        writer_.plain(i > 0 ? "\n" : "");
        writer_.plain(message.tools[i]);
      }
      writer_.plain(kToolsEnd);
    }
    if (!message.response_format.empty()) {
      writer_.plain(kBlockSeparator);
      writer_.plain(kResponseFormat);
      writer_.plain(message.response_format);
    }
  }

  // Blocks separated by blank lines.
  void render_content(const std::vector<ContentBlock>& blocks, bool is_assistant) {
    for (size_t i = 0; i < blocks.size(); ++i) {
      writer_.plain(i > 0 ? kBlockSeparator : "");
      render_block(blocks[i], is_assistant);
    }
  }

  void render_block(const ContentBlock& block, bool is_assistant) {
    if (block.kind == ContentBlock::Kind::image) {
      writer_.image(block.image);
    } else if (block.kind == ContentBlock::Kind::tool_result) {
      throw Error(ErrorCode::bad_request,
                  "a tool_result block can stand only in the content of a user message; move it "
                  "there or send a tool message");
    } else if (is_assistant) {
      writer_.assistant_text(block.text);
    } else {
      writer_.plain(block.text);
    }
  }

  void render_user(const Turn& turn) {
    writer_.control(kUser);
    for (size_t i = 0; i < turn.blocks.size(); ++i) {
      const TurnBlock& block = turn.blocks[i];
      writer_.plain(i > 0 ? kBlockSeparator : "");
      if (block.is_result()) {
        writer_.plain("<tool_result>");
        render_content(block.content(), false);
        writer_.plain("</tool_result>");
      } else {
        render_block(*block.block, false);
      }
    }
  }

  void render_assistant(const Turn& turn, size_t index) {
    const Message& message = *turn.message;
    const bool follows_task = index > 0 && turns_[index - 1].task;
    // The context's own rendering ended with the header of a turn that follows it.
    const bool has_header = follows_task || (index == first_ && index > 0);
    const int64_t before = static_cast<int64_t>(index) - 1;
    if (has_own_headers_ && !has_header) {
      render_header(before);
    }
    if (!follows_task && thinks_from(before)) {
      writer_.assistant_text(message.reasoning);
      if (has_own_headers_ && index + 1 == turns_.size() && continues_reasoning(message)) {
        return;
      }
      writer_.control(kEndThink);
    }
    render_content(message.content, true);
    if (!message.tool_calls.empty()) {
      render_calls(message.tool_calls);
    }
    if (!message.is_open) {
      writer_.control(kEos);
    }
  }

  void render_calls(const std::vector<ToolCall>& calls) {
    writer_.template_text(kCallsBegin);
    for (size_t i = 0; i < calls.size(); ++i) {
      writer_.plain(i > 0 ? "\n" : "");
      writer_.template_text("<｜DSML｜ invoke name=\"");
      writer_.plain(calls[i].name);
      writer_.plain("\">\n");
      for (size_t k = 0; k < calls[i].arguments.size(); ++k) {
        const ToolArgument& argument = calls[i].arguments[k];
        writer_.plain(k > 0 ? "\n" : "");
        writer_.template_text("<｜DSML｜ parameter name=\"");
        writer_.plain(argument.name);
        writer_.plain(argument.is_string ? "\" string=\"true\">" : "\" string=\"false\">");
        writer_.plain(argument.value);
        writer_.template_text("</｜DSML｜ parameter>");
      }
      writer_.template_text("\n</｜DSML｜ invoke>");
    }
    writer_.template_text(kCallsEnd);
  }

  // What opens the next turn.
  void render_tail(const Turn& turn, size_t index) {
    const bool is_last = index + 1 == turns_.size();
    if (!is_last && turns_[index + 1].role != Role::assistant &&
        turns_[index + 1].role != Role::latest_reminder) {
      return;
    }
    if (turn.task && turn.task != Task::action) {
      writer_.control(task_token(*turn.task));
    } else if (turn.task) {
      writer_.control(kAssistant);
      writer_.control(options_.is_thinking ? kThink : kEndThink);
      writer_.control(task_token(*turn.task));
    } else if (has_header_behind(turn)) {
      render_header(static_cast<int64_t>(index));
    }
  }

  std::vector<Turn> turns_;
  const size_t first_;
  const PromptOptions& options_;
  const bool has_own_headers_;  // assistant turns write their headers themselves
  PromptWriter& writer_;
  bool drops_ = true;  // reasoning before the last user turn
  int64_t last_ = -1;  // that turn
};

void check_forced_calls(const Turn& last, const PromptOptions& options) {
  if (options.is_thinking) {
    throw Error(ErrorCode::bad_request,
                "a forced tool call leaves no room for thinking; turn thinking off, or let the "
                "model choose (tool_choice auto)");
  }
  if (last.is_open() || last.task) {
    throw Error(ErrorCode::bad_request,
                str_cat("a forced tool call starts a new answer, but the last message ",
                        last.task ? "asks for a task" : "is to be continued (prefix)",
                        "; send one or the other"));
  }
}

AddedTokenMatcher grounding_tokens(const Tokenizer& tokenizer) {
  std::vector<std::pair<std::string, int32_t>> known;
  for (const std::string_view spelling :
       {"<｜ref｜>", "<｜/ref｜>", "<｜box｜>", "<｜/box｜>", "<｜point｜>", "<｜/point｜>",
        "<｜polygon｜>", "<｜/polygon｜>"}) {
    if (const std::optional<int32_t> id = tokenizer.token_id(spelling)) {
      known.emplace_back(spelling, *id);
    }
  }
  return AddedTokenMatcher(std::move(known));
}

}  // namespace

std::optional<int32_t> PromptEncoder::user_token() const { return tokenizer_.token_id(kUser); }

PromptEncoder::PromptEncoder(const Tokenizer& tokenizer, int32_t image_token_id)
    : tokenizer_(tokenizer),
      image_token_id_(image_token_id),
      grounding_(grounding_tokens(tokenizer)) {
  const std::optional<int32_t> known = tokenizer.token_id(kImage);
  if (known && *known != image_token_id) {
    throw Error(ErrorCode::bad_file, str_cat("tokenizer.json gives ", kImage, " the id ", *known,
                                             ", config.json has image_token_id ", image_token_id,
                                             "; use the files of one model"));
  }
}

Prompt PromptEncoder::encode(std::span<const Message> messages, const PromptOptions& options,
                             std::span<const Message> context) const {
  if (messages.empty()) {
    throw Error(ErrorCode::bad_request, "the message list is empty; send at least one message");
  }
  if (options.effort < 1 || options.effort > 100) {
    throw Error(ErrorCode::bad_request, str_cat("the reasoning effort is ", options.effort,
                                                "; send 1 to 100, low, high or max"));
  }
  const BlankSystem blank =
      options.revision == EncodingRevision::recipe ? BlankSystem::drop : BlankSystem::keep;
  std::vector<Turn> turns;
  append_turns(context, blank, turns);
  const size_t first = turns.size();
  append_turns(messages, blank, turns);
  sort_results(turns);
  if (options.starts_calls) {
    check_forced_calls(turns.back(), options);
  }

  PromptWriter writer(tokenizer_, image_token_id_, grounding_);
  if (context.empty() && options.has_bos) {
    writer.control(kBos);
  }
  Renderer(std::move(turns), first, options, writer).render_all();
  return writer.finish();
}

Prompt PromptEncoder::encode_raw(std::string_view text, std::vector<ImageSource> images) const {
  return {
      std::string(text), tokenizer_.encode(text, AddedTokens::recognise), {}, std::move(images)};
}

Prompt PromptEncoder::encode_plain(std::string_view text) const {
  Prompt prompt;
  if (const std::optional<int32_t> begin = tokenizer_.token_id(kBos)) {
    prompt.ids.push_back(*begin);
  }
  prompt.text = std::string(text);
  const std::vector<int32_t> ids = tokenizer_.encode(text, AddedTokens::plain);
  prompt.ids.insert(prompt.ids.end(), ids.begin(), ids.end());
  return prompt;
}

}  // namespace tessera::deepseek_v41
