#include "runtime/kept_states.h"

#include <algorithm>

namespace tessera {
namespace {

// The pictures that start before `position`.
std::span<const PlacedPicture> before(std::span<const PlacedPicture> pictures, int64_t position) {
  const auto end = std::find_if(pictures.begin(), pictures.end(),
                                [&](const PlacedPicture& p) { return p.start >= position; });
  return pictures.first(static_cast<size_t>(end - pictures.begin()));
}

}  // namespace

bool KeptStates::Entry::begins(std::span<const int32_t> other,
                               std::span<const PlacedPicture> other_pictures) const {
  return ids.size() < other.size() && std::equal(ids.begin(), ids.end(), other.begin()) &&
         std::ranges::equal(pictures, before(other_pictures, state.position));
}

const deepseek_v41::SequenceState* KeptStates::find(std::span<const int32_t> ids,
                                                    std::span<const PlacedPicture> pictures,
                                                    std::string_view tenant) {
  auto best = entries_.end();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    const bool is_longer = best == entries_.end() || entry->ids.size() > best->ids.size();
    if (is_longer && entry->tenant == tenant && entry->begins(ids, pictures)) {
      best = entry;
    }
  }
  if (best == entries_.end()) {
    return nullptr;
  }
  entries_.splice(entries_.begin(), entries_, best);
  return &entries_.front().state;
}

void KeptStates::keep(const deepseek_v41::SequenceState& state, std::span<const int32_t> ids,
                      std::span<const PlacedPicture> pictures, std::string_view tenant) {
  if (!is_on() || state.position == 0) {
    return;
  }
  const std::span<const int32_t> own = ids.first(static_cast<size_t>(state.position));
  const std::span<const PlacedPicture> placed = before(pictures, state.position);
  entries_.remove_if([&](const Entry& entry) {
    return entry.tenant == tenant && std::ranges::equal(entry.ids, own) &&
           std::ranges::equal(entry.pictures, placed);
  });
  entries_.push_front(
      {state, {own.begin(), own.end()}, {placed.begin(), placed.end()}, std::string(tenant)});
  if (static_cast<int64_t>(entries_.size()) > most_) {
    entries_.pop_back();
  }
}

bool KeptStates::drop_oldest() {
  if (entries_.empty()) {
    return false;
  }
  entries_.pop_back();
  return true;
}

}  // namespace tessera
