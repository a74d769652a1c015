#include "runtime/picture_cache.h"

#include <utility>

namespace tessera {

std::shared_ptr<const EncodedPicture> PictureCache::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto place = by_key_.find(key);
  if (place == by_key_.end()) {
    const auto used = in_use_.find(key);
    return used == in_use_.end() ? nullptr : used->second.lock();
  }
  entries_.splice(entries_.begin(), entries_, place->second);
  return place->second->picture;
}

void PictureCache::keep(const std::string& key, std::shared_ptr<const EncodedPicture> picture) {
  const int64_t bytes = picture->rows.bytes();
  const std::lock_guard lock(mutex_);
  std::erase_if(in_use_, [](const auto& entry) { return entry.second.expired(); });
  in_use_[key] = picture;
  if (bytes > max_bytes_ || by_key_.contains(key)) {
    return;
  }
  while (bytes_ + bytes > max_bytes_) {
    bytes_ -= entries_.back().picture->rows.bytes();
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
  entries_.push_front({key, std::move(picture)});
  by_key_[key] = entries_.begin();
  bytes_ += bytes;
}

int64_t PictureCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

int64_t PictureCache::pictures() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(entries_.size());
}

}  // namespace tessera
