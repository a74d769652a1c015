#include "models/deepseek_v41/prompt_turns.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>

namespace tessera::deepseek_v41 {
namespace {

bool is_blank_system(const Message& message) {
  return message.role == Role::system && message.tools.empty() && message.response_format.empty() &&
         is_blank(message.content);
}

}  // namespace

bool TurnBlock::is_result() const {
  return tool != nullptr || block->kind == ContentBlock::Kind::tool_result;
}

const std::string& TurnBlock::call_id() const {
  return tool != nullptr ? tool->call_id : block->call_id;
}

const std::vector<ContentBlock>& TurnBlock::content() const {
  return tool != nullptr ? tool->content : block->content;
}

bool Turn::has_only_results() const {
  return !blocks.empty() && std::all_of(blocks.begin(), blocks.end(),
                                        [](const TurnBlock& block) { return block.is_result(); });
}

void append_turns(std::span<const Message> messages, BlankSystem blank, std::vector<Turn>& turns) {
  const size_t first = turns.size();
  for (const Message& message : messages) {
    const bool is_tool = message.role == Role::tool;
    if (blank == BlankSystem::drop && is_blank_system(message)) {
      continue;
    }
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
  if (turns.size() == first && !messages.empty()) {
    append_turns(messages.last(1), BlankSystem::keep, turns);
  }
}

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

bool is_blank(const std::vector<ContentBlock>& content) {
  return std::all_of(content.begin(), content.end(), [](const ContentBlock& block) {
    return block.kind == ContentBlock::Kind::text && block.text.empty();
  });
}

}  // namespace tessera::deepseek_v41
