// Dumps of another engine as a trace: a folder of NAME.npy files, or NAME.f32 (little-endian
// floats) with NAME.shape (numbers: "4 64", "[4, 64]"). A mapping gives the taps their names. Files
// are mapped, not read.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "tensor/tensor.h"

namespace tessera::trace {

// A JSON object {"layer_*_attn": "c0.layers.{1}.attn", ...}: file names without ending, with `*`
// for any run of characters that has no '.', to tap names, in which {1}, {2}, ... are what the
// first, second, ... `*` stood for. The first pattern that fits counts; a file that none fits keeps
// its name.
class NameMapping {
 public:
  NameMapping() = default;
  // Throws Error{bad_file}.
  static NameMapping load(const std::string& path);

  std::string tap_of(const std::string& file) const;

 private:
  std::vector<std::pair<std::string, std::string>> rules_;
};

struct DumpedTensor {
  std::string tap;
  TensorView view;  // of the map
};

class DumpFolder {
 public:
  // Takes FOLDER/mapping.json when `mapping` is empty and it exists. Throws Error{bad_file} for a
  // file that is not what its ending says, for two files of one tap, and for a folder without any.
  DumpFolder(const std::string& folder, const std::string& mapping);

  const std::vector<DumpedTensor>& tensors() const { return tensors_; }  // by file name

 private:
  void add_npy(const std::string& path, const std::string& tap);
  void add_f32(const std::string& path, const std::string& shape_path, const std::string& tap);

  std::vector<std::unique_ptr<MappedFile>> files_;
  std::vector<DumpedTensor> tensors_;
};

}  // namespace tessera::trace
