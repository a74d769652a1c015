// SHA-256 (OpenSSL) of bytes, as 64 lower-case hex digits.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace tessera::io {

std::string sha256_hex(std::span<const std::byte> bytes);

// The same in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void update(std::span<const std::byte> bytes);
  std::string hex();  // once, at the end

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::io
