#include "trace/dump_folder.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "io/json.h"

namespace tessera::trace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNumpyMagic = "\x93NUMPY";
constexpr std::array<std::pair<std::string_view, DType>, 11> kNumpyTypes = {
    {{"<f4", DType::f32},
     {"<f8", DType::f64},
     {"<f2", DType::f16},
     {"<i8", DType::i64},
     {"<i4", DType::i32},
     {"<i2", DType::i16},
     {"|i1", DType::i8},
     {"|u1", DType::u8},
     {"|b1", DType::boolean},
     {"<u4", DType::u32},
     {"<u8", DType::u64}}};

[[noreturn]] void fail(const std::string& path, std::string_view what) {
  throw Error(ErrorCode::bad_file, str_cat(path, ": ", what));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The numbers of "(4, 64)", "4 64", "[4,64]"; nothing for any other text or too large ones.
std::optional<Shape> parse_shape(std::string_view text) {
  std::vector<int64_t> dims;
  int64_t elements = 1;
  for (size_t i = 0; i < text.size();) {
    if (!is_digit(text[i])) {
      if (std::string_view(" ,()[]\r\n\t").find(text[i]) == std::string_view::npos) {
        return std::nullopt;
      }
      ++i;
      continue;
    }
    int64_t dim = 0;
    for (; i < text.size() && is_digit(text[i]); ++i) {
      if (dim > (int64_t{1} << 40)) {
        return std::nullopt;
      }
      dim = 10 * dim + (text[i] - '0');
    }
    if (__builtin_mul_overflow(elements, std::max<int64_t>(dim, 1), &elements) ||
        elements > (int64_t{1} << 50)) {
      return std::nullopt;
    }
    dims.push_back(dim);
  }
  if (dims.size() > static_cast<size_t>(Shape::kMaxRank)) {
    return std::nullopt;
  }
  return Shape(std::span<const int64_t>(dims));
}

// The text behind `key` in a numpy header, up to `end`.
std::string_view header_value(std::string_view header, std::string_view key, char end,
                              const std::string& path) {
  const size_t at = header.find(str_cat("'", key, "':"));
  if (at == std::string_view::npos) {
    fail(path, str_cat("the header of the array has no '", key, "'"));
  }
  std::string_view value = header.substr(at + key.size() + 3);
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  return value.substr(0, value.find(end) == std::string_view::npos ? 0 : value.find(end) + 1);
}

TensorView npy_view(std::span<const std::byte> bytes, const std::string& path) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  constexpr size_t kVersionOne = 10;  // bytes before the header
  constexpr size_t kVersionTwo = 12;
  if (!text.starts_with(kNumpyMagic) || text.size() < kVersionTwo) {
    fail(path, "expected a numpy array, found something else");
  }
  const auto byte = [&](size_t i) {
    return static_cast<size_t>(static_cast<unsigned char>(text[i]));
  };
  const bool is_one = byte(6) == 1;
  const size_t begin = is_one ? kVersionOne : kVersionTwo;
  const size_t length = is_one ? byte(8) + 256 * byte(9)
                               : byte(8) + 256 * (byte(9) + 256 * (byte(10) + 256 * byte(11)));
  if (length > text.size() - begin) {
    fail(path, "the header of the array is longer than the file");
  }
  const std::string_view header = text.substr(begin, length);
  const std::string_view descr = header_value(header, "descr", ',', path);
  const auto type = std::find_if(kNumpyTypes.begin(), kNumpyTypes.end(), [&](const auto& known) {
    return descr == str_cat("'", known.first, "',");
  });
  if (type == kNumpyTypes.end()) {
    fail(path,
         str_cat("array of type ", tessera::quoted(descr), ", expected little-endian numbers"));
  }
  if (header_value(header, "fortran_order", ',', path) != "False,") {
    fail(path, "the array is stored column by column; save it with numpy.ascontiguousarray");
  }
  const std::optional<Shape> shape = parse_shape(header_value(header, "shape", ')', path));
  if (!shape.has_value()) {
    fail(path, str_cat("the array's shape is not understood, or has more than ", Shape::kMaxRank,
                       " dimensions"));
  }
  const TensorView view{bytes.data() + begin + length, type->second, *shape};
  if (view.bytes() != static_cast<int64_t>(bytes.size() - begin - length)) {
    fail(path, str_cat("expected ", view.bytes(), " bytes of elements, found ",
                       bytes.size() - begin - length));
  }
  return view;
}

