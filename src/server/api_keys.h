// Keys that clients show, and the tenant that each of them is.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::server {

class ApiKeys {
 public:
  // Lines "KEY" or "NAME KEY" (blanks between); empty ones and those that begin with # are
  // skipped. `where` stands at the start of messages. Throws Error{bad_request} for a key of less
  // than 16 or more than 512 characters, or one that is no visible ASCII, without showing it, and
  // for a name that appears twice.
  void add_lines(std::string_view text, std::string_view where);
  // The lines of a file. Throws Error{bad_file}.
  void add_file(const std::string& path);

  bool is_empty() const { return keys_.empty(); }

  // The tenant of a header "Bearer KEY" (nullptr: there is none); nothing for a wrong key. The time
  // it takes does not depend on how much of a key is right.
  std::optional<std::string> tenant_of(const std::string* authorization) const;

 private:
  using Digest = std::array<std::byte, 32>;
  struct Key {
    std::string name;
    Digest digest;  // keys themselves are not kept
  };
  static Digest digest_of(std::string_view key);
  void add(std::string name, std::string_view key, std::string_view where);

  std::vector<Key> keys_;
};

}  // namespace tessera::server
