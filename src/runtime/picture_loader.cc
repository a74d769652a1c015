#include "runtime/picture_loader.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>
#include <utility>
#include <variant>

#include "base/ascii.h"
#include "base/check.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "intake/base64.h"
#include "intake/data_url.h"
#include "intake/fetch.h"

namespace tessera {
namespace {

constexpr size_t kFetchesAtATime = 8;

bool is_http(std::string_view url) {
  return begins_in_any_case(url, "http://") || begins_in_any_case(url, "https://");
}

intake::Resolver& system_resolver() {
  static intake::SystemResolver resolver;
  return resolver;
}

intake::Deadline::Clock::time_point end_of(const PictureAccess& access) {
  return access.deadline.has_value() ? intake::Deadline::Clock::now() + *access.deadline
                                     : intake::Deadline::Clock::time_point::max();
}

Error to_error(std::string_view name, const intake::FetchRefusal& refusal) {
  const ErrorCode code = refusal.fault == intake::FetchFault::cancelled ? ErrorCode::cancelled
                         : intake::is_clients_fault(refusal.fault)      ? ErrorCode::bad_request
                                                                        : ErrorCode::far_side;
  return Error(code,
               str_cat(name, ": ", intake::fetch_fault_name(refusal.fault), ": ", refusal.detail));
}

}  // namespace

PictureLoader::PictureLoader(std::span<const ImageSource> sources, const std::string& root,
                             const PictureAccess& access, const std::atomic<bool>* cancel)
    : sources_(sources),
      root_(root),
      access_(access),
      budget_(access.budget, static_cast<int64_t>(sources.size())),
      deadline_{.at = end_of(access), .cancel = cancel},
      fetched_(sources.size()) {}

bool PictureLoader::is_remote(size_t i) const {
  return sources_[i].kind == ImageSource::Kind::url && is_http(sources_[i].value);
}

std::string PictureLoader::name(size_t i) const {
  const ImageSource& source = sources_[i];
  const bool is_path = source.kind == ImageSource::Kind::url && !is_remote(i) &&
                       !intake::is_data_url(source.value) && access_.reads_files &&
                       access_.media_root.empty();
  return is_path ? path_of(i) : str_cat("image ", i);
}

std::string PictureLoader::path_of(size_t i) const {
  const std::filesystem::path path = sources_[i].value;
  return path.is_relative() && !root_.empty() ? (std::filesystem::path(root_) / path).string()
                                              : path.string();
}

void PictureLoader::fetch_all() {
  std::vector<size_t> remote;
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (is_remote(i)) {
      remote.push_back(i);
    }
  }
  std::vector<std::optional<intake::FetchRefusal>> refusals(sources_.size());
  std::atomic<size_t> next = 0;
  std::atomic<bool> has_failed = false;
  intake::FetchRules rules = access_.fetch;
  rules.max_bytes = std::min(rules.max_bytes, budget_.bytes_left());
  const auto work = [&] {
    for (size_t at = next++; at < remote.size() && !has_failed; at = next++) {
      const size_t i = remote[at];
      intake::FetchResult result =
          intake::fetch(sources_[i].value, rules, system_resolver(), deadline_);
      if (intake::FetchRefusal* refusal = std::get_if<intake::FetchRefusal>(&result)) {
        refusals[i] = std::move(*refusal);
        has_failed = true;
      } else {
        fetched_[i] = std::get<std::vector<std::byte>>(std::move(result));
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (size_t t = 1; t < std::min(kFetchesAtATime, remote.size()); ++t) {
      others.emplace_back(work);
    }
    work();
  }
  for (const size_t i : remote) {
    if (refusals[i].has_value()) {
      throw to_error(name(i), *refusals[i]);
    }
  }
  for (const size_t i : remote) {
    budget_.take_bytes(static_cast<int64_t>(fetched_[i]->size()));
  }
}

std::vector<std::byte> PictureLoader::load(size_t i) {
  if (is_remote(i)) {
    TESSERA_CHECK(fetched_[i].has_value());
    return std::exchange(fetched_[i], std::nullopt).value();
  }
  const bool is_text =
      sources_[i].kind == ImageSource::Kind::base64 || intake::is_data_url(sources_[i].value);
  std::vector<std::byte> bytes = is_text ? from_text(i) : from_file(i);
  budget_.take_bytes(static_cast<int64_t>(bytes.size()));
  return bytes;
}

std::vector<std::byte> PictureLoader::from_text(size_t i) {
  const ImageSource& source = sources_[i];
  auto result = source.kind == ImageSource::Kind::base64
                    ? intake::decode_base64(source.value, budget_.bytes_left())
                    : intake::parse_data_url(source.value, budget_.bytes_left());
  if (const intake::Refusal* refusal = std::get_if<intake::Refusal>(&result)) {
    throw intake::to_error(name(i), *refusal);
  }
  return std::get<std::vector<std::byte>>(std::move(result));
}

std::vector<std::byte> PictureLoader::from_file(size_t i) {
  if (!access_.reads_files) {
    throw Error(ErrorCode::bad_request,
                str_cat("image ", i,
                        ": expected an http(s) URL, a data: URL or base64; paths of "
                        "files are not read here"));
  }
  intake::DecodeLimits limits;
  limits.max_bytes = budget_.bytes_left();
  if (access_.media_root.empty()) {
    return intake::read_image_file(path_of(i), limits);
  }
  try {
    return intake::read_image_file(sources_[i].value, limits, access_.media_root);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_file) {
      throw;
    }
    throw Error(ErrorCode::bad_request,
                str_cat("image ", i, ": no such picture below the media folder"));
  }
}

intake::DecodeOptions PictureLoader::decode_options(const image::Policy& policy) const {
  return {.limits = budget_.decode_limits(), .policy = policy, .deadline = deadline_};
}

void PictureLoader::decoded(const image::Image& picture) {
  budget_.take_pixels(picture.width() * picture.height());
}

}  // namespace tessera
