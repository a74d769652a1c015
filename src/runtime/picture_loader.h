// Where the pictures of a request come from: files, base64, data URLs, http(s) URLs. Internal to
// the runtime.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "intake/budget.h"
#include "runtime/engine.h"

namespace tessera {

class PictureLoader {
 public:
  // `root`: the folder that relative paths start from. All arguments must outlive the loader.
  // Throws Error{bad_request} when there are too many pictures.
  PictureLoader(std::span<const ImageSource> sources, const std::string& root,
                const PictureAccess& access, const std::atomic<bool>* cancel);

  // What messages call picture i: its path, or "image 3".
  std::string name(size_t i) const;

  // Gets everything that lies behind a URL, up to eight at a time under one deadline. Throws as
  // load() does, for the first picture that fails.
  void fetch_all();

  // The encoded bytes of picture i, once; `limits` are for its decoder. Throws Error{bad_request}
  // for what the client can mend, {bad_file} or {io} for files, {far_side} when the host of a URL
  // fails, {cancelled}.
  std::vector<std::byte> load(size_t i);

  intake::DecodeOptions decode_options(const image::Policy& policy) const;
  void decoded(const image::Image& picture);  // takes its pixels from the budget

 private:
  bool is_remote(size_t i) const;
  std::string path_of(size_t i) const;
  std::vector<std::byte> fetched(size_t i);
  std::vector<std::byte> from_text(size_t i);
  std::vector<std::byte> from_file(size_t i);

  std::span<const ImageSource> sources_;
  const std::string& root_;
  const PictureAccess& access_;
  intake::RequestBudget budget_;
  intake::Deadline deadline_;
  std::vector<std::optional<std::vector<std::byte>>> fetched_;  // per source
};

}  // namespace tessera
