// What the fuzz targets share. A target reads any bytes; it fails by a signal, a sanitizer's report
// or an exception, and throwing tessera::Error is the right answer to bad bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tessera::fuzz {

// parse(), or nothing if it throws Error. The message must be one line of UTF-8.
template <typename Parse>
auto parse_or_refuse(Parse parse) -> std::optional<decltype(parse())> {
  try {
    return parse();
  } catch (const Error& error) {
    const std::string_view message = error.what();
    TESSERA_CHECK(!message.empty() && message.find('\n') == std::string_view::npos);
    TESSERA_CHECK(is_valid_utf8(message));
    return std::nullopt;
  }
}

}  // namespace tessera::fuzz
