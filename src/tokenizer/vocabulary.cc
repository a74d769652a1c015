#include "tokenizer/vocabulary.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace tessera {

Vocabulary::Vocabulary(size_t tokens) {
  texts_.reserve(tokens);
  slots_.assign(std::bit_ceil(std::max<size_t>(16, tokens * 2)), -1);
}

// The slot that holds `text`, or the free one where it belongs.
size_t Vocabulary::slot(std::string_view wanted) const {
  const size_t mask = slots_.size() - 1;
  size_t index = std::hash<std::string_view>()(wanted) & mask;
  while (slots_[index] >= 0 && text(slots_[index]) != wanted) {
    index = (index + 1) & mask;
  }
  return index;
}

void Vocabulary::grow() {
  slots_.assign(slots_.size() * 2, -1);
  for (int32_t id = 0; id < size(); ++id) {
    if (contains(id)) {
      slots_[slot(text(id))] = id;
    }
  }
}

bool Vocabulary::add(int32_t id, std::string_view text) {
  const size_t index = slot(text);
  if (slots_[index] >= 0 || contains(id)) {
    return false;
  }
  if (id >= size()) {
    texts_.resize(static_cast<size_t>(id) + 1);
  }
  texts_[static_cast<size_t>(id)] = {pool_.size(), static_cast<uint32_t>(text.size())};
  pool_.append(text);
  slots_[index] = id;
  if (++count_ * 2 > slots_.size()) {
    grow();
  }
  return true;
}

std::optional<int32_t> Vocabulary::find(std::string_view text) const {
  const int32_t id = slots_[slot(text)];
  return id < 0 ? std::nullopt : std::optional<int32_t>(id);
}

std::string_view Vocabulary::text(int32_t id) const {
  if (!contains(id)) {
    return {};
  }
  const Place& place = texts_[static_cast<size_t>(id)];
  return std::string_view(pool_).substr(place.begin, place.size);
}

}  // namespace tessera
