// nlohmann::json reads the text, by SAX; its values are never used. See json_events.h.
#include <algorithm>
#include <bit>
#include <charconv>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "io/json.h"
#include "io/json_events.h"

namespace tessera::io {
namespace {

// Json values are copied and destroyed recursively, about 200 bytes of stack a level.
constexpr int kGreatestDepth = 1000;

[[noreturn]] void fail(std::string_view name, int64_t line, std::string_view what) {
  throw Error(ErrorCode::bad_file, str_cat(name, ": line ", line, ": ", what));
}

// Reads through a pointer outside of the iterator, so that the receiver knows how far the lexer has
// come.
class TextIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  explicit TextIterator(const char** place) : place_(place) {}
  reference operator*() const { return **place_; }
  TextIterator& operator++() {
    ++*place_;
    return *this;
  }
  TextIterator operator++(int) {
    TextIterator old = *this;
    ++*place_;
    return old;
  }
  bool operator==(const TextIterator& other) const { return *place_ == *other.place_; }
  bool operator!=(const TextIterator& other) const { return !(*this == other); }

 private:
  const char** place_;
};

// Translates nlohmann's callbacks into JsonEvents, with the depth limit.
class Adapter {
 public:
  Adapter(std::string_view text, std::string_view name, int max_depth, JsonEvents& events)
      : text_(text), name_(name), max_depth_(max_depth), events_(events) {}

  bool null() {
    events_.null();
    return true;
  }
  bool boolean(bool value) {
    events_.boolean(value);
    return true;
  }
  bool number_integer(int64_t value) {
    // Called for numbers with a minus sign only, so 0 was written "-0".
    events_.number(value == 0 ? "-0" : str_cat(value));
    return true;
  }
  bool number_unsigned(uint64_t value) {
    char digits[24];
    const std::to_chars_result made = std::to_chars(digits, digits + sizeof(digits), value);
    events_.number({digits, static_cast<size_t>(made.ptr - digits)});
    return true;
  }
  bool number_float(double /*value*/, const std::string& spelling) {
    // Also integers beyond 64 bits. nlohmann writes the locale's decimal point into the spelling.
    std::string text = spelling;
    for (char& c : text) {
      const bool is_json = (c >= '0' && c <= '9') || c == '-' || c == '+' || c == 'e' || c == 'E';
      c = is_json ? c : '.';
    }
    events_.number(text);
    return true;
  }
  bool string(std::string& value) {
    events_.string(value);
    return true;
  }
  bool binary(nlohmann::json::binary_t& /*value*/) { return false; }  // not in JSON text
  bool key(std::string& value) {
    events_.key(value);
    return true;
  }
  bool start_object(size_t /*elements*/) {
    enter();
    events_.start_object();
    return true;
  }
  bool end_object() {
    --depth_;
    events_.end_object();
    return true;
  }
  bool start_array(size_t /*elements*/) {
    enter();
    events_.start_array();
    return true;
  }
  bool end_array() {
    --depth_;
    events_.end_array();
    return true;
  }
  [[noreturn]] bool parse_error(size_t position, const std::string& token,
                                const nlohmann::json::exception& error) {
    // `position` counts the characters read, the offending one included.
    const int64_t line = line_of_offset(text_, position == 0 ? 0 : position - 1);
    if (error.id == 406) {
      fail(name_, line, str_cat("the number ", quoted(token, 40), " is too large for a double"));
    }
    // "[json.exception...] parse error at line 1, column 2: DETAIL; last read: 'TOKEN'..."
    std::string_view detail = error.what();
    const size_t start = detail.find("column ");
    if (start != std::string_view::npos && detail.find(": ", start) != std::string_view::npos) {
      detail.remove_prefix(detail.find(": ", start) + 2);
    }
    detail = detail.substr(0, detail.find("; last read: '"));
    fail(name_, line,
         str_cat("not valid JSON: ", detail, ", at ",
                 position > text_.size() ? "the end of the text" : last_of(token)));
  }

