#include "tokenizer/vocabulary.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace tessera {
namespace {

uint64_t hash_of(std::string_view text) { return std::hash<std::string_view>()(text); }

uint32_t upper_half(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }

}  // namespace

Vocabulary::Vocabulary(size_t tokens) {
  texts_.reserve(tokens);
  slots_.resize(std::bit_ceil(std::max<size_t>(16, tokens * 2)));
}

// The slot that holds `wanted`, or the free one where it belongs.
size_t Vocabulary::slot(std::string_view wanted, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t index = hash & mask;
  while (slots_[index].id >= 0 && (slots_[index].hash != upper_half(hash) ||
                                   text(texts_[static_cast<size_t>(slots_[index].id)]) != wanted)) {
    index = (index + 1) & mask;
  }
  return index;
}

void Vocabulary::grow() {
  slots_.assign(slots_.size() * 2, {});
  for (int32_t id = 0; id < size(); ++id) {
    if (contains(id)) {
      const uint64_t hash = hash_of(text(id));
      slots_[slot(text(id), hash)] = {upper_half(hash), id};
    }
  }
}

bool Vocabulary::add(int32_t id, std::string_view text) {
  const uint64_t hash = hash_of(text);
  Slot& place = slots_[slot(text, hash)];
  if (place.id >= 0 || contains(id)) {
    return false;
  }
  if (id >= size()) {
    texts_.resize(static_cast<size_t>(id) + 1);
  }
  texts_[static_cast<size_t>(id)] = {pool_.size(), static_cast<uint32_t>(text.size())};
  pool_.append(text);
  place = {upper_half(hash), id};
  if (++count_ * 2 > slots_.size()) {
    grow();
  }
  return true;
}

std::optional<int32_t> Vocabulary::find(std::string_view text) const {
  const int32_t id = slots_[slot(text, hash_of(text))].id;
  return id < 0 ? std::nullopt : std::optional<int32_t>(id);
}

}  // namespace tessera
