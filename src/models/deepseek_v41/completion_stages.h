// The tolerant parser's table: stages, the tags that end them, and what becomes of the other text.
// Chat specification 11.2.
#pragma once

#include <cstddef>
#include <string_view>

#include "models/deepseek_v41/prompt_writer.h"

namespace tessera::deepseek_v41 {

// What becomes of text that is no tag.
enum class Other {
  dropped,
  reasoning,
  content,
  blank,      // content: one blank for all of it
  name,       // of the call, given out when it is complete
  escaped,    // arguments, inside a JSON string
  raw,        // arguments
  misplaced,  // a tag has to come at once; with anything else the call is left open
};

enum class Stage {
  reasoning,
  answer,
  before_json,
  json,
  behind_json,
  calls,  // inside the block, outside of a call
  name,
  arguments,  // inside a call, outside of a parameter
  key_start,
  key,
  type,
  string_value,
  raw_value,
  finished,
};
constexpr size_t kStages = static_cast<size_t>(Stage::finished) + 1;

struct StageInfo {
  Other other;
  bool has_stops;
};
constexpr StageInfo kStageInfo[kStages] = {
    {Other::reasoning, false},  // reasoning
    {Other::content, true},     // answer
    {Other::blank, false},      // before_json
    {Other::content, true},     // json
    {Other::blank, false},      // behind_json
    {Other::dropped, false},    // calls
    {Other::name, false},       // name
    {Other::dropped, false},    // arguments
    {Other::misplaced, false},  // key_start
    {Other::escaped, false},    // key
    {Other::misplaced, false},  // type
    {Other::escaped, false},    // string_value
    {Other::raw, false},        // raw_value
    {Other::dropped, false},    // finished
};

// What is given out for a tag itself.
enum class Action {
  none,
  begin_answer,     // nothing; newlines that follow are dropped
  bracket,          // the tag, as content
  begin_call,       // the name
  begin_parameter,  // "{" or ", "
  quote,            // a quotation mark
  end_key,          // the quotation mark behind a key and the colon
  end_call,         // "}" or "{}"
};

enum class Newlines { kept, taken };  // those directly before the tag

struct Rule {
  Stage stage;
  std::string_view tag;
  Newlines newlines;
  Stage next;
  Action action = Action::none;
};

constexpr std::string_view kTag = "<｜DSML｜";
constexpr std::string_view kEndTag = "</｜DSML｜";
constexpr std::string_view kKeyEnd = "\" string=\"";

// Tags are known by as little as tells them apart, so that the spellings of V4 (no blank behind the
// bar, "tool_calls") are read too. A parameter whose name or type is not well-formed leaves its
// call's arguments open, which are then no JSON.
constexpr Rule kRules[] = {
    {Stage::reasoning, kEndThink, Newlines::taken, Stage::answer, Action::begin_answer},
    {Stage::reasoning, kTag, Newlines::taken, Stage::calls},

    {Stage::answer, kEndThink, Newlines::kept, Stage::answer},
    {Stage::answer, kTag, Newlines::taken, Stage::calls},

    {Stage::before_json, "```json\n", Newlines::kept, Stage::json},
    {Stage::before_json, "```\n", Newlines::kept, Stage::json},
    {Stage::before_json, "{", Newlines::kept, Stage::json, Action::bracket},
    {Stage::before_json, "[", Newlines::kept, Stage::json, Action::bracket},
    {Stage::before_json, kTag, Newlines::taken, Stage::calls},
    {Stage::json, "\n```", Newlines::kept, Stage::behind_json},
    {Stage::behind_json, kTag, Newlines::taken, Stage::calls},

    {Stage::calls, "invoke name=\"", Newlines::kept, Stage::name},
    {Stage::calls, "</｜DSML｜ calls>", Newlines::kept, Stage::finished},
    {Stage::calls, "</｜DSML｜tool_calls>", Newlines::kept, Stage::finished},
    {Stage::name, "\"", Newlines::kept, Stage::arguments, Action::begin_call},

    {Stage::arguments, "parameter name=", Newlines::kept, Stage::key_start,
     Action::begin_parameter},
    {Stage::arguments, kEndTag, Newlines::kept, Stage::calls, Action::end_call},
    {Stage::key_start, "\"", Newlines::kept, Stage::key, Action::quote},
    {Stage::key, kKeyEnd, Newlines::kept, Stage::type, Action::end_key},
    {Stage::key, kEndTag, Newlines::kept, Stage::calls},
    {Stage::type, "true\">", Newlines::kept, Stage::string_value, Action::quote},
    {Stage::type, "false\">", Newlines::kept, Stage::raw_value},
    {Stage::string_value, kEndTag, Newlines::kept, Stage::arguments, Action::quote},
    {Stage::raw_value, kEndTag, Newlines::kept, Stage::arguments},
};

}  // namespace tessera::deepseek_v41
