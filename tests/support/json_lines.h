// Golden data in JSON: files of one value per line, and short ways to read members that are there.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace tessera::test {

// "tests/golden/..." in the source tree.
inline std::string golden_path(std::string_view name) {
  return std::string(TESSERA_SOURCE_DIR "/tests/golden/").append(name);
}

inline std::vector<io::Json> read_json_lines(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  std::vector<io::Json> rows;
  for (std::string line; std::getline(file, line);) {
    rows.push_back(io::parse_json(line, path));
  }
  return rows;
}

// "" and 0 for a member that is absent or of another kind.
inline std::string text_of(const io::Json& row, std::string_view key) {
  const io::Json* value = row.find(key);
  return value == nullptr ? std::string() : value->text();
}

inline int64_t integer_of(const io::Json& row, std::string_view key) {
  const io::Json* value = row.find(key);
  return value == nullptr ? 0 : value->as_int64().value_or(0);
}

inline std::vector<int64_t> integers_of(const io::Json& row, std::string_view key) {
  std::vector<int64_t> out;
  if (const io::Json* value = row.find(key)) {
    for (const io::Json& item : value->items()) {
      out.push_back(item.as_int64().value());
    }
  }
  return out;
}

}  // namespace tessera::test
