#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "io/json.h"
#include "io/safetensors.h"

namespace tessera::io {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kDataAlignment = 8;

std::string json_string(std::string_view text) {
  return dump_compact(Json::string(std::string(text)));
}

void append_tensor(std::string& out, const TensorEntry& tensor) {
  const int64_t offsets[2] = {tensor.begin, tensor.end};
  out += str_cat(json_string(tensor.name), ":{\"dtype\":\"", dtype_name(tensor.dtype),
                 "\",\"shape\":", list_text(tensor.shape.dims()),
                 ",\"data_offsets\":", list_text(std::span<const int64_t>(offsets)), "}");
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::string& path, int64_t header_bytes)
    : file_(path),
      header_bytes_(round_up(std::max<int64_t>(header_bytes, kLengthBytes + 2), kDataAlignment)) {
  file_.write(std::string(static_cast<size_t>(header_bytes_), ' '));
}

void SafetensorsWriter::add(std::string_view name, const TensorView& tensor) {
  if (contains(name) || name == "__metadata__" || !is_valid_utf8(name)) {
    throw Error(ErrorCode::bad_request,
                str_cat(file_.path(), ": cannot write a tensor named ", quoted(name),
                        contains(name) ? ": it is already in the file"
                                       : ": the format does not allow this name"));
  }
  const int64_t bytes = tensor.bytes();
  file_.write(std::span(tensor.data, static_cast<size_t>(bytes)));
  by_name_.emplace(name, tensors_.size());
  tensors_.push_back(
      {std::string(name), tensor.dtype, tensor.shape, data_bytes_, data_bytes_ + bytes});
  data_bytes_ += bytes;
}

void SafetensorsWriter::set_metadata(std::string key, std::string value) {
  if (!is_valid_utf8(key) || !is_valid_utf8(value)) {
    throw Error(ErrorCode::bad_request, str_cat(file_.path(), ": metadata must be UTF-8, found ",
                                                quoted(key), ": ", quoted(value)));
  }
  metadata_.insert_or_assign(std::move(key), std::move(value));
}

bool SafetensorsWriter::contains(std::string_view name) const { return by_name_.contains(name); }

void SafetensorsWriter::commit() {
  std::string header = "{";
  if (!metadata_.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata_) {
      header += str_cat(header.back() == '{' ? "" : ",", json_string(key), ":", json_string(value));
    }
    header += "}";
  }
  for (const TensorEntry& tensor : tensors_) {
    header += header.back() == '{' ? "" : ",";
    append_tensor(header, tensor);
  }
  header += "}";
  const int64_t space = header_bytes_ - kLengthBytes;
  if (static_cast<int64_t>(header.size()) > space) {
    throw Error(
        ErrorCode::bad_request,
        str_cat(file_.path(), ": the header of ", tensors_.size(), " tensors needs ", header.size(),
                " bytes, but ", space, " were reserved; write fewer tensors or less metadata"));
  }
  static_assert(std::endian::native == std::endian::little);
  const uint64_t length = static_cast<uint64_t>(space);
  file_.write_at(0, std::as_bytes(std::span(&length, 1)));
  file_.write_at(kLengthBytes, std::as_bytes(std::span(header)));
  file_.commit();
}

}  // namespace tessera::io
