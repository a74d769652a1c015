#include "io/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace tessera::io {
namespace {

// A file made by hand: length field, header text, data.
std::string file_bytes(std::string_view header, std::string_view data = "",
                       int64_t length_error = 0) {
  const uint64_t length = header.size() + static_cast<uint64_t>(length_error);
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return str_cat(bytes, header, data);
}

SafetensorsHeader parse(std::string_view bytes) {
  return parse_safetensors_header(std::as_bytes(std::span(bytes)),
                                  static_cast<int64_t>(bytes.size()), "m.safetensors");
}

// The message without its leading file name.
std::string refusal(std::string_view bytes) {
  try {
    parse(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_TRUE(is_valid_utf8(message));
    EXPECT_EQ(message.substr(0, 15), "m.safetensors: ");
    return message.substr(15);
  }
  return "no error";
}

// The refusal of a file with one tensor named t, with these fields and 8 bytes of data.
std::string tensor_refusal(std::string_view fields) {
  return refusal(file_bytes(str_cat("{\"t\":{", fields, "}}"), "12345678"));
}

TEST(SafetensorsHeader, ReadsTensorsInTheOrderOfTheirData) {
  const SafetensorsHeader header =
      parse(file_bytes("{\"权重.b\":{\"dtype\":\"BF16\",\"shape\":[2,1],\"data_offsets\":[6,10]},"
                       "\"__metadata__\":{\"format\":\"pt\",\"a\\n\":\"值\"},"
                       "\"a\":{\"data_offsets\":[0,6],\"shape\":[3,2],\"dtype\":\"F8_E4M3\","
                       "\"later\":[{\"x\":[1]},2]},"
                       "\"scalar\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[10,14]},"
                       "\"none\":{\"dtype\":\"I64\",\"shape\":[4,0],\"data_offsets\":[10,10]}}  ",
                       "0123456789abcd"));
  ASSERT_EQ(header.tensors.size(), 4U);
  const int64_t start = 8 + header.tensors[0].begin - 8;
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].dtype, DType::f8_e4m3);
  EXPECT_EQ(header.tensors[0].shape, (Shape{3, 2}));
  EXPECT_EQ(header.tensors[0].end - start, 6);
  EXPECT_EQ(header.tensors[1].name, "权重.b");
  EXPECT_EQ(header.tensors[1].begin - start, 6);
  EXPECT_EQ(header.tensors[2].name, "none");
  EXPECT_EQ(header.tensors[2].shape, (Shape{4, 0}));
  EXPECT_EQ(header.tensors[3].name, "scalar");
  EXPECT_EQ(header.tensors[3].shape, Shape{});
  ASSERT_EQ(header.metadata.size(), 2U);
  EXPECT_EQ(header.metadata[0], (std::pair<std::string, std::string>("format", "pt")));
  EXPECT_EQ(header.metadata[1], (std::pair<std::string, std::string>("a\n", "值")));
}

TEST(SafetensorsHeader, AFileWithoutTensorsIsValid) {
  EXPECT_TRUE(parse(file_bytes("{}")).tensors.empty());
  EXPECT_TRUE(parse(file_bytes("{\"__metadata__\":{}}")).tensors.empty());
}

TEST(SafetensorsHeader, KnowsEveryDtypeOfTheFormat) {
  for (const auto& [name, bytes] : {std::pair("F64", 8),
                                    {"F32", 4},
                                    {"F16", 2},
                                    {"BF16", 2},
                                    {"F8_E4M3", 1},
                                    {"F8_E5M2", 1},
                                    {"F8_E8M0", 1},
                                    {"I64", 8},
                                    {"I32", 4},
                                    {"I16", 2},
                                    {"I8", 1},
                                    {"U64", 8},
                                    {"U32", 4},
                                    {"U16", 2},
                                    {"U8", 1},
                                    {"BOOL", 1}}) {
    const SafetensorsHeader header =
        parse(file_bytes(str_cat("{\"t\":{\"dtype\":\"", name, "\",\"shape\":[", 8 / bytes,
                                 "],\"data_offsets\":[0,8]}}"),
                         "12345678"));
    EXPECT_EQ(dtype_name(header.tensors.at(0).dtype), name);
  }
}

