#include "server/api_wire.h"

#include <array>
#include <utility>

#include "base/text.h"

namespace tessera::server {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kLineEnds = {
    {{"\xc2\x85", "\\u0085"}, {"\xe2\x80\xa8", "\\u2028"}, {"\xe2\x80\xa9", "\\u2029"}}};

}  // namespace

std::string wire_text(const io::Json& value) {
  const std::string text = io::dump_compact(value);
  // What is not ASCII stands inside a string, where an escape may stand too.
  std::string out;
  out.reserve(text.size());
  size_t begin = 0;  // of what is not yet in `out`
  for (size_t at = 0; at < text.size(); ++at) {
    for (const auto& [from, to] : kLineEnds) {
      if (text.compare(at, from.size(), from) == 0) {
        out.append(text, begin, at - begin).append(to);
        begin = at + from.size();
      }
    }
  }
  return out.append(text, begin);
}

std::string sse_event(const io::Json& value) {
  std::string text = "data: ";
  text += wire_text(value);
  text += "\n\n";
  return text;
}

std::string readable_text(std::string_view bytes) {
  constexpr std::string_view kReplacement = "\xef\xbf\xbd";
  std::string text;
  bool is_replaced = false;
  while (!bytes.empty()) {
    const size_t length = utf8_sequence_bytes(bytes);
    if (length > 0) {
      text += bytes.substr(0, length);
    } else if (!is_replaced) {
      text += kReplacement;
    }
    is_replaced = length == 0;
    bytes.remove_prefix(length > 0 ? length : 1);
  }
  return text;
}

}  // namespace tessera::server
