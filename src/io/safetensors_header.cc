// The header of a safetensors file. Format: the safetensors project's README, "Format".
#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "io/json_events.h"
#include "io/safetensors.h"

namespace tessera::io {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kMaxHeaderBytes = int64_t{256} << 20;

[[noreturn]] void fail(std::string_view name, std::string_view what) {
  throw Error(ErrorCode::bad_file, str_cat(name, ": ", what));
}

// Bytes of the JSON text behind the length field.
int64_t header_length(std::span<const std::byte> bytes, int64_t file_bytes, std::string_view name) {
  if (file_bytes < kLengthBytes || bytes.size() < size_t{kLengthBytes}) {
    fail(name, str_cat("has ", file_bytes,
                       " bytes, expected at least 8; not a safetensors file, or "
                       "an empty download"));
  }
  static_assert(std::endian::native == std::endian::little);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > uint64_t{kMaxHeaderBytes}) {
    fail(name, str_cat("the header would have ", length, " bytes, expected at most ",
                       kMaxHeaderBytes, "; not a safetensors file"));
  }
  const int64_t there = std::min(file_bytes, static_cast<int64_t>(bytes.size())) - kLengthBytes;
  if (static_cast<int64_t>(length) > there) {
    fail(name, str_cat("the header has ", length, " bytes, but only ", there,
                       " follow its length; the file is truncated, download it again"));
  }
  return static_cast<int64_t>(length);
}

// Fills a SafetensorsHeader from the JSON text. Offsets stay relative to the data area.
class HeaderReader : public JsonEvents {
 public:
  HeaderReader(std::string_view name, SafetensorsHeader& header) : name_(name), header_(header) {}

  void null() override { scalar("null"); }
  void boolean(bool /*value*/) override { scalar("a boolean"); }
  void number(std::string_view spelling) override {
    if (state_ == State::shape) {
      add_dimension(spelling);
    } else if (state_ == State::offsets) {
      add_offset(spelling);
    } else {
      scalar("a number");
    }
  }
  void string(std::string& value) override {
    if (state_ == State::metadata) {
      header_.metadata.emplace_back(std::move(key_), std::move(value));
    } else if (state_ == State::tensor && field_ == Field::dtype) {
      set_dtype(value);
    } else {
      scalar("a string");
    }
  }
  void key(std::string& value) override {
    key_ = std::move(value);
    if (state_ == State::tensor) {
      start_field();
    }
  }
  void start_object() override {
    if (state_ == State::start) {
      state_ = State::top;
    } else if (state_ == State::top) {
      start_entry();
    } else {
      start_skipping("an object");
    }
  }
  void end_object() override {
    if (state_ == State::skip) {
      stop_skipping();
    } else if (state_ == State::tensor) {
      finish_tensor();
      state_ = State::top;
    } else if (state_ == State::metadata) {
      state_ = State::top;
    }
  }
  void start_array() override {
    if (state_ == State::tensor && field_ == Field::shape) {
      state_ = State::shape;
    } else if (state_ == State::tensor && field_ == Field::offsets) {
      state_ = State::offsets;
    } else {
      start_skipping("an array");
    }
  }
  void end_array() override {
    if (state_ == State::skip) {
      stop_skipping();
    } else {
      state_ = State::tensor;
    }
  }

 private:
  enum class State { start, top, metadata, tensor, shape, offsets, skip };
  // Fields of a tensor; bits of seen_.
  enum class Field : unsigned int { dtype = 1, shape = 2, offsets = 4, unknown = 8 };

  [[noreturn]] void fail_tensor(std::string_view what) const {
    fail(name_, str_cat("tensor ", quoted(entry_.name), what));
  }

