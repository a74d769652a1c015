// Tool definitions and calls from JSON, with namespaces. Chat specification sections 6 (steps 7 to
// 9) and 8.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "models/deepseek_v41/prompt.h"

namespace tessera::deepseek_v41 {

// {"type":"function","function":{...},"namespace":...}: the function object as it is, under its
// qualified name and behind the description of its namespace. Throws Error{bad_request}.
io::Json tool_function_from_json(const io::Json& entry, std::string_view where);

// A list of these, each written as Python's json.dumps does. Throws Error{bad_request}.
std::vector<std::string> tools_from_json(const io::Json& list, std::string_view where);

// [{"id","type":"function","function":{"name","arguments"},"namespace":...}]. Arguments are a JSON
// object, or its text, or that text once more as a JSON string; anything else becomes one argument
// named "arguments" that holds the raw text. Throws Error{bad_request}.
std::vector<ToolCall> tool_calls_from_json(const io::Json& list, std::string_view where);

}  // namespace tessera::deepseek_v41
