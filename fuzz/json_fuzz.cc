// io/json.h: any bytes are refused or parsed, and what was parsed survives being written and read.
#include "fuzz/target.h"
#include "io/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tessera::io::Json;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool allow_duplicate_keys : {false, true}) {
    tessera::io::JsonLimits limits;
    limits.allow_duplicate_keys = allow_duplicate_keys;
    const std::optional<Json> json = tessera::fuzz::parse_or_refuse(
        [&] { return tessera::io::parse_json(text, "input", limits); });
    if (!json.has_value()) {
      continue;
    }
    const std::string compact = dump_compact(*json);
    TESSERA_CHECK(dump_compact(tessera::io::parse_json(compact, "compact")) == compact);
    const std::string python = dump_python(*json);
    TESSERA_CHECK(dump_python(tessera::io::parse_json(python, "python")) == python);
  }
  return 0;
}
