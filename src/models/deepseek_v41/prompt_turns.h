// Messages to the turns of a prompt: steps 2 and 3 of chat specification section 6.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tokenizer/conversation.h"

namespace tessera::deepseek_v41 {

// A block of a user turn, or a tool message, which is a tool result too.
struct TurnBlock {
  const ContentBlock* block = nullptr;
  const Message* tool = nullptr;

  bool is_result() const;
  const std::string& call_id() const;
  const std::vector<ContentBlock>& content() const;
};

// A message, or user and tool messages that follow each other. Borrows the messages.
struct Turn {
  Role role;
  const Message* message;         // the first one
  std::vector<TurnBlock> blocks;  // user
  std::optional<Task> task;

  bool has_only_results() const;
  // An assistant turn that generation continues.
  bool is_open() const { return role == Role::assistant && message->is_open; }
};

// Whether system messages without text, pictures, tools and response format make turns.
enum class BlankSystem {
  keep,
  drop,  // but for the last message if all are such
};

// Step 2: appends the turns of `messages`, none of which joins an earlier turn.
void append_turns(std::span<const Message> messages, BlankSystem blank, std::vector<Turn>& turns);

// Step 3: the results of each turn in the order of the latest calls; other blocks stay in their
// places.
void sort_results(std::vector<Turn>& turns);

// No picture, and no character of text.
bool is_blank(const std::vector<ContentBlock>& content);

}  // namespace tessera::deepseek_v41
