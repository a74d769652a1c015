#include "image_overlay.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/str_cat.h"

namespace tessera {
namespace {

using image::Box;
using image::Image;
using image::Rgb;
using image::Size;

constexpr int64_t kWantedSide = 1200;  // pixels of the drawing's long side, if scaling reaches it
constexpr int64_t kMaxScale = 10;
constexpr int64_t kMargin = 34;  // room for the numbers
constexpr int64_t kDigitScale = 2;
constexpr int64_t kHatchStep = 10;
constexpr Rgb kPaper{250, 250, 248};
constexpr Rgb kInk{70, 74, 82};
constexpr Rgb kHatch{163, 166, 172};
constexpr Rgb kCellLine{255, 255, 255};
constexpr Rgb kCellShadow{16, 24, 40};
constexpr Rgb kContentLine{255, 176, 32};

// Digits of 3 x 5 dots, one row per octal digit, the upper row first.
constexpr int kDigits[10] = {075557, 026227, 071747, 071717, 055711,
                             074717, 074757, 071111, 075757, 075717};

uint8_t mix(uint8_t under, uint8_t over, int percent) {
  return static_cast<uint8_t>((under * (100 - percent) + over * percent + 50) / 100);
}

class Drawing {
 public:
  explicit Drawing(Size size) : image_(size, kPaper) {}

  void blend(int64_t x, int64_t y, Rgb colour, int percent) {
    if (x < 0 || y < 0 || x >= image_.width() || y >= image_.height()) {
      return;
    }
    uint8_t* pixel = image_.row(y) + Image::kChannels * x;
    pixel[0] = mix(pixel[0], colour.r, percent);
    pixel[1] = mix(pixel[1], colour.g, percent);
    pixel[2] = mix(pixel[2], colour.b, percent);
  }
  void fill(Box box, Rgb colour, int percent) {
    for (int64_t y = box.y; y < box.y + box.height; ++y) {
      for (int64_t x = box.x; x < box.x + box.width; ++x) {
        blend(x, y, colour, percent);
      }
    }
  }
  // Lightens dark ground and darkens light ground, so that the line shows on both.
  void contrast(Box box, int percent) {
    for (int64_t y = box.y; y < box.y + box.height; ++y) {
      for (int64_t x = box.x; x < box.x + box.width; ++x) {
        const uint8_t* pixel = image_.row(y) + Image::kChannels * x;
        const bool is_dark = 3 * pixel[0] + 6 * pixel[1] + pixel[2] < 1450;
        blend(x, y, is_dark ? Rgb{255, 255, 255} : Rgb{0, 0, 0}, percent);
      }
    }
  }
  // Dots of a number whose middle is at (x, y).
  void number(int64_t value, int64_t x, int64_t y) {
    const std::string text = str_cat(value);
    const int64_t advance = 4 * kDigitScale;
    int64_t left = x - (static_cast<int64_t>(text.size()) * advance - kDigitScale) / 2;
    for (const char c : text) {
      const int dots = kDigits[c - '0'];
      for (int64_t dot = 0; dot < 15; ++dot) {
        if ((dots >> (14 - dot) & 1) != 0) {
          fill({left + dot % 3 * kDigitScale, y - 5 * kDigitScale / 2 + dot / 3 * kDigitScale,
                kDigitScale, kDigitScale},
               kInk, 100);
        }
      }
      left += advance;
    }
  }
  Image& image() { return image_; }

