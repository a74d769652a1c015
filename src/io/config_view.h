// Typed access to a config.json object that records which keys were read, so that a model can
// report every key it neither used nor named as ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace tessera::io {

// Borrows the object; the Json outlives the view. `where` names it in messages
// ("config.json: text_config"). Getters throw Error{bad_file} that names the key, what was expected
// and what was found; the ones without a default throw for a missing key too.
class ConfigView {
 public:
  ConfigView(const Json& object, std::string where);

  int64_t integer(std::string_view key, int64_t smallest, int64_t largest) const;
  int64_t integer_or(std::string_view key, int64_t smallest, int64_t largest, int64_t value) const;
  double number(std::string_view key) const;
  double number_or(std::string_view key, double value) const;
  bool boolean_or(std::string_view key, bool value) const;
  std::string text(std::string_view key) const;
  std::string text_or(std::string_view key, std::string_view value) const;
  std::vector<int64_t> integers(std::string_view key, int64_t smallest, int64_t largest) const;
  std::optional<ConfigView> child(std::string_view key) const;  // object; nothing if absent or null
  bool has(std::string_view key) const;     // present and not null; counts as read
  void ignore(std::string_view key) const;  // counts as read

  std::vector<std::string> unread_keys() const;
  const std::string& where() const { return where_; }
  const Json& object() const { return *object_; }

 private:
  const Json* find(std::string_view key) const;
  const Json& require(std::string_view key) const;

  const Json* object_;
  std::string where_;
  mutable std::set<std::string, std::less<>> read_;
};

}  // namespace tessera::io
