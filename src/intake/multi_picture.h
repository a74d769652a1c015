// The multi-picture index of a JPEG (CIPA DC-007), as far as Pillow's format name depends on it.
#pragma once

#include <cstddef>
#include <span>

namespace tessera::intake {

// `data`: an APP2 segment after its "MPF\0". Whether its index is well formed and names more than
// one picture; then Pillow calls the file MPO.
bool names_several_pictures(std::span<const std::byte> data);

}  // namespace tessera::intake