// What the `*` of a pattern stand for, or nothing when it does not fit.
std::optional<std::vector<std::string>> captures(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) {
    return name.empty() ? std::optional(std::vector<std::string>()) : std::nullopt;
  }
  if (pattern.front() != '*') {
    return !name.empty() && name.front() == pattern.front()
               ? captures(pattern.substr(1), name.substr(1))
               : std::nullopt;
  }
  for (size_t length = 0; length <= name.size(); ++length) {
    if (length > 0 && name[length - 1] == '.') {
      return std::nullopt;
    }
    if (std::optional<std::vector<std::string>> rest =
            captures(pattern.substr(1), name.substr(length))) {
      rest->insert(rest->begin(), std::string(name.substr(0, length)));
      return rest;
    }
  }
  return std::nullopt;
}

}  // namespace

NameMapping NameMapping::load(const std::string& path) {
  const io::Json json = io::read_json_file(path);
  if (!json.is_object()) {
    fail(path, "expected an object of file names and tap names");
  }
  constexpr int64_t kMostStars = 6;
  NameMapping mapping;
  for (const auto& [pattern, tap] : json.members()) {
    if (!tap.is_string() || std::count(pattern.begin(), pattern.end(), '*') > kMostStars) {
      fail(path, str_cat(tessera::quoted(pattern), ": expected a tap name and at most ", kMostStars,
                         " '*' in the file name"));
    }
    mapping.rules_.emplace_back(pattern, tap.text());
  }
  return mapping;
}

std::string NameMapping::tap_of(const std::string& file) const {
  for (const auto& [pattern, tap] : rules_) {
    const std::optional<std::vector<std::string>> parts = captures(pattern, file);
    if (!parts.has_value()) {
      continue;
    }
    std::string name = tap;
    for (size_t i = 0; i < parts->size(); ++i) {
      const std::string place = str_cat("{", i + 1, "}");
      for (size_t at = name.find(place); at != std::string::npos; at = name.find(place, at)) {
        name.replace(at, place.size(), (*parts)[i]);
        at += (*parts)[i].size();
      }
    }
    return name;
  }
  return file;
}

DumpFolder::DumpFolder(const std::string& folder, const std::string& mapping) {
  NameMapping names;
  std::error_code ignored;
  const std::string own = folder + "/mapping.json";
  if (!mapping.empty()) {
    names = NameMapping::load(mapping);
  } else if (fs::exists(own, ignored)) {
    names = NameMapping::load(own);
  }
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    const std::string tap = names.tap_of(path.stem().string());
    if (path.extension() == ".npy") {
      add_npy(path.string(), tap);
    } else if (path.extension() == ".f32") {
      add_f32(path.string(), fs::path(path).replace_extension(".shape").string(), tap);
    }
  }
  if (tensors_.empty()) {
    fail(folder, "expected a folder with .npy files, or .f32 with .shape files; found none");
  }
  std::set<std::string_view> seen;
  for (const DumpedTensor& tensor : tensors_) {
    if (!seen.insert(tensor.tap).second) {
      fail(folder, str_cat("two files give tap ", tensor.tap, "; correct the mapping"));
    }
  }
}

void DumpFolder::add_npy(const std::string& path, const std::string& tap) {
  const MappedFile& file = *files_.emplace_back(std::make_unique<MappedFile>(path));
  tensors_.push_back({tap, npy_view(file.bytes(), path)});
}

void DumpFolder::add_f32(const std::string& path, const std::string& shape_path,
                         const std::string& tap) {
  const MappedFile shape_file(shape_path);
  const std::string_view text(reinterpret_cast<const char*>(shape_file.bytes().data()),
                              shape_file.bytes().size());
  const std::optional<Shape> shape = parse_shape(text);
  if (!shape.has_value()) {
    fail(shape_path, "expected numbers like 4 64");
  }
  const MappedFile& file = *files_.emplace_back(std::make_unique<MappedFile>(path));
  const TensorView view{file.bytes().data(), DType::f32, *shape};
  if (view.bytes() != static_cast<int64_t>(file.bytes().size())) {
    fail(path, str_cat("expected ", view.bytes(), " bytes for shape ", list_text(shape->dims()),
                       ", found ", file.bytes().size()));
  }
  tensors_.push_back({tap, view});
}

}  // namespace tessera::trace
