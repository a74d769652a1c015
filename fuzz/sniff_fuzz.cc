// What is read of any bytes before a decoder is chosen, and beside the pixels: the format, EXIF's
// orientation, a multi-picture index.
#include "fuzz/target.h"
#include "intake/exif.h"
#include "intake/multi_picture.h"
#include "intake/sniff.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const tessera::intake::Sniffed sniffed = tessera::intake::sniff(bytes);
  TESSERA_CHECK(!sniffed.name.empty());
  const int orientation = tessera::intake::exif_orientation(bytes);
  TESSERA_CHECK(orientation >= 1 && orientation <= 8);
  tessera::intake::names_several_pictures(bytes);
  return 0;
}
