// The JSON parser under io/json.h, for readers of large files that build no Json values.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace tessera::io {

// Receives the parts of a JSON text in order. Duplicate keys are the receiver's business.
// Implementations: Json's builder (json_parse.cc), the safetensors header (safetensors_header.cc).
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void null() = 0;
  virtual void boolean(bool value) = 0;
  virtual void number(std::string_view spelling) = 0;  // as in the text
  virtual void string(std::string& value) = 0;         // may be moved from
  virtual void key(std::string& value) = 0;            // may be moved from
  virtual void start_object() = 0;
  virtual void end_object() = 0;
  virtual void start_array() = 0;
  virtual void end_array() = 0;

  // Byte of the text that the parser has reached, for messages.
  size_t offset() const { return at_ == nullptr ? 0 : static_cast<size_t>(*at_ - begin_); }

 private:
  friend void parse_json_events(std::string_view text, std::string_view name,
                                const JsonLimits& limits, JsonEvents& events);
  const char* begin_ = nullptr;
  const char* const* at_ = nullptr;
};

// Throws what parse_json throws (but for duplicate keys), and what `events` throws.
void parse_json_events(std::string_view text, std::string_view name, const JsonLimits& limits,
                       JsonEvents& events);

// 1 + line ends before `offset`.
int64_t line_of_offset(std::string_view text, size_t offset);

// Positions of `keys` sorted by key, equal keys in their own order.
std::vector<size_t> sorted_positions(const std::vector<std::string_view>& keys);

}  // namespace tessera::io
