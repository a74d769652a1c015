#include "intake/budget.h"

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"

namespace tessera::intake {

void validate(const BudgetLimits& limits) {
  const auto require = [](const char* name, int64_t value) {
    if (value < 1) {
      throw Error(ErrorCode::bad_request,
                  str_cat(name, " ", value, ": expected at least 1; leave it out for the default"));
    }
  };
  require("max_images", limits.max_images);
  require("max_image_bytes", limits.max_image_bytes);
  require("max_request_bytes", limits.max_request_bytes);
  require("max_side", limits.max_side);
  require("many_images", limits.many_images);
  require("max_side_of_many", limits.max_side_of_many);
  require("max_request_pixels", limits.max_request_pixels);
}

RequestBudget::RequestBudget(const BudgetLimits& limits, int64_t images)
    : limits_(limits), images_(images) {
  if (images > limits.max_images) {
    throw Error(ErrorCode::bad_request, str_cat("the request has ", images, " images, at most ",
                                                limits.max_images, " are allowed; send fewer"));
  }
}

int64_t RequestBudget::bytes_left() const {
  return std::min(limits_.max_image_bytes, limits_.max_request_bytes - bytes_);
}

void RequestBudget::take_bytes(int64_t bytes) {
  if (bytes > limits_.max_request_bytes - bytes_) {
    throw Error(ErrorCode::bad_request,
                str_cat("the pictures of the request have more than ", limits_.max_request_bytes,
                        " bytes together; send fewer or smaller ones"));
  }
  bytes_ += bytes;
}

DecodeLimits RequestBudget::decode_limits() const {
  DecodeLimits limits;
  limits.max_bytes = limits_.max_image_bytes;
  limits.max_side = images_ >= limits_.many_images ? limits_.max_side_of_many : limits_.max_side;
  limits.max_pixels = std::min(limits.max_pixels, limits_.max_request_pixels - pixels_);
  return limits;
}

void RequestBudget::take_pixels(int64_t pixels) { pixels_ += pixels; }

}  // namespace tessera::intake
