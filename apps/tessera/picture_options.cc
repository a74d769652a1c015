#include "picture_options.h"

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/str_cat.h"
#include "number_option.h"

namespace tessera {

void add_policy_options(CLI::App& command, PolicyArguments& a) {
  command
      .add_option("--policy", a.policy,
                  "how pictures are prepared: reference (default), recipe, hf-fast or hf-slow "
                  "(docs/image-intake.md)")
      ->type_name("reference|recipe|hf-fast|hf-slow");
  add_number_option(command, "--pillow", a.pillow,
                    "order of the resampling passes: as Pillow 13 (default) or 12");
  command.add_flag("--exif-rotate", a.rotates, "turn pictures as their EXIF orientation says");
}

image::Policy policy_of(const PolicyArguments& a) {
  image::Policy policy = image::find_policy(a.policy);
  if (a.pillow != 12 && a.pillow != 13) {
    throw Error(ErrorCode::bad_request, str_cat("--pillow ", a.pillow, ": expected 12 or 13"));
  }
  if (a.pillow == 12) {
    if (policy.resampler != image::Resampler::pillow13) {
      throw Error(ErrorCode::bad_request, str_cat("--pillow 12: policy ", policy.name,
                                                  " does not resample as Pillow does; leave "
                                                  "--pillow out"));
    }
    policy.resampler = image::Resampler::pillow12;
  }
  policy.applies_exif = policy.applies_exif || a.rotates;
  return policy;
}

void add_picture_options(CLI::App& command, PictureArguments& a) {
  add_policy_options(command, a.policy);
  command.add_flag("--no-fetch", a.fetches_nothing, "refuse pictures behind http(s) URLs");
  command
      .add_option("--fetch-hosts", a.hosts,
                  "fetch only from these hosts: NAME or *.DOMAIN, separated by commas")
      ->type_name("HOST")
      ->allow_extra_args(false)
      ->delimiter(',');
  command.add_flag("--allow-private-hosts", a.allows_private_hosts,
                   "fetch also from loopback and private addresses, on any port");
}

void check_detail(const std::string& detail) {
  if (!detail.empty() && detail != "low" && detail != "high" && detail != "auto" &&
      detail != "original") {
    throw Error(ErrorCode::bad_request,
                str_cat("--detail ", detail, ": expected low, high, auto or original"));
  }
}

PictureAccess access_of(const PictureArguments& a) {
  PictureAccess access;
  access.fetch.is_enabled = !a.fetches_nothing;
  access.fetch.allows_private_hosts = a.allows_private_hosts;
  access.fetch.allowed_hosts = a.hosts;
  return access;
}

}  // namespace tessera
