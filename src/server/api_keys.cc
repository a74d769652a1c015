#include "server/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/str_cat.h"

namespace tessera::server {
namespace {

constexpr size_t kLeastKey = 16;
constexpr size_t kMostKey = 512;
constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

}  // namespace

ApiKeys::Digest ApiKeys::digest_of(std::string_view key) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

void ApiKeys::add(std::string name, std::string_view key, std::string_view where) {
  const bool is_visible =
      std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 127; });
  if (key.size() < kLeastKey || key.size() > kMostKey || !is_visible) {
    throw Error(ErrorCode::bad_request,
                str_cat(where, ": a key has ", key.size(), " characters, expected ", kLeastKey,
                        " to ", kMostKey, " of visible ASCII"));
  }
  if (std::any_of(keys_.begin(), keys_.end(), [&](const Key& k) { return k.name == name; })) {
    throw Error(ErrorCode::bad_request,
                str_cat(where, ": the name '", name, "' appears twice; give every key its own"));
  }
  keys_.push_back({std::move(name), digest_of(key)});
}

void ApiKeys::add_lines(std::string_view text, std::string_view where) {
  for (size_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view row = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (row.empty() || row.front() == '#') {
      continue;
    }
    const size_t blank = row.find_first_of(kBlanks);
    const std::string place = str_cat(where, ": line ", line);
    if (blank == std::string_view::npos) {
      add(str_cat("key-", keys_.size() + 1), row, place);
    } else {
      add(std::string(row.substr(0, blank)), trimmed(row.substr(blank)), place);
    }
  }
}

void ApiKeys::add_file(const std::string& path) {
  const MappedFile file(path);
  add_lines({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
}

std::optional<std::string> ApiKeys::tenant_of(const std::string* authorization) const {
  constexpr std::string_view kScheme = "bearer ";
  std::string_view key;
  if (authorization != nullptr && authorization->size() > kScheme.size()) {
    const bool is_bearer = std::equal(
        kScheme.begin(), kScheme.end(), authorization->begin(),
        [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b + 32) : b); });
    key = is_bearer ? trimmed(std::string_view(*authorization).substr(kScheme.size()))
                    : std::string_view();
  }
  const Digest digest = digest_of(key);
  std::optional<std::string> tenant;
  for (const Key& known : keys_) {  // all of them, always
    if (CRYPTO_memcmp(known.digest.data(), digest.data(), digest.size()) == 0) {
      tenant = known.name;
    }
  }
  return tenant;
}

}  // namespace tessera::server
