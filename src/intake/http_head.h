// What a fetch needs to know of the head of an HTTP answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "intake/content_decoder.h"

namespace tessera::intake {

struct HttpHead {
  std::string location;        // of the first such header; empty: none
  int64_t content_length = 0;  // 0: not announced; the largest number: more than fits
  // How the body is packed; nothing: in a way that was not asked for.
  std::optional<ContentCoding> coding = ContentCoding::identity;

  // Reads one header line. Other headers, the status line and what is no header change nothing.
  void add(std::string_view line);
};

}  // namespace tessera::intake
