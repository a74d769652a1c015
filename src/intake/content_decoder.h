// HTTP content codings undone while bytes arrive (RFC 9110 section 8.4.1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::intake {

enum class ContentCoding {
  identity,
  gzip,
  deflate,  // zlib's form, and the bare one that some servers send
};

// The value of a Content-Encoding header; nothing for other codings and for more than one, which
// only bombs have.
std::optional<ContentCoding> parse_content_coding(std::string_view value);

// libcurl could do it, but takes a compressed body that is cut short for a whole one.
class ContentDecoder {
 public:
  enum class Status { ok, corrupt, too_large };

  // Not more than max_bytes decoded bytes are taken. Throws std::bad_alloc.
  ContentDecoder(ContentCoding coding, int64_t max_bytes);
  ~ContentDecoder();
  ContentDecoder(const ContentDecoder&) = delete;
  ContentDecoder& operator=(const ContentDecoder&) = delete;

  // Decodes the next bytes of the body. Not to be called after a status other than ok. Throws
  // std::bad_alloc.
  Status push(std::string_view data);

  // The coding's end was reached, and nothing followed it.
  bool is_whole() const;

  // Room for that many more bytes, if memory is there.
  void expect(int64_t bytes);

  std::vector<std::byte> take() { return std::move(decoded_); }

 private:
  struct Inflater;

  Status append(const void* data, size_t bytes);
  Status inflate(std::string_view data);

  ContentCoding coding_;
  int64_t max_bytes_;
  std::unique_ptr<Inflater> inflater_;
  std::vector<std::byte> decoded_;
};

}  // namespace tessera::intake