 private:
  Image image_;
};

void draw_pixels(const Image& canvas, int64_t scale, Image& out) {
  for (int64_t y = 0; y < canvas.height() * scale; ++y) {
    uint8_t* to = out.row(kMargin + y) + Image::kChannels * kMargin;
    const uint8_t* from = canvas.row(y / scale);
    for (int64_t x = 0; x < canvas.width() * scale; ++x) {
      std::memcpy(to + Image::kChannels * x, from + Image::kChannels * (x / scale), 3);
    }
  }
}

// Diagonal strokes over everything outside the content, and a line along its edges.
void draw_padding(const deepseek_v41::ImagePlan& plan, int64_t scale, Drawing& out) {
  const Box& content = plan.content;
  const int64_t left = kMargin + content.x * scale;
  const int64_t top = kMargin + content.y * scale;
  const int64_t right = left + content.width * scale;
  const int64_t bottom = top + content.height * scale;
  const int64_t canvas_right = kMargin + plan.canvas.size.width * scale;
  const int64_t canvas_bottom = kMargin + plan.canvas.size.height * scale;
  for (int64_t y = kMargin; y < canvas_bottom; ++y) {
    for (int64_t x = kMargin; x < canvas_right; ++x) {
      const bool is_padding = x < left || x >= right || y < top || y >= bottom;
      if (is_padding && (x + y) % kHatchStep < 2) {
        out.blend(x, y, kHatch, 70);
      }
    }
  }
  if (content.width < plan.canvas.size.width) {
    out.fill({left - 1, top, 2, bottom - top}, kContentLine, 100);
    out.fill({right - 1, top, 2, bottom - top}, kContentLine, 100);
  }
  if (content.height < plan.canvas.size.height) {
    out.fill({left, top - 1, right - left, 2}, kContentLine, 100);
    out.fill({left, bottom - 1, right - left, 2}, kContentLine, 100);
  }
}

void draw_grid(Size canvas, int64_t patch_px, int64_t cell_px, Drawing& out) {
  for (int64_t x = patch_px; x < canvas.width; x += patch_px) {
    if (x % cell_px != 0) {
      out.contrast({kMargin + x, kMargin, 1, canvas.height}, 30);
    }
  }
  for (int64_t y = patch_px; y < canvas.height; y += patch_px) {
    if (y % cell_px != 0) {
      out.contrast({kMargin, kMargin + y, canvas.width, 1}, 30);
    }
  }
  const auto strong_lines = [&](int64_t width, Rgb colour, int percent) {
    const int64_t before = width / 2;
    for (int64_t x = 0; x < canvas.width + cell_px; x += cell_px) {
      const int64_t at = kMargin + std::min(x, canvas.width) - before;
      out.fill({at, kMargin - before, width, canvas.height + width}, colour, percent);
    }
    for (int64_t y = 0; y < canvas.height + cell_px; y += cell_px) {
      const int64_t at = kMargin + std::min(y, canvas.height) - before;
      out.fill({kMargin - before, at, canvas.width + width, width}, colour, percent);
    }
  };
  strong_lines(4, kCellShadow, 45);
  strong_lines(2, kCellLine, 85);
}

// Row and column numbers of the tokens, from 1, in the margin; every fifth where cells are narrow.
void draw_numbers(deepseek_v41::Grid tokens, Size canvas, int64_t cell_px, Drawing& out) {
  const int64_t step = cell_px >= 40 ? 1 : 5;
  const auto middle = [cell_px](int64_t index, int64_t length) {
    return kMargin + (index * cell_px + std::min((index + 1) * cell_px, length)) / 2;
  };
  for (int64_t column = 0; column < tokens.columns; ++column) {
    if (column == 0 || (column + 1) % step == 0) {
      out.number(column + 1, middle(column, canvas.width), kMargin / 2);
    }
  }
  for (int64_t row = 0; row < tokens.rows; ++row) {
    if (row == 0 || (row + 1) % step == 0) {
      out.number(row + 1, kMargin / 2, middle(row, canvas.height));
    }
  }
}

}  // namespace

Image draw_plan(const deepseek_v41::PreparedImage& picture,
                const deepseek_v41::ImageLimits& limits) {
  const Size canvas = picture.plan.canvas.size;
  const int64_t scale =
      std::clamp<int64_t>(kWantedSide / std::max(canvas.width, canvas.height), 1, kMaxScale);
  const Size scaled{canvas.width * scale, canvas.height * scale};
  const int64_t patch_px = limits.patch * scale;
  const int64_t cell_px = patch_px * limits.downsample;
  Drawing out({scaled.width + 2 * kMargin, scaled.height + 2 * kMargin});
  draw_pixels(picture.canvas, scale, out.image());
  draw_padding(picture.plan, scale, out);
  draw_grid(scaled, patch_px, cell_px, out);
  draw_numbers(picture.plan.canvas.tokens, scaled, cell_px, out);
  return std::move(out.image());
}

}  // namespace tessera
