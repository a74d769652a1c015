#include "intake/http_head.h"

#include <algorithm>
#include <limits>

#include "base/ascii.h"
#include "base/str_cat.h"

namespace tessera::intake {

void HttpHead::add(std::string_view line) {
  const size_t colon = std::min(line.find(':'), line.size());
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = trim(line.substr(std::min(colon + 1, line.size())), kAsciiBlanks);
  if (is_equal_in_any_case(name, "location") && location.empty()) {
    location = value;
  } else if (is_equal_in_any_case(name, "content-length") && !parse_number(value, content_length)) {
    // What is no number at all libcurl refuses itself.
    content_length = std::numeric_limits<int64_t>::max();
  } else if (is_equal_in_any_case(name, "content-encoding")) {
    coding = coding == ContentCoding::identity ? parse_content_coding(value) : std::nullopt;
  } else if (is_equal_in_any_case(name, "transfer-encoding") &&
             !is_equal_in_any_case(value, "chunked")) {
    coding = std::nullopt;  // libcurl would unpack it, whole or not
  }
}

}  // namespace tessera::intake