TEST(SafetensorsHeader, RefusesBadLengths) {
  EXPECT_EQ(refusal(""),
            "has 0 bytes, expected at least 8; not a safetensors file, or an empty download");
  EXPECT_EQ(refusal("1234567"),
            "has 7 bytes, expected at least 8; not a safetensors file, or an empty download");
  EXPECT_EQ(refusal(file_bytes("{}", "", 1)),
            "the header has 3 bytes, but only 2 follow its length; the file is truncated, download "
            "it again");
  EXPECT_EQ(refusal(file_bytes("{}", "", (int64_t{256} << 20) - 2)),
            "the header has 268435456 bytes, but only 2 follow its length; the file is truncated, "
            "download it again");
  EXPECT_EQ(refusal(file_bytes("{}", "", (int64_t{256} << 20) - 1)),
            "the header would have 268435457 bytes, expected at most 268435456; not a safetensors "
            "file");
  EXPECT_EQ(refusal(std::string(16, '\xff')),
            "the header would have 18446744073709551615 bytes, expected at most 268435456; not a "
            "safetensors file");
  // The caller's bytes are a prefix that is too short for the header.
  const std::string bytes = file_bytes("{\"__metadata__\":{}}");
  EXPECT_THROW(parse_safetensors_header(std::as_bytes(std::span(bytes).first(10)),
                                        static_cast<int64_t>(bytes.size()), "m"),
               Error);
}

