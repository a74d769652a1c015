// What a user should know about how a picture was read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "image/policy.h"
#include "intake/decode.h"

namespace tessera::intake {

// One line each, for a picture of a kind that policies show in visibly different ways: transparent,
// 16 bits a sample, turned by EXIF. Says what was done under `policy` and what else could be.
std::vector<std::string> notices(const DecodedImage& decoded, std::string_view name,
                                 const image::Policy& policy);

}  // namespace tessera::intake
