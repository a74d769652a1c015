// Options about pictures, shared by the commands that read them.
#pragma once

#include <string>
#include <vector>

#include "runtime/engine.h"

namespace CLI {
class App;
}

namespace tessera {

struct PolicyArguments {
  std::string policy = "reference";
  int pillow = 13;
  bool rotates = false;
};
// --policy, --pillow, --exif-rotate
void add_policy_options(CLI::App& command, PolicyArguments& arguments);
// Throws Error{bad_request} for an unknown name, and for --pillow 12 with a policy that has nothing
// to do with Pillow.
image::Policy policy_of(const PolicyArguments& arguments);

// Throws Error{bad_request} for a --detail that nobody knows; empty is fine.
void check_detail(const std::string& detail);

struct PictureArguments {
  PolicyArguments policy;
  bool fetches_nothing = false;
  bool allows_private_hosts = false;
  std::vector<std::string> hosts;
};
// The same, and what may be fetched: --no-fetch, --fetch-hosts, --allow-private-hosts
void add_picture_options(CLI::App& command, PictureArguments& arguments);
PictureAccess access_of(const PictureArguments& arguments);

}  // namespace tessera
