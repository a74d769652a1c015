#include "models/deepseek_v41/prompt.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/str_cat.h"
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

// A block of a user turn, or a tool message, which is a tool result too.
struct TurnBlock {
  const ContentBlock* block = nullptr;
  const Message* tool = nullptr;

  bool is_result() const {
    return tool != nullptr || block->kind == ContentBlock::Kind::tool_result;
  }
  const std::string& call_id() const { return tool != nullptr ? tool->call_id : block->call_id; }
  const std::vector<ContentBlock>& content() const {
    return tool != nullptr ? tool->content : block->content;
  }
};

// A message, or user and tool messages that follow each other.
struct Turn {
  Role role;
  const Message* message;         // the first one
  std::vector<TurnBlock> blocks;  // user
  std::optional<Task> task;

  bool has_only_results() const {
    return !blocks.empty() && std::all_of(blocks.begin(), blocks.end(),
                                          [](const TurnBlock& block) { return block.is_result(); });
  }
};

// Step 2 of section 6: appends the turns of `messages`, none of which joins an earlier turn.
void append_turns(std::span<const Message> messages, std::vector<Turn>& turns) {
  const size_t first = turns.size();
  for (const Message& message : messages) {
    const bool is_tool = message.role == Role::tool;
    if (!is_tool && message.role != Role::user) {
      turns.push_back({message.role, &message, {}, message.task});
      continue;
    }
    const bool joins =
        turns.size() > first && turns.back().role == Role::user && (is_tool || !turns.back().task);
    if (!joins) {
      turns.push_back({Role::user, &message, {}, std::nullopt});
    }
    Turn& turn = turns.back();
    turn.task = message.task ? message.task : turn.task;
    if (is_tool) {
      turn.blocks.push_back({nullptr, &message});
    }
    for (size_t i = 0; !is_tool && i < message.content.size(); ++i) {
      turn.blocks.push_back({&message.content[i], nullptr});
    }
  }
}

// Step 3: results of a turn in the order of the latest calls; other blocks stay in their places.
void sort_results(std::vector<Turn>& turns) {
  std::map<std::string_view, size_t> order;
  for (Turn& turn : turns) {
    if (turn.role == Role::assistant && !turn.message->tool_calls.empty()) {
      order.clear();
      for (size_t i = 0; i < turn.message->tool_calls.size(); ++i) {
        order[turn.message->tool_calls[i].id] = i;
      }
    }
    std::vector<TurnBlock> results;
    std::copy_if(turn.blocks.begin(), turn.blocks.end(), std::back_inserter(results),
                 [](const TurnBlock& block) { return block.is_result(); });
    const auto place = [&](const TurnBlock& block) {
      const auto known = order.find(block.call_id());
      return known == order.end() ? size_t{0} : known->second;
    };
    std::stable_sort(results.begin(), results.end(),
                     [&](const TurnBlock& a, const TurnBlock& b) { return place(a) < place(b); });
    auto next = results.begin();
    for (TurnBlock& block : turn.blocks) {
      if (block.is_result()) {
        block = *next++;
      }
    }
  }
}

// Renders turns one after another (step 6).
class Renderer {
 public:
  Renderer(std::vector<Turn> turns, const PromptOptions& options, PromptWriter& writer)
      : turns_(std::move(turns)), options_(options), writer_(writer) {
    const bool has_tools = std::any_of(turns_.begin(), turns_.end(), [](const Turn& turn) {
      return !turn.message->tools.empty();
    });
    drops_ = options.drops_reasoning && !has_tools;
    for (size_t i = 0; i < turns_.size(); ++i) {
      const bool is_user =
          turns_[i].role == Role::user &&
          !(options.revision == EncodingRevision::ref_1017 && turns_[i].has_only_results());
      if (is_user || (turns_[i].role == Role::system && i > 0)) {
        last_ = static_cast<int64_t>(i);
      }
    }
  }

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

 private:
  // Whether the reasoning behind turn `index` is written.
  bool thinks_from(int64_t index) const {
    return options_.is_thinking && (!drops_ || index >= last_);
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
    if (!follows_task && thinks_from(static_cast<int64_t>(index) - 1)) {
      writer_.assistant_text(message.reasoning);
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
    } else if (turn.role == Role::user || (turn.role == Role::system && index > 0)) {
      writer_.control(kAssistant);
      writer_.control(thinks_from(static_cast<int64_t>(index)) ? kThink : kEndThink);
    }
  }

  std::vector<Turn> turns_;
  const PromptOptions& options_;
  PromptWriter& writer_;
  bool drops_ = true;  // reasoning before the last user turn
  int64_t last_ = -1;  // that turn
};

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
  std::vector<Turn> turns;
  append_turns(context, turns);
  const size_t first = turns.size();
  append_turns(messages, turns);
  sort_results(turns);
  const size_t count = turns.size();

  PromptWriter writer(tokenizer_, image_token_id_, grounding_);
  if (context.empty() && options.has_bos) {
    writer.control(kBos);
  }
  Renderer renderer(std::move(turns), options, writer);
  for (size_t i = first; i < count; ++i) {
    renderer.render(i);
  }
  return writer.finish();
}

Prompt PromptEncoder::encode_raw(std::string_view text, std::vector<ImageSource> images) const {
  return {
      std::string(text), tokenizer_.encode(text, AddedTokens::recognise), {}, std::move(images)};
}

}  // namespace tessera::deepseek_v41
