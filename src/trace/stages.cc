#include "trace/stages.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace tessera::trace {
namespace {

using io::Json;

constexpr std::array<std::pair<std::string_view, StageKind>, 5> kKinds = {
    {{"values", StageKind::values},
     {"picks", StageKind::picks},
     {"mask", StageKind::mask},
     {"integers", StageKind::integers},
     {"image", StageKind::image}}};
constexpr std::array<std::pair<std::string_view, int>, 4> kGrids = {
    {{"f32", 23}, {"bf16", 7}, {"e4m3", 3}, {"e2m1", 1}}};
constexpr size_t kMaxDepth = 8;  // of repetitions

[[noreturn]] void fail(const std::string& where, std::string_view what) {
  throw Error(ErrorCode::bad_file, str_cat(where, ": ", what));
}

std::string text_or(const Json& json, std::string_view key, std::string_view otherwise,
                    const std::string& where) {
  const Json* value = json.find(key);
  if (value == nullptr) {
    return std::string(otherwise);
  }
  if (!value->is_string()) {
    fail(where, str_cat("'", key, "' is no string"));
  }
  return value->text();
}

std::vector<std::string> texts(const Json& json, std::string_view key, const std::string& where) {
  std::vector<std::string> out;
  const Json* list = json.find(key);
  if (list == nullptr) {
    return out;
  }
  if (!list->is_array()) {
    fail(where, str_cat("'", key, "' is no list of strings"));
  }
  for (const Json& item : list->items()) {
    if (!item.is_string()) {
      fail(where, str_cat("'", key, "' is no list of strings"));
    }
    out.push_back(item.text());
  }
  return out;
}

template <typename T, size_t n>
T named(const std::array<std::pair<std::string_view, T>, n>& known, const std::string& name,
        const std::string& where) {
  std::string expected;
  for (const auto& [text, value] : known) {
    if (text == name) {
      return value;
    }
    expected += str_cat(expected.empty() ? "" : ", ", text);
  }
  fail(where, str_cat("found ", quoted(name), ", expected one of ", expected));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Reads the number at the start of `text`, which loses it; false without one.
bool take_number(std::string_view& text, int64_t& number) {
  size_t digits = 0;
  number = 0;
  while (digits < text.size() && digits < 18 && is_digit(text[digits])) {
    number = 10 * number + (text[digits++] - '0');
  }
  text.remove_prefix(digits);
  return digits > 0;
}

// Whether `tap` is `pattern` with numbers in the place of {names}, equal ones for equal names.
bool fits(std::string_view pattern, std::string_view tap, std::map<std::string, int64_t>& numbers) {
  while (!pattern.empty()) {
    if (pattern.front() != '{') {
      if (tap.empty() || tap.front() != pattern.front()) {
        return false;
      }
      pattern.remove_prefix(1);
      tap.remove_prefix(1);
      continue;
    }
    const size_t end = pattern.find('}');
    int64_t number = 0;
    if (end == std::string_view::npos || !take_number(tap, number)) {
      return false;
    }
    const auto [known, is_new] =
        numbers.try_emplace(std::string(pattern.substr(1, end - 1)), number);
    if (!is_new && known->second != number) {
      return false;
    }
    pattern.remove_prefix(end + 1);
  }
  return tap.empty();
}

// The largest number that stands in `pattern` for {name} in any tap, the other names being given.
int64_t last_number(std::string_view pattern, const std::string& name,
                    const std::map<std::string, int64_t>& given,
                    const std::vector<std::string_view>& taps) {
  int64_t last = -1;
  for (const std::string_view tap : taps) {
    std::map<std::string, int64_t> numbers = given;
    numbers.erase(name);
    if (fits(pattern, tap, numbers)) {
      last = std::max(last, numbers[name]);
    }
  }
  return last;
}

// The name that `pattern` stands for; empty when a number would be negative. {*} stays.
std::string filled(std::string_view pattern, const std::map<std::string, int64_t>& numbers,
                   const std::vector<std::string_view>& taps) {
  constexpr std::string_view kLast = "last ";
  std::string out;
  for (size_t at = 0; at < pattern.size();) {
    const size_t end = pattern[at] == '{' ? pattern.find('}', at) : std::string_view::npos;
    if (end == std::string_view::npos) {
      out.push_back(pattern[at++]);
      continue;
    }
    std::string name(pattern.substr(at + 1, end - at - 1));
    int64_t number = 0;
    if (name == "*") {
      out += "{*}";
      at = end + 1;
      continue;
    }
    if (name.starts_with(kLast)) {
      name.erase(0, kLast.size());
      std::string plain = str_cat(pattern.substr(0, at), "{", name, "}", pattern.substr(end + 1));
      number = last_number(plain, name, numbers, taps);
    } else {
      const bool is_before = name.ends_with("-1");
      name = is_before ? name.substr(0, name.size() - 2) : name;
      const auto known = numbers.find(name);
      number = known == numbers.end() ? -1 : known->second - (is_before ? 1 : 0);
    }
    if (number < 0) {
      return "";
    }
    out += str_cat(number);
    at = end + 1;
  }
  return out;
}

}  // namespace

std::string_view stage_kind_name(StageKind kind) { return kKinds[static_cast<size_t>(kind)].first; }

StageMap::StageMap(const Json& json, std::string_view file) {
  const std::string where(file);
  if (!json.is_object() || text_or(json, "format", "", where) != "stages/1") {
    fail(where, "expected a stage map, an object with \"format\": \"stages/1\"");
  }
  name_ = text_or(json, "name", "", where);
  const Json* list = json.find("stages");
  if (list == nullptr) {
    fail(where, "'stages' is missing");
  }
  add(*list, {}, {}, where);
}

StageMap StageMap::load(const std::string& path) {
  return StageMap(io::read_json_file(path), path);
}

void StageMap::add(const Json& list, std::vector<int64_t> position, std::vector<std::string> each,
                   const std::string& where) {
  if (!list.is_array() || each.size() > kMaxDepth) {
    fail(where, "'stages' is no list, or repetitions are nested too deeply");
  }
  position.push_back(0);
  for (size_t i = 0; i < list.items().size(); ++i) {
    const Json& item = list.items()[i];
    const std::string here = str_cat(where, ": stages[", i, "]");
    position.back() = static_cast<int64_t>(i);
    if (!item.is_object()) {
      fail(here, "expected an object");
    }
    if (const Json* inner = item.find("stages")) {
      std::vector<std::string> names = each;
      names.push_back(text_or(item, "each", "", here));
      add(*inner, position, std::move(names), here);
      continue;
    }
    Entry entry{position, each, {}};
    Stage& stage = entry.stage;
    stage.tap = text_or(item, "tap", "", here);
    if (stage.tap.empty()) {
      fail(here, "expected 'tap', or 'each' with 'stages'");
    }
    stage.kind = named(kKinds, text_or(item, "kind", "values", here), here);
    stage.mantissa_bits = named(kGrids, text_or(item, "grid", "f32", here), here);
    stage.rows = text_or(item, "rows", "", here);
    stage.scores = text_or(item, "scores", "", here);
    stage.parents = texts(item, "parents", here);
    stage.hints = texts(item, "hints", here);
    entries_.push_back(std::move(entry));
  }
}

std::optional<StageMatch> StageMap::match(std::string_view tap) const {
  for (const Entry& entry : entries_) {
    StageMatch found;
    if (!fits(entry.stage.tap, tap, found.numbers)) {
      continue;
    }
    found.stage = &entry.stage;
    // Place in the file, then the number of the repetition, alternating from the outside.
    for (size_t i = 0; i < entry.position.size(); ++i) {
      found.order.push_back(entry.position[i]);
      if (i < entry.each.size()) {
        const auto number = found.numbers.find(entry.each[i]);
        found.order.push_back(number == found.numbers.end() ? 0 : number->second);
      }
    }
    return found;
  }
  return std::nullopt;
}

std::vector<std::string> StageMap::parents(const StageMatch& match,
                                           const std::function<bool(std::string_view)>& exists,
                                           const std::vector<std::string_view>& taps) const {
  std::vector<std::string> out;
  for (const std::string& alternatives : match.stage->parents) {
    std::string_view rest = alternatives;
    for (bool is_found = false; !rest.empty() && !is_found;) {
      const std::string_view pattern = rest.substr(0, rest.find('|'));
      rest.remove_prefix(std::min(rest.size(), pattern.size() + 1));
      const std::string name = filled(pattern, match.numbers, taps);
      if (const size_t star = name.find("{*}"); star != std::string::npos) {
        const std::string any = str_cat(name.substr(0, star), "{*}", name.substr(star + 3));
        for (const std::string_view tap : taps) {
          std::map<std::string, int64_t> ignored;
          if (fits(any, tap, ignored) && exists(tap)) {
            out.emplace_back(tap);
            is_found = true;
          }
        }
      } else if (!name.empty() && exists(name)) {
        out.push_back(name);
        is_found = true;
      }
    }
  }
  return out;
}

std::string StageMap::scores(const StageMatch& match) const {
  return filled(match.stage->scores, match.numbers, {});
}

}  // namespace tessera::trace