 private:
  void enter() {
    if (++depth_ > max_depth_) {
      fail(name_, line_of_offset(text_, events_.offset()),
           str_cat("nested deeper than ", max_depth_, " levels"));
    }
  }

  // The end of the token that could not be read: what is wrong stands there.
  static std::string last_of(std::string_view token) {
    constexpr size_t kShown = 40;
    if (token.size() <= kShown) {
      return quoted(token);
    }
    size_t start = token.size() - kShown;
    while (start < token.size() && (static_cast<uint8_t>(token[start]) & 0xc0U) == 0x80U) {
      ++start;
    }
    return str_cat("...", quoted(token.substr(start)));
  }

  std::string_view text_;
  std::string_view name_;
  int max_depth_;
  JsonEvents& events_;
  int depth_ = 0;
};

// Builds Json values.
class Builder : public JsonEvents {
 public:
  Builder(std::string_view text, std::string_view name, bool allow_duplicate_keys)
      : text_(text), name_(name), allow_duplicate_keys_(allow_duplicate_keys) {}

  Json take() { return std::move(root_); }

  void null() override { add(Json()); }
  void boolean(bool value) override { add(Json::boolean(value)); }
  void number(std::string_view spelling) override {
    add(Json::number_spelled(std::string(spelling)));
  }
  // Strings are copied: moved from, the lexer's buffer would have to grow again.
  void string(std::string& value) override { add(Json::string(std::string(value))); }
  void key(std::string& value) override {
    std::vector<Json::Member>& members = open_.back().value->members();
    make_room(members);
    members.emplace_back(value, Json());
    key_offsets_.push_back(offset());
  }
  void start_object() override { open_.push_back({add(Json::object()), key_offsets_.size()}); }
  void end_object() override {
    resolve_duplicates(open_.back());
    key_offsets_.resize(open_.back().first_key);
    open_.pop_back();
  }
  void start_array() override { open_.push_back({add(Json::array()), key_offsets_.size()}); }
  void end_array() override { open_.pop_back(); }

 private:
  // A container that is not complete. Its own container does not grow meanwhile, so `value` stays.
  struct Open {
    Json* value;
    size_t first_key;  // of an object, in key_offsets_
  };

  Json* add(Json&& value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back().value;
    if (parent.is_array()) {
      std::vector<Json>& items = parent.items();
      make_room(items);
      items.push_back(std::move(value));
      return &items.back();
    }
    parent.members().back().second = std::move(value);
    return &parent.members().back().second;
  }

  void resolve_duplicates(const Open& open) {
    std::vector<Json::Member>& members = open.value->members();
    if (members.size() < 2) {
      return;
    }
    keys_.clear();
    for (const Json::Member& member : members) {
      keys_.push_back(member.first);
    }
    if (hashes_differ()) {
      return;
    }
    const std::vector<size_t> order = sorted_positions(keys_);
    std::vector<size_t> superseded;
    size_t first = 0;  // of a group of equal keys, in `order`
    for (size_t i = 1; i < order.size(); ++i) {
      if (keys_[order[i]] != keys_[order[first]]) {
        first = i;
        continue;
      }
      if (!allow_duplicate_keys_) {
        fail(name_, line_of_offset(text_, key_offsets_[open.first_key + order[i]]),
             str_cat("the key ", quoted(keys_[order[i]]), " appears twice in one object"));
      }
      // As in a Python dict: the last value at the first place.
      members[order[first]].second = std::move(members[order[i]].second);
      superseded.push_back(order[i]);
    }
    erase(members, superseded);
  }

