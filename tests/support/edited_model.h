// Checkpoint folders with something changed: tensors of the one weights file, and config.json.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "io/safetensors.h"
#include "tests/support/json_lines.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {

// The complete tiny checkpoint: tests/golden/v41-tiny/README.md.
inline std::string tiny_model() { return golden_path("v41-tiny/model"); }

// Tensors of a folder's model.safetensors.
class EditedWeights {
 public:
  struct Stored {
    std::string name;
    DType dtype;
    Shape shape;
    std::string bytes;
  };

  explicit EditedWeights(const std::string& folder) {
    const io::SafetensorsFile file(folder + "/model.safetensors");
    for (const io::TensorEntry& entry : file.tensors()) {
      const TensorView view = file.view(entry);
      tensors_.push_back({entry.name, entry.dtype, entry.shape,
                          std::string(reinterpret_cast<const char*>(view.data),
                                      static_cast<size_t>(view.bytes()))});
    }
  }

  Stored& at(std::string_view name) {
    const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                    [&](const Stored& t) { return t.name == name; });
    EXPECT_NE(found, tensors_.end()) << name;
    return *found;
  }
  void add(std::string name, DType dtype, const Shape& shape) {
    const int64_t bytes = shape.elements() * dtype_bytes(dtype);
    tensors_.push_back(
        {std::move(name), dtype, shape, std::string(static_cast<size_t>(bytes), '\0')});
  }
  // Gives a tensor another type or shape; its bytes become zero.
  void change(std::string_view name, DType dtype, const Shape& shape) {
    remove(name);
    add(std::string(name), dtype, shape);
  }
  void remove(std::string_view name) {
    EXPECT_EQ(std::erase_if(tensors_, [&](const Stored& t) { return t.name == name; }), 1U) << name;
  }
  void remove_all(std::string_view prefix) {
    EXPECT_GT(std::erase_if(tensors_, [&](const Stored& t) { return t.name.starts_with(prefix); }),
              0U)
        << prefix;
  }

  void write(const std::string& folder) const {
    io::SafetensorsWriter writer(folder + "/model.safetensors");
    for (const Stored& t : tensors_) {
      writer.add(t.name, {reinterpret_cast<const std::byte*>(t.bytes.data()), t.dtype, t.shape});
    }
    writer.commit();
  }

 private:
  std::vector<Stored> tensors_;
};

// A copy of a checkpoint with one weights file; the index is left out.
inline void copy_model(const std::string& from, const std::string& to) {
  std::filesystem::create_directories(to);
  for (const char* name :
       {"config.json", "generation_config.json", "tokenizer.json", "model.safetensors"}) {
    std::filesystem::copy_file(from + "/" + name, to + "/" + name);
  }
}

// Sets "text_config.head_dim" and the like; the objects on the way exist.
inline void set_value(io::Json& json, std::string_view path, io::Json value) {
  const size_t dot = path.find('.');
  if (dot == std::string_view::npos) {
    json.set(std::string(path), std::move(value));
    return;
  }
  for (io::Json::Member& member : json.members()) {
    if (member.first == path.substr(0, dot)) {
      set_value(member.second, path.substr(dot + 1), std::move(value));
      return;
    }
  }
  ADD_FAILURE() << "no object at " << path;
}

inline void remove_value(io::Json& json, std::string_view path) {
  const size_t dot = path.find('.');
  const std::string_view key = path.substr(0, dot);
  if (dot == std::string_view::npos) {
    EXPECT_EQ(std::erase_if(json.members(), [&](const auto& m) { return m.first == key; }), 1U);
    return;
  }
  for (io::Json::Member& member : json.members()) {
    if (member.first == key) {
      remove_value(member.second, path.substr(dot + 1));
    }
  }
}

}  // namespace tessera::test
