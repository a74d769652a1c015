// Runs of palette entries (RLE4 and RLE8) to rows. Source: Microsoft's "Bitmap Compression"; runs
// past the end of a row, and what deltas and early ends of rows leave out, as Pillow 13 does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "intake/bmp_header.h"
#include "intake/fault.h"

namespace tessera::intake {

// Calls on_row(y, entries) for each row in the order of the file: `header.width` bytes, pixels that
// no run covers are entry 0. on_row returns false to stop. Refuses data that ends before the last
// row (truncated) or says so (corrupt); nothing when all rows came or on_row stopped.
std::optional<Refusal> expand_bmp_rle(std::span<const std::byte> bytes, const BmpHeader& header,
                                      const std::function<bool(int64_t, const uint8_t*)>& on_row);

}  // namespace tessera::intake