TEST(SafetensorsHeader, RefusesTextThatIsNoHeader) {
  EXPECT_EQ(refusal(file_bytes("")), "the header does not start with '{'; not a safetensors file");
  EXPECT_EQ(refusal(file_bytes("[]")),
            "the header does not start with '{'; not a safetensors file");
  EXPECT_EQ(refusal(file_bytes(" {}")),
            "the header does not start with '{'; not a safetensors file");
  EXPECT_EQ(refusal(file_bytes("{")).substr(0, 31), "header: line 1: not valid JSON:");
  EXPECT_EQ(refusal(file_bytes("{} x")).substr(0, 31), "header: line 1: not valid JSON:");
  EXPECT_EQ(refusal(file_bytes("{\"\xff\":1}")).substr(0, 31), "header: line 1: not valid JSON:");
  EXPECT_EQ(refusal(file_bytes(std::string_view("{}\0", 3))),
            "header: line 1: not valid JSON: a zero byte");
  EXPECT_EQ(refusal(file_bytes("{\"t\":{\"x\":" + std::string(200'000, '['))),
            "header: line 1: nested deeper than 128 levels");
}

TEST(SafetensorsHeader, RefusesEntriesOfTheWrongKind) {
  EXPECT_EQ(refusal(file_bytes("{\"t\":3}")), "tensor 't' must be an object, found a number");
  EXPECT_EQ(refusal(file_bytes("{\"t\\n\":[]}")),
            "tensor 't\\x0a' must be an object, found an array");
  EXPECT_EQ(refusal(file_bytes("{\"__metadata__\":null}")),
            "__metadata__ must be an object of strings, found null");
  EXPECT_EQ(refusal(file_bytes("{\"__metadata__\":{\"a\":1}}")),
            "__metadata__: 'a' must be a string, found a number");
  EXPECT_EQ(refusal(file_bytes("{\"__metadata__\":{\"a\":{}}}")),
            "__metadata__: 'a' must be a string, found an object");
  EXPECT_EQ(tensor_refusal("\"dtype\":7"), "tensor 't': dtype must be a string, found a number");
  EXPECT_EQ(tensor_refusal("\"dtype\":[\"F32\"]"),
            "tensor 't': dtype must be a string, found an array");
  EXPECT_EQ(tensor_refusal("\"shape\":\"[2]\""),
            "tensor 't': shape must be an array of whole numbers, found a string");
  EXPECT_EQ(tensor_refusal("\"shape\":{}"),
            "tensor 't': shape must be an array of whole numbers, found an object");
  EXPECT_EQ(tensor_refusal("\"shape\":[[1]]"),
            "tensor 't': shape must be an array of whole numbers, found an array in it");
  EXPECT_EQ(tensor_refusal("\"data_offsets\":true"),
            "tensor 't': data_offsets must be an array of whole numbers, found a boolean");
  EXPECT_EQ(tensor_refusal("\"data_offsets\":[0,null]"),
            "tensor 't': data_offsets must be an array of whole numbers, found null in it");
}

TEST(SafetensorsHeader, RefusesMissingFieldsAndUnknownTypes) {
  EXPECT_EQ(tensor_refusal("\"shape\":[2],\"data_offsets\":[0,8]"), "tensor 't' has no dtype");
  EXPECT_EQ(tensor_refusal("\"dtype\":\"F32\",\"data_offsets\":[0,8]"), "tensor 't' has no shape");
  EXPECT_EQ(tensor_refusal("\"dtype\":\"F32\",\"shape\":[2]"), "tensor 't' has no data_offsets");
  EXPECT_EQ(tensor_refusal("\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,8]"),
            "tensor 't': dtype 'F4' is unknown, expected one such as BF16, F32, F8_E4M3 or I8");
}

TEST(SafetensorsHeader, RefusesBadShapes) {
  const auto shape = [](std::string_view text) {
    return tensor_refusal(str_cat("\"dtype\":\"F32\",\"shape\":", text, ",\"data_offsets\":[0,8]"));
  };
  EXPECT_EQ(shape("[-2]"), "tensor 't': shape holds '-2', expected whole numbers from 0 on");
  EXPECT_EQ(shape("[2.0]"), "tensor 't': shape holds '2.0', expected whole numbers from 0 on");
  EXPECT_EQ(shape("[9223372036854775808]"),
            "tensor 't': shape holds '9223372036854775808', expected whole numbers from 0 on");
  EXPECT_EQ(shape("[1,1,1,1,1,1,2]"), "tensor 't': shape has more than 6 dimensions");
  EXPECT_EQ(shape("[1,1,1,1,1,2]"), "no error");
  // 2^62 F32 elements: 2^64 bytes would wrap to 0.
  EXPECT_EQ(shape("[4611686018427387904]"),
            "tensor 't': shape [4611686018427387904] has more bytes than 64 bits can count");
  EXPECT_EQ(shape("[4294967296,4294967296,2]"),
            "tensor 't': shape [4294967296,4294967296,2] has more bytes than 64 bits can count");
  // A later 0 does not save a product that already overflowed.
  EXPECT_EQ(shape("[4294967296,4294967296,0]"),
            "tensor 't': shape [4294967296,4294967296,0] has more bytes than 64 bits can count");
  EXPECT_EQ(shape("[3]"), "tensor 't': shape [3] of F32 needs 12 bytes, data_offsets give 8");
  EXPECT_EQ(shape("[]"), "tensor 't': shape [] of F32 needs 4 bytes, data_offsets give 8");
}

TEST(SafetensorsHeader, RefusesBadOffsets) {
  const auto offsets = [](std::string_view text) {
    return tensor_refusal(str_cat("\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":", text));
  };
  EXPECT_EQ(offsets("[0,8]"), "no error");
  EXPECT_EQ(offsets("[8]"),
            "tensor 't': data_offsets are [8], expected [begin,end] with begin <= end");
  EXPECT_EQ(offsets("[8,0]"),
            "tensor 't': data_offsets are [8,0], expected [begin,end] with begin <= end");
  EXPECT_EQ(offsets("[0,8,8]"), "tensor 't': data_offsets has more than two numbers");
  EXPECT_EQ(offsets("[-8,0]"),
            "tensor 't': data_offsets holds '-8', expected whole numbers from 0 on");
  EXPECT_EQ(offsets("[0,1e1]"),
            "tensor 't': data_offsets holds '1e1', expected whole numbers from 0 on");
  EXPECT_EQ(
      offsets("[18446744073709551608,18446744073709551616]"),
      "tensor 't': data_offsets holds '18446744073709551608', expected whole numbers from 0 on");
  EXPECT_EQ(offsets("[1,9]"),
            "tensor 't' ends at data byte 9, but the file has only 8 data bytes; the file is "
            "truncated, download it again");
  EXPECT_EQ(offsets("[9223372036854775799,9223372036854775807]"),
            "tensor 't' ends at data byte 9223372036854775807, but the file has only 8 data bytes; "
            "the file is truncated, download it again");
}

// Tensors of bytes at the given ranges, over `data_bytes` of data.
std::string layout(const std::vector<std::pair<int, int>>& ranges, size_t data_bytes) {
  std::string header = "{";
  for (size_t i = 0; i < ranges.size(); ++i) {
    const auto [begin, end] = ranges[i];
    header += str_cat(i == 0 ? "" : ",", "\"", static_cast<char>('a' + i),
                      "\":{\"dtype\":\"U8\",\"shape\":[", end - begin, "],\"data_offsets\":[",
                      begin, ",", end, "]}");
  }
  return refusal(file_bytes(header + "}", std::string(data_bytes, 'x')));
}

TEST(SafetensorsHeader, TheTensorsMustTileTheData) {
  EXPECT_EQ(layout({{4, 8}, {0, 4}, {4, 4}, {8, 8}}, 8), "no error");
  EXPECT_EQ(layout({{0, 4}, {3, 8}}, 8),
            "tensor 'b' begins at data byte 3 and overlaps tensor 'a', which ends at 4");
  EXPECT_EQ(layout({{0, 8}, {0, 8}}, 8),
            "tensor 'b' begins at data byte 0 and overlaps tensor 'a', which ends at 8");
  EXPECT_EQ(layout({{0, 8}, {2, 4}}, 8),
            "tensor 'b' begins at data byte 2 and overlaps tensor 'a', which ends at 8");
  EXPECT_EQ(layout({{0, 8}, {4, 4}}, 8),
            "tensor 'b' begins at data byte 4 and overlaps tensor 'a', which ends at 8");
  EXPECT_EQ(layout({{0, 4}, {5, 8}}, 8),
            "data bytes 4 to 5 in front of tensor 'b' belong to no tensor");
  EXPECT_EQ(layout({{1, 8}}, 8), "data bytes 0 to 1 in front of tensor 'a' belong to no tensor");
  EXPECT_EQ(
      layout({{0, 4}}, 8),
      "the tensors end at data byte 4, but the file has 8 data bytes; what follows belongs to "
      "no tensor");
  EXPECT_EQ(
      layout({}, 1),
      "the tensors end at data byte 0, but the file has 1 data bytes; what follows belongs to "
      "no tensor");
  EXPECT_EQ(layout({{0, 4}, {4, 9}}, 8),
            "tensor 'b' ends at data byte 9, but the file has only 8 data bytes; the file is "
            "truncated, download it again");
}

TEST(SafetensorsHeader, RefusesDuplicates) {
  const std::string entry = "{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
  EXPECT_EQ(
      refusal(file_bytes(str_cat("{\"a\":", entry, ",\"b\":", entry, ",\"\\u0061\":", entry, "}"))),
      "tensor 'a' appears twice in the header");
  EXPECT_EQ(refusal(file_bytes("{\"__metadata__\":{},\"__metadata__\":{}}")),
            "__metadata__ appears twice in the header");
  EXPECT_EQ(refusal(file_bytes("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}")),
            "__metadata__: 'k' appears twice in the header");
  EXPECT_EQ(tensor_refusal("\"dtype\":\"U8\",\"shape\":[8],\"shape\":[8],\"data_offsets\":[0,8]"),
            "tensor 't': shape appears twice");
}

TEST(SafetensorsHeader, EveryTruncationIsRefused) {
  const std::string whole = file_bytes(
      "{\"__metadata__\":{\"k\":\"v\"},\"a\":{\"dtype\":\"U8\",\"shape\":[2,2],\"data_offsets\":[0,"
      "4]}}",
      "data");
  EXPECT_EQ(refusal(whole), "no error");
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_NE(refusal(std::string_view(whole).substr(0, bytes)), "no error") << bytes;
  }
}

TEST(SafetensorsFile, ViewsPointIntoTheMap) {
  std::string pattern = testing::TempDir() + "safetensors_XXXXXX";
  const std::string folder = ::mkdtemp(pattern.data());
  const std::string path = folder + "/m.safetensors";
  std::ofstream(path, std::ios::binary) << file_bytes(
      "{\"__metadata__\":{\"k\":\"v\"},\"b\":{\"dtype\":\"I8\",\"shape\":[3],"
      "\"data_offsets\":[2,5]},\"a\":{\"dtype\":\"BF16\",\"shape\":[1],"
      "\"data_offsets\":[0,2]}}",
      "12345");
  std::vector<SafetensorsFile> files;
  files.emplace_back(path);
  files.emplace_back(path);  // the first one moves
  const SafetensorsFile& file = files[0];
  ASSERT_NE(file.find("b"), nullptr);
  const TensorView view = file.view(*file.find("b"));
  EXPECT_EQ(std::memcmp(view.data, "345", 3), 0);
  EXPECT_EQ(view.data, file.file().bytes().data() + file.file().bytes().size() - 3);
  EXPECT_EQ(view.dtype, DType::i8);
  EXPECT_EQ(view.shape, Shape{3});
  EXPECT_EQ(file.find("c"), nullptr);
  ASSERT_NE(file.metadata_value("k"), nullptr);
  EXPECT_EQ(*file.metadata_value("k"), "v");
  EXPECT_EQ(file.metadata_value("x"), nullptr);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tessera::io
