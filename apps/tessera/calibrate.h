// Input scales of NVFP4's experts, measured on requests.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace tessera {

struct Calibration {
  std::string model;    // folder
  std::string prompts;  // file of requests, as for `run --input`
  int threads = 0;
  bool is_quiet = false;
};

// Runs every request of the file with a short answer and takes, for every matrix of the routed
// experts, scale = largest input / (6 * 448): the largest value seen is the largest that can be
// represented. Throws Error{bad_request} without a file, and what the engine throws.
std::map<std::string, float, std::less<>> calibrate_input_scales(const Calibration& calibration);

}  // namespace tessera