  // Makes a full vector of thousands of elements several times as large, not twice: pages that stay
  // unused cost nothing, copies do. Never more than the rest of the text can fill.
  template <typename T>
  void make_room(std::vector<T>& elements) const {
    constexpr size_t kFactor = 16;
    const size_t size = elements.size();
    if (size == elements.capacity() && size >= 1024 && size <= 65536) {
      const size_t rest = (text_.size() - offset()) / 2 + 1;  // an element and a comma: two bytes
      elements.reserve(size + std::min((kFactor - 1) * size, rest));
    }
  }

  // Whether the hashes of keys_ differ, and so the keys. An attacker can choose keys that share a
  // place in the table: too many of them, and the answer is no. Then sorting decides.
  bool hashes_differ() {
    constexpr size_t kMostProbes = 64;
    const size_t size = std::bit_ceil(2 * keys_.size());
    hashes_.assign(size, 0);
    for (const std::string_view key : keys_) {
      const uint64_t hash = std::hash<std::string_view>()(key) | 1U;  // 0: a free place
      size_t probes = 0;
      size_t place = hash >> 1 & (size - 1);
      while (hashes_[place] != 0) {
        if (hashes_[place] == hash || ++probes > kMostProbes) {
          return false;
        }
        place = (place + 1) & (size - 1);
      }
      hashes_[place] = hash;
    }
    return true;
  }

  static void erase(std::vector<Json::Member>& members, std::vector<size_t>& positions) {
    std::sort(positions.begin(), positions.end());
    size_t kept = 0;
    size_t next = 0;
    for (size_t i = 0; i < members.size(); ++i) {
      if (next < positions.size() && positions[next] == i) {
        ++next;
        continue;
      }
      if (kept != i) {
        members[kept] = std::move(members[i]);
      }
      ++kept;
    }
    members.erase(members.begin() + static_cast<std::ptrdiff_t>(kept), members.end());
  }

  std::string_view text_;
  std::string_view name_;
  bool allow_duplicate_keys_;
  Json root_;
  std::vector<Open> open_;
  std::vector<size_t> key_offsets_;  // of the keys of all open objects
  std::vector<std::string_view> keys_;
  std::vector<uint64_t> hashes_;
};

}  // namespace

int64_t line_of_offset(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  return 1 + std::count(before.begin(), before.end(), '\n');
}

std::vector<size_t> sorted_positions(const std::vector<std::string_view>& keys) {
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (!std::is_sorted(keys.begin(), keys.end())) {  // files often are, and this is a fast pass
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const int compared = keys[a].compare(keys[b]);
      return compared < 0 || (compared == 0 && a < b);
    });
  }
  return order;
}

void parse_json_events(std::string_view text, std::string_view name, const JsonLimits& limits,
                       JsonEvents& events) {
  if (static_cast<int64_t>(text.size()) > limits.max_bytes) {
    throw Error(ErrorCode::bad_file, str_cat(name, ": ", text.size(), " bytes of JSON, at most ",
                                             limits.max_bytes, " are accepted"));
  }
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    throw Error(ErrorCode::bad_file, str_cat(name, ": is empty, expected a JSON value"));
  }
  // No JSON text has a zero byte, and nlohmann takes one for the end.
  const size_t zero = text.find('\0');
  if (zero != std::string_view::npos) {
    fail(name, line_of_offset(text, zero), "not valid JSON: a zero byte");
  }
  const char* at = text.data();
  const char* end = text.data() + text.size();
  events.begin_ = text.data();
  events.at_ = &at;
  Adapter adapter(text, name, std::min(limits.max_depth, kGreatestDepth), events);
  nlohmann::json::sax_parse(TextIterator(&at), TextIterator(&end), &adapter);
  events.at_ = nullptr;
}

Json parse_json(std::string_view text, std::string_view name, const JsonLimits& limits) {
  Builder builder(text, name, limits.allow_duplicate_keys);
  parse_json_events(text, name, limits, builder);
  return builder.take();
}

Json read_json_file(const std::string& path, const JsonLimits& limits) {
  const MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  return parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path, limits);
}

}  // namespace tessera::io
