#include "io/safetensors.h"

namespace tessera::io {

SafetensorsFile::SafetensorsFile(const std::string& path)
    : file_(path),
      header_(parse_safetensors_header(file_.bytes(), static_cast<int64_t>(file_.bytes().size()),
                                       path)) {
  for (size_t i = 0; i < header_.tensors.size(); ++i) {
    by_name_.emplace(header_.tensors[i].name, i);
  }
}

const std::string* SafetensorsFile::metadata_value(std::string_view key) const {
  for (const auto& [name, value] : header_.metadata) {
    if (name == key) {
      return &value;
    }
  }
  return nullptr;
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &header_.tensors[found->second];
}

TensorView SafetensorsFile::view(const TensorEntry& entry) const {
  TESSERA_DCHECK(entry.end <= static_cast<int64_t>(file_.bytes().size()));
  return {file_.bytes().data() + entry.begin, entry.dtype, entry.shape};
}

}  // namespace tessera::io
