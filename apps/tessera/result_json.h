// The JSON contract of an answer (run, chat): fields are added, never renamed.
#pragma once

#include <string>
#include <vector>

#include "io/json.h"
#include "runtime/engine.h"

namespace tessera {

// [{"type":"function","namespace":...,"function":{"name","arguments"}}]; no namespace, no key.
io::Json calls_json(const std::vector<AnsweredCall>& calls);

// The fields of the first choice stand at the top; "choices" has all where there are several.
io::Json result_json(const Engine& engine, const Request& request, const Result& result);

}  // namespace tessera
