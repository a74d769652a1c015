#include "intake/content_key.h"

#include <array>
#include <span>

#include "io/sha256.h"

namespace tessera::intake {

std::string content_key(std::string_view policy, int64_t grid_rows, int64_t grid_columns,
                        const image::Image& canvas) {
  // Every part has a fixed length or its length before it: no two inputs give the same bytes.
  constexpr std::string_view kDomain = "tessera picture 1";
  const std::array<int64_t, 5> numbers = {static_cast<int64_t>(policy.size()), grid_rows,
                                          grid_columns, canvas.width(), canvas.height()};
  io::Sha256 hash;
  hash.update(std::as_bytes(std::span(kDomain)));
  hash.update(std::as_bytes(std::span(numbers)));
  hash.update(std::as_bytes(std::span(policy)));
  hash.update(canvas.bytes());
  return hash.hex();
}

}  // namespace tessera::intake
