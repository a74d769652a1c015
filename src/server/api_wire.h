// Text that leaves the server: JSON bodies and server-sent events.
#pragma once

#include <string>
#include <string_view>

#include "io/json.h"

namespace tessera::server {

// Compact JSON of one line, whatever a reader takes for the end of a line: U+0085, U+2028 and
// U+2029 are escaped too.
std::string wire_text(const io::Json& value);

// "data: JSON\n\n"
std::string sse_event(const io::Json& value);
constexpr std::string_view kSseDone = "data: [DONE]\n\n";
// A comment, which readers skip; it keeps proxies from closing a quiet connection.
constexpr std::string_view kSseKeepAlive = ": waiting\n\n";

// `bytes` with U+FFFD in place of every run of bytes that is no UTF-8.
std::string readable_text(std::string_view bytes);

}  // namespace tessera::server
