#include "io/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "base/check.h"

namespace tessera::io {

struct Sha256::State {
  struct Free {
    void operator()(EVP_MD_CTX* made) const { EVP_MD_CTX_free(made); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context{EVP_MD_CTX_new()};
};

// OpenSSL's calls fail only for want of memory or after misuse.
Sha256::Sha256() : state_(std::make_unique<State>()) {
  TESSERA_CHECK(state_->context != nullptr);
  TESSERA_CHECK(EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  TESSERA_CHECK(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int bytes = 0;
  TESSERA_CHECK(EVP_DigestFinal_ex(state_->context.get(), digest.data(), &bytes) == 1);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < bytes; ++i) {
    text.push_back(kDigits[digest[i] >> 4]);
    text.push_back(kDigits[digest[i] & 0xfU]);
  }
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 sum;
  sum.update(bytes);
  return sum.hex();
}

}  // namespace tessera::io
