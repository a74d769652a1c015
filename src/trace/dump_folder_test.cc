#include "trace/dump_folder.h"

#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <fstream>

#include "trace/diff.h"
#include "trace/test_files.h"

namespace tessera::trace {
namespace {

void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// As numpy.save writes it.
std::string npy(std::string header, std::string_view data, int version = 1) {
  header.append(64 - (header.size() + 11) % 64, ' ').push_back('\n');
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) {
    out += static_cast<char>(header.size() >> (8 * i) & 255);
  }
  return out + header + std::string(data);
}

TEST(DumpFolder, ReadsArraysUnderTheirTaps) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "d");
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  write_file(folder / "d/layer_3_attn.npy",
             npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", bytes_of(values)));
  write_file(folder / "d/ids.npy", npy("{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }",
                                       bytes_of(std::vector<int64_t>{7, 8}), 2));
  write_file(folder / "d/final.f32", bytes_of(values));
  write_file(folder / "d/final.shape", "[3, 2]\n");
  write_file(folder / "d/notes.txt", "ignored");
  write_file(folder / "d/mapping.json",
             R"({"layer_*_attn": "c0.layers.{1}.attn", "final": "c0.norm"})");
  const TraceFile trace(folder / "d");
  EXPECT_EQ(trace.taps(), (std::vector<std::string_view>{"c0.norm", "ids", "c0.layers.3.attn"}));
  EXPECT_EQ(trace.floats("c0.layers.3.attn"), values);
  EXPECT_EQ(trace.require("c0.layers.3.attn").shape, Shape({2, 3}));
  EXPECT_EQ(trace.integers("ids"), (std::vector<int64_t>{7, 8}));
  EXPECT_EQ(trace.require("c0.norm").shape, Shape({3, 2}));
}

TEST(DumpFolder, AMappingOutsideTheFolderAndSeveralStars) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "d");
  write_file(folder / "d/x.f32", bytes_of(std::vector<float>{1}));
  write_file(folder / "d/x.shape", "1");
  write_file(folder / "map.json", R"({"x": "c0.norm"})");
  EXPECT_EQ(TraceFile(folder / "d", folder / "map.json").taps().front(), "c0.norm");
  write_file(folder / "two.json", R"({"*_l*_q": "c{1}.layers.{2}.attn.q", "*": "rest.{1}"})");
  const NameMapping mapping = NameMapping::load(folder / "two.json");
  EXPECT_EQ(mapping.tap_of("0_l12_q"), "c0.layers.12.attn.q");
  EXPECT_EQ(mapping.tap_of("other"), "rest.other");
  EXPECT_EQ(mapping.tap_of("a.b"), "a.b");  // a star has no dot
}

TEST(DumpFolder, WrongFilesAreNamed) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }";
  const std::string one = bytes_of(std::vector<float>{1});
  const std::vector<std::pair<std::string, std::string>> files = {
      {"", "numpy"},
      {"PK\x03\x04 something else", "numpy"},
      {npy(good, one).substr(0, 20), "longer than the file"},
      {npy(good, one + one), "expected 4 bytes"},
      {npy(good, ""), "expected 4 bytes"},
      {npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", one), "little-endian"},
      {npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", one),
       "little-endian"},
      {npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", one), "column by column"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,x), }", one), "shape"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999,99999999999,), }", one),
       "shape"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,), }", one), "shape"},
      {npy("{'descr': '<f4', 'fortran_order': False, }", one), "shape"}};
  for (const auto& [bytes, part] : files) {
    const TemporaryFolder folder;
    std::filesystem::create_directory(folder / "d");
    write_file(folder / "d/x.npy", bytes);
    const std::string error = error_of([&] { TraceFile trace(folder / "d"); });
    EXPECT_NE(error.find("x.npy"), std::string::npos) << error;
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }
}

TEST(DumpFolder, WrongFoldersAreNamed) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "d");
  EXPECT_NE(error_of([&] { TraceFile trace(folder / "d"); }).find("found none"), std::string::npos);
  write_file(folder / "d/x.f32", bytes_of(std::vector<float>{1}));
  EXPECT_NE(error_of([&] { TraceFile trace(folder / "d"); }).find("x.shape"), std::string::npos);
  write_file(folder / "d/x.shape", "2");
  EXPECT_NE(error_of([&] { TraceFile trace(folder / "d"); }).find("expected 8 bytes"),
            std::string::npos);
  write_file(folder / "d/x.shape", "two");
  EXPECT_NE(error_of([&] { TraceFile trace(folder / "d"); }).find("x.shape"), std::string::npos);
  write_file(folder / "d/x.shape", "1");
  write_file(folder / "d/y.f32", bytes_of(std::vector<float>{1}));
  write_file(folder / "d/y.shape", "1");
  write_file(folder / "d/mapping.json", R"({"*": "c0.norm"})");
  EXPECT_NE(error_of([&] { TraceFile trace(folder / "d"); }).find("two files"), std::string::npos);
  write_file(folder / "d/mapping.json", R"(["x"])");
  EXPECT_NE(error_of([&] { TraceFile trace(folder / "d"); }).find("mapping.json"),
            std::string::npos);
  write_file(folder / "map.json", R"({"*******": "x"})");
  EXPECT_NE(error_of([&] { NameMapping::load(folder / "map.json"); }), "");
}

}  // namespace
}  // namespace tessera::trace