  // A value where the state does not expect this kind.
  [[noreturn]] void refuse(std::string_view found) const {
    switch (state_) {
      case State::start:
        fail(name_, str_cat("the header must be a JSON object, found ", found));
      case State::top:
        if (key_ == "__metadata__") {
          fail(name_, str_cat("__metadata__ must be an object of strings, found ", found));
        }
        fail(name_, str_cat("tensor ", quoted(key_), " must be an object, found ", found));
      case State::metadata:
        fail(name_, str_cat("__metadata__: ", quoted(key_), " must be a string, found ", found));
      case State::tensor:
        fail_tensor(str_cat(": ", key_, field_ == Field::dtype ? " must be a string" : kArray,
                            ", found ", found));
      case State::shape:
        fail_tensor(str_cat(": shape", kArray, ", found ", found, " in it"));
      case State::offsets:
      case State::skip:
        break;
    }
    fail_tensor(str_cat(": data_offsets", kArray, ", found ", found, " in it"));
  }
  static constexpr std::string_view kArray = " must be an array of whole numbers";

  void scalar(std::string_view found) const {
    const bool is_ignored =
        state_ == State::skip || (state_ == State::tensor && field_ == Field::unknown);
    if (!is_ignored) {
      refuse(found);
    }
  }

  // Fields that the format does not have are skipped, as other readers do.
  void start_skipping(std::string_view found) {
    if (state_ == State::tensor && field_ == Field::unknown) {
      state_ = State::skip;
    } else if (state_ != State::skip) {
      refuse(found);
    }
    ++skip_depth_;
  }
  void stop_skipping() {
    if (--skip_depth_ == 0) {
      state_ = State::tensor;
    }
  }

  void start_entry() {
    if (key_ != "__metadata__") {
      entry_ = TensorEntry{};
      entry_.name = std::move(key_);
      dims_.clear();
      offsets_.clear();
      seen_ = 0;
      state_ = State::tensor;
      return;
    }
    if (has_metadata_) {
      fail(name_, "__metadata__ appears twice in the header");
    }
    has_metadata_ = true;
    state_ = State::metadata;
  }

  void start_field() {
    field_ = key_ == "dtype"          ? Field::dtype
             : key_ == "shape"        ? Field::shape
             : key_ == "data_offsets" ? Field::offsets
                                      : Field::unknown;
    if (has_seen(field_) && field_ != Field::unknown) {
      fail_tensor(str_cat(": ", key_, " appears twice"));
    }
    seen_ |= static_cast<unsigned int>(field_);
  }

  bool has_seen(Field field) const { return (seen_ & static_cast<unsigned int>(field)) != 0; }

  void set_dtype(std::string_view text) {
    const std::optional<DType> dtype = dtype_from_name(text);
    if (!dtype.has_value()) {
      fail_tensor(str_cat(": dtype ", quoted(text, 40),
                          " is unknown, expected one such as BF16, "
                          "F32, F8_E4M3 or I8"));
    }
    entry_.dtype = *dtype;
  }

  void add_dimension(std::string_view text) {
    int64_t value = 0;
    if (!parse_number(text, value) || value < 0) {
      fail_tensor(
          str_cat(": shape holds ", quoted(text, 40), ", expected whole numbers from 0 on"));
    }
    if (dims_.size() == Shape::kMaxRank) {
      fail_tensor(str_cat(": shape has more than ", Shape::kMaxRank, " dimensions"));
    }
    dims_.push_back(value);
  }

  void add_offset(std::string_view text) {
    int64_t value = 0;
    if (!parse_number(text, value) || value < 0) {
      fail_tensor(
          str_cat(": data_offsets holds ", quoted(text, 40), ", expected whole numbers from 0 on"));
    }
    if (offsets_.size() == 2) {
      fail_tensor(": data_offsets has more than two numbers");
    }
    offsets_.push_back(value);
  }

