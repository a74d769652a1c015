// The JSON contract of an answer (run, chat): fields are added, never renamed.
#pragma once

#include <cstdint>
#include <vector>

#include "io/json.h"
#include "runtime/engine.h"

namespace tessera {

template <typename T>
io::Json json_numbers(const std::vector<T>& values) {
  io::Json list = io::Json::array();
  for (const T value : values) {
    list.items().push_back(io::Json::number(static_cast<int64_t>(value)));
  }
  return list;
}

// [{"type":"function","namespace":...,"function":{"name","arguments"}}]; no namespace, no key.
io::Json calls_json(const std::vector<AnsweredCall>& calls);

// The fields of the first choice stand at the top; "choices" has all where there are several.
io::Json result_json(const Engine& engine, const Request& request, const Result& result);

}  // namespace tessera
