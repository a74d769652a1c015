// The demo model and its evaluation set, and short ways to ask the program about them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/json.h"
#include "tests/support/json_lines.h"
#include "tests/support/program.h"

namespace tessera::test {

using Arguments = std::vector<std::string>;

inline const std::string kDemo = TESSERA_SOURCE_DIR "/models/demo";
inline const std::string kEval = kDemo + "/eval/eval.jsonl";

inline std::string picture(std::string_view name) { return (kDemo + "/eval/images/").append(name); }

// The lines of the evaluation set, by id.
inline const std::map<std::string, io::Json>& eval_items() {
  static const std::map<std::string, io::Json> items = [] {
    std::map<std::string, io::Json> by_id;
    for (io::Json& row : read_json_lines(kEval)) {
      std::string id = text_of(row, "id");
      by_id.emplace(std::move(id), std::move(row));
    }
    return by_id;
  }();
  return items;
}

// What a command prints with status 0.
inline std::string output_of(const Arguments& arguments, const ProgramOptions& options = {}) {
  const ProgramResult result = run_program(arguments, options);
  EXPECT_EQ(result.status, 0) << "signal " << result.signal << ": " << result.err;
  return result.out;
}

inline io::Json json_of(Arguments arguments, const ProgramOptions& options = {}) {
  arguments.insert(arguments.begin() + (arguments[0] == "image" ? 2 : 1), "--json");
  const std::string text = output_of(arguments, options);
  EXPECT_TRUE(text.ends_with("}\n")) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  return io::parse_json(text, "output");
}

inline int64_t prompt_tokens(const Arguments& arguments) {
  return integer_of(json_of(arguments), "prompt_tokens");
}

// Exactly these members in this order, of these kinds.
inline void expect_members(const io::Json& object,
                           const std::vector<std::pair<std::string, io::Json::Kind>>& members) {
  ASSERT_TRUE(object.is_object());
  std::vector<std::string> names;
  std::vector<std::string> expected;
  for (const auto& [name, value] : object.members()) {
    names.push_back(name);
  }
  for (const auto& [name, kind] : members) {
    expected.push_back(name);
    const io::Json* value = object.find(name);
    ASSERT_NE(value, nullptr) << name;
    EXPECT_EQ(value->kind(), kind) << name;
  }
  EXPECT_EQ(names, expected);
}

}  // namespace tessera::test
