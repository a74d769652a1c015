// Encoded pictures of earlier requests: the same pixels are encoded once. Internal to the runtime.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/str_cat.h"
#include "runtime/picture_encoder.h"

namespace tessera {

// What a picture is kept under: the pixels that the model sees (intake/content_key.h), for one
// tenant.
inline std::string picture_key(std::string_view tenant, const std::string& content_key) {
  return str_cat(content_key, " ", tenant);
}

// Least recently used pictures go first. A picture that somebody still holds lives on after it has
// gone from here, is not counted then, and is still found: what is in use is never encoded twice.
// Safe from any thread.
class PictureCache {
 public:
  // Keeps pictures of at most `max_bytes` together; 0: none.
  explicit PictureCache(int64_t max_bytes) : max_bytes_(max_bytes) {}

  bool is_on() const { return max_bytes_ > 0; }

  // nullptr if it is not here.
  std::shared_ptr<const EncodedPicture> find(const std::string& key);

  // A picture larger than the whole cache is found only as long as somebody holds it.
  void keep(const std::string& key, std::shared_ptr<const EncodedPicture> picture);

  int64_t bytes() const;
  int64_t pictures() const;

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const EncodedPicture> picture;
  };

  mutable std::mutex mutex_;
  int64_t max_bytes_;
  int64_t bytes_ = 0;
  std::list<Entry> entries_;  // latest use first
  std::map<std::string, std::list<Entry>::iterator> by_key_;
  std::map<std::string, std::weak_ptr<const EncodedPicture>> in_use_;  // kept here or elsewhere
};

}  // namespace tessera
