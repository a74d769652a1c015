// The tools of a Chat Completions request and which of them a prompt shows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace tessera::deepseek_v41 {

struct ChatTools {
  std::vector<std::string> schemas;  // as written in the prompt
  bool is_forced = false;            // the answer begins with a call
};

// `tools` and `tool_choice` of a request. Names are of 1 to 128 characters A-Z a-z 0-9 _ - and
// differ; with a `namespace` (the reference's extension) this holds for NAMESPACE::NAME and both
// its parts. Parameters are a JSON schema of an object. Tools with strict true are written in their
// normal form (tool_schema.h), others as they come. tool_choice: auto; none (no tool is shown);
// required; {"type":"function","function":{"name":...}} (only that tool is shown). Throws
// Error{bad_request}.
ChatTools chat_tools_from_json(const io::Json& body, std::string_view where);

}  // namespace tessera::deepseek_v41
