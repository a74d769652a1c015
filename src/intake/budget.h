// How much picture one request may bring.
#pragma once

#include <cstdint>
#include <limits>

#include "intake/decode.h"

namespace tessera::intake {

// The defaults are those of DeepSeek's API (guide on vision; deepseek-recipe-image, limits.rs) and,
// for the pixels, of AMD's restatement of it.
struct BudgetLimits {
  int64_t max_images = 600;
  int64_t max_image_bytes = int64_t{32} << 20;    // encoded, each
  int64_t max_request_bytes = int64_t{64} << 20;  // encoded, together
  int64_t max_side = 8192;                        // pixels
  int64_t many_images = 15;                       // from so many on, sides may have at most
  int64_t max_side_of_many = 4096;                // so many pixels
  int64_t max_request_pixels = 256'000'000;       // decoded, together
};

// For pictures that the user names on the command line: of the defaults only the pixels count.
constexpr BudgetLimits kCommandLineBudget = {
    .max_images = std::numeric_limits<int64_t>::max(),
    .max_image_bytes = int64_t{256} << 20,
    .max_request_bytes = std::numeric_limits<int64_t>::max(),
    .max_side = image::kMaxSide,
    .many_images = std::numeric_limits<int64_t>::max(),
    .max_side_of_many = image::kMaxSide,
};

// Throws Error{bad_request} naming the limit that is below 1, or that leaves no room for a picture.
void validate(const BudgetLimits& limits);

// What is left of a request's budget. A picture is measured by its header before it is decoded, so
// nothing is decoded that does not fit.
class RequestBudget {
 public:
  // Throws Error{bad_request} when there are too many images.
  RequestBudget(const BudgetLimits& limits, int64_t images);

  // Most encoded bytes that the next picture may have.
  int64_t bytes_left() const;
  // Throws Error{bad_request} when all pictures together have too many.
  void take_bytes(int64_t bytes);

  DecodeLimits decode_limits() const;
  void take_pixels(int64_t pixels);

 private:
  BudgetLimits limits_;
  int64_t images_;
  int64_t bytes_ = 0;
  int64_t pixels_ = 0;
};

}  // namespace tessera::intake
