// Bytes as base64 text (RFC 4648 section 4, with padding).
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace tessera {

std::string to_base64(std::span<const std::byte> bytes);

}  // namespace tessera