  void finish_tensor() {
    for (const auto& [field, text] : {std::pair(Field::dtype, "dtype"),
                                      {Field::shape, "shape"},
                                      {Field::offsets, "data_offsets"}}) {
      if (!has_seen(field)) {
        fail_tensor(str_cat(" has no ", text));
      }
    }
    if (offsets_.size() != 2 || offsets_[0] > offsets_[1]) {
      fail_tensor(str_cat(": data_offsets are ", list_text(std::span<const int64_t>(offsets_)),
                          ", expected [begin,end] with begin <= end"));
    }
    // Dimensions first, so that every later product of them fits too.
    std::optional<int64_t> bytes = 1;
    for (const int64_t dim : dims_) {
      bytes = bytes.has_value() ? checked_mul(*bytes, dim) : bytes;
    }
    bytes = bytes.has_value() ? checked_mul(*bytes, dtype_bytes(entry_.dtype)) : bytes;
    const std::string shape = list_text(std::span<const int64_t>(dims_));
    if (!bytes.has_value()) {
      fail_tensor(str_cat(": shape ", shape, " has more bytes than 64 bits can count"));
    }
    const int64_t given = offsets_[1] - offsets_[0];
    if (given != *bytes) {
      fail_tensor(str_cat(": shape ", shape, " of ", dtype_name(entry_.dtype), " needs ", *bytes,
                          " bytes, data_offsets give ", given));
    }
    entry_.shape = Shape(std::span<const int64_t>(dims_));
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    header_.tensors.push_back(std::move(entry_));
  }

  std::string_view name_;
  SafetensorsHeader& header_;
  State state_ = State::start;
  int skip_depth_ = 0;
  bool has_metadata_ = false;
  std::string key_;
  Field field_ = Field::unknown;
  unsigned int seen_ = 0;
  TensorEntry entry_{};
  std::vector<int64_t> dims_;
  std::vector<int64_t> offsets_;
};

void refuse_duplicates(const SafetensorsHeader& header, std::string_view name) {
  std::vector<std::string_view> keys;
  const auto refuse = [&](std::string_view what) {
    const std::vector<size_t> order = sorted_positions(keys);
    for (size_t i = 1; i < order.size(); ++i) {
      if (keys[order[i]] == keys[order[i - 1]]) {
        fail(name, str_cat(what, quoted(keys[order[i]]), " appears twice in the header"));
      }
    }
  };
  for (const TensorEntry& tensor : header.tensors) {
    keys.push_back(tensor.name);
  }
  refuse("tensor ");
  keys.clear();
  for (const auto& [key, value] : header.metadata) {
    keys.push_back(key);
  }
  refuse("__metadata__: ");
}

// The tensors must tile the data area: no gap, no overlap, nothing behind the last one.
void check_layout(const std::vector<TensorEntry>& tensors, int64_t data_bytes,
                  std::string_view name) {
  for (const TensorEntry& tensor : tensors) {
    if (tensor.end > data_bytes) {
      fail(name, str_cat("tensor ", quoted(tensor.name), " ends at data byte ", tensor.end,
                         ", but the file has only ", data_bytes,
                         " data bytes; the file is truncated, download it again"));
    }
  }
  int64_t covered = 0;
  const TensorEntry* previous = nullptr;
  for (const TensorEntry& tensor : tensors) {
    if (tensor.begin < covered) {
      fail(name,
           str_cat("tensor ", quoted(tensor.name), " begins at data byte ", tensor.begin,
                   " and overlaps tensor ", quoted(previous->name), ", which ends at ", covered));
    }
    if (tensor.begin > covered) {
      fail(name, str_cat("data bytes ", covered, " to ", tensor.begin, " in front of tensor ",
                         quoted(tensor.name), " belong to no tensor"));
    }
    covered = tensor.end;
    previous = &tensor;
  }
  if (covered != data_bytes) {
    fail(name, str_cat("the tensors end at data byte ", covered, ", but the file has ", data_bytes,
                       " data bytes; what follows belongs to no tensor"));
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> bytes, int64_t file_bytes,
                                           std::string_view name) {
  const int64_t length = header_length(bytes, file_bytes, name);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes,
                              static_cast<size_t>(length));
  if (!text.starts_with('{')) {
    fail(name, "the header does not start with '{'; not a safetensors file");
  }
  SafetensorsHeader header;
  HeaderReader reader(name, header);
  JsonLimits limits;
  limits.max_bytes = kMaxHeaderBytes;
  parse_json_events(text, str_cat(name, ": header"), limits, reader);
  refuse_duplicates(header, name);
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) {
              return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
            });
  const int64_t data_start = kLengthBytes + length;
  check_layout(header.tensors, file_bytes - data_start, name);
  for (TensorEntry& tensor : header.tensors) {
    tensor.begin += data_start;
    tensor.end += data_start;
  }
  return header;
}

}  // namespace tessera::io
