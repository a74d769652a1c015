#include "image/drawn_jpeg.h"

// jpeglib.h uses FILE.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
// clang-format on

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace tessera::bench {
namespace {

// A random level, 0 to 255, of a lattice point.
int64_t lattice(int64_t x, int64_t y, uint32_t seed) {
  uint32_t h = static_cast<uint32_t>(x) * 0x9e3779b1U ^ static_cast<uint32_t>(y) * 0x85ebca77U ^
               seed * 0xc2b2ae3dU;
  h = (h ^ h >> 15) * 0x2c1b3c6dU;
  h = (h ^ h >> 12) * 0x297a2d39U;
  return static_cast<int64_t>((h ^ h >> 15) & 255U);
}

// Adds `weight` / 256 times the lattice of squares of `cell` pixels, bilinear between its points.
void add_octave(int64_t y, int64_t cell, int64_t weight, uint32_t seed,
                std::vector<int64_t>& sums) {
  const int64_t row = y / cell;
  const int64_t down = y % cell;
  const int64_t width = static_cast<int64_t>(sums.size());
  for (int64_t column = 0; column * cell < width; ++column) {
    const auto edge = [&](int64_t at) {
      return lattice(at, row, seed) * (cell - down) + lattice(at, row + 1, seed) * down;
    };
    const int64_t left = edge(column);
    const int64_t right = edge(column + 1);
    for (int64_t i = 0; i < cell && column * cell + i < width; ++i) {
      const int64_t level = (left * (cell - i) + right * i) / (cell * cell);
      sums[static_cast<size_t>(column * cell + i)] += weight * level;
    }
  }
}

}  // namespace

image::Image draw_clouds(image::Size size) {
  struct Octave {
    int64_t cell;    // pixels
    int64_t weight;  // of 256
  };
  constexpr Octave kOctaves[] = {{512, 112}, {128, 64}, {32, 40}, {8, 24}, {2, 16}};
  image::Image picture(size);
  std::vector<int64_t> sums(static_cast<size_t>(size.width));
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t c = 0; c < image::Image::kChannels; ++c) {
      std::fill(sums.begin(), sums.end(), 0);
      for (const Octave& octave : kOctaves) {
        const int64_t seed = octave.cell * 4 + (octave.cell > 8 ? c : 0);  // fine detail is grey
        add_octave(y, octave.cell, octave.weight, static_cast<uint32_t>(seed), sums);
      }
      uint8_t* to = picture.row(y) + c;
      for (const int64_t sum : sums) {
        *to = static_cast<uint8_t>(sum / 256);
        to += image::Image::kChannels;
      }
    }
  }
  return picture;
}

std::vector<std::byte> encode_jpeg(const image::Image& picture) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);  // prints and exits: this is a measuring program
  jpeg_create_compress(&info);
  unsigned char* made = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &made, &size);
  info.image_width = static_cast<JDIMENSION>(picture.width());
  info.image_height = static_cast<JDIMENSION>(picture.height());
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);  // 4:2:0
  jpeg_set_quality(&info, 90, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = const_cast<uint8_t*>(picture.row(info.next_scanline));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::vector<std::byte> bytes(size);
  std::memcpy(bytes.data(), made, size);
  jpeg_destroy_compress(&info);
  std::free(made);
  return bytes;
}

}  // namespace tessera::bench
