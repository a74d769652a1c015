#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "base/str_cat.h"
#include "io/safetensors.h"

namespace tessera::io {
namespace {

class SafetensorsWriterTest : public testing::Test {
 protected:
  SafetensorsWriterTest() {
    std::string pattern = testing::TempDir() + "writer_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    path_ = folder_ + "/out.safetensors";
  }
  ~SafetensorsWriterTest() override { std::filesystem::remove_all(folder_); }

  bool is_empty() const { return std::filesystem::is_empty(folder_); }

  std::string folder_;
  std::string path_;
};

TEST_F(SafetensorsWriterTest, TheReaderReadsBackEveryDtype) {
  std::vector<std::byte> data(96);
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<std::byte>(i * 37 + 1);
  }
  const DType dtypes[] = {DType::u8,      DType::f32,     DType::f8_e4m3, DType::bf16,
                          DType::f8_e8m0, DType::i32,     DType::f8_e5m2, DType::i64,
                          DType::f64,     DType::boolean, DType::f16,     DType::i8};
  SafetensorsWriter writer(path_);
  for (const DType dtype : dtypes) {
    writer.add(str_cat("层.", dtype_name(dtype)), {data.data(), dtype, Shape{3, 4}});
  }
  writer.add("scalar", {data.data(), DType::f32, Shape{}});
  writer.add("nothing", {nullptr, DType::f32, Shape{0, 7}});
  writer.commit();

  const SafetensorsFile file(path_);
  ASSERT_EQ(file.tensors().size(), std::size(dtypes) + 2);
  EXPECT_EQ(file.tensors()[0].begin % 8, 0);
  for (size_t i = 0; i < std::size(dtypes); ++i) {
    const TensorEntry& entry = file.tensors()[i];
    EXPECT_EQ(entry.name, str_cat("层.", dtype_name(dtypes[i])));  // in the order of add()
    EXPECT_EQ(entry.dtype, dtypes[i]);
    EXPECT_EQ(entry.shape, (Shape{3, 4}));
    EXPECT_EQ(std::memcmp(file.view(entry).data, data.data(),
                          static_cast<size_t>(file.view(entry).bytes())),
              0);
  }
  EXPECT_EQ(file.find("scalar")->shape, Shape{});
  EXPECT_EQ(file.find("nothing")->shape, (Shape{0, 7}));
}

TEST_F(SafetensorsWriterTest, NamesAndMetadataAreEscaped) {
  SafetensorsWriter writer(path_);
  const float value = 1.5f;
  writer.add("a\"\\\n图", view_of(&value, Shape{1}));
  writer.set_metadata("key \"1\"", "old");
  writer.set_metadata("key \"1\"", "{\"json\": \"值\\n\"}\x01");
  writer.set_metadata("a", "");
  writer.commit();
  const SafetensorsFile file(path_);
  EXPECT_NE(file.find("a\"\\\n图"), nullptr);
  ASSERT_EQ(file.metadata().size(), 2U);
  EXPECT_EQ(file.metadata()[0].first, "a");
  EXPECT_EQ(*file.metadata_value("key \"1\""), "{\"json\": \"值\\n\"}\x01");
}

TEST_F(SafetensorsWriterTest, TheSameCallsGiveTheSameBytes) {
  const auto write = [](const std::string& path) {
    SafetensorsWriter writer(path, 4096);
    const int32_t values[] = {1, 2, 3};
    writer.add("z", view_of(values, Shape{3}));
    writer.add("a", view_of(values, Shape{2}));
    writer.set_metadata("k", "v");
    writer.commit();
    const MappedFile file(path);
    return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  };
  const std::string bytes = write(path_);
  EXPECT_EQ(write(folder_ + "/again"), bytes);
  EXPECT_EQ(bytes.size(), 4096U + 20U);
  EXPECT_EQ(bytes.substr(8, 24), "{\"__metadata__\":{\"k\":\"v\"");
}

TEST_F(SafetensorsWriterTest, AFileWithoutTensorsIsValid) {
  SafetensorsWriter writer(path_, 0);
  writer.commit();
  EXPECT_TRUE(SafetensorsFile(path_).tensors().empty());
}

TEST_F(SafetensorsWriterTest, LargeTensorsAreWrittenWhole) {
  std::vector<float> values(1'000'003);
  std::iota(values.begin(), values.end(), 0.0f);
  SafetensorsWriter writer(path_);
  for (int i = 0; i < 3; ++i) {
    writer.add(str_cat(i), view_of(values.data() + i, Shape{1'000'000}));
  }
  writer.commit();
  const SafetensorsFile file(path_);
  EXPECT_EQ(std::memcmp(file.view(*file.find("2")).data, values.data() + 2, 4'000'000), 0);
}

TEST_F(SafetensorsWriterTest, RefusesNamesThatTheFormatCannotHold) {
  SafetensorsWriter writer(path_);
  const float value = 0.0f;
  writer.add("a", view_of(&value, Shape{1}));
  EXPECT_TRUE(writer.contains("a"));
  EXPECT_FALSE(writer.contains("b"));
  const auto refusal = [&](std::string_view name) -> std::string {
    try {
      writer.add(name, view_of(&value, Shape{1}));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_request);
      return std::string(error.what()).substr(path_.size());
    }
    return "no error";
  };
  EXPECT_EQ(refusal("a"), ": cannot write a tensor named 'a': it is already in the file");
  EXPECT_EQ(refusal("__metadata__"),
            ": cannot write a tensor named '__metadata__': the format does not allow this name");
  EXPECT_EQ(refusal("\xff"),
            ": cannot write a tensor named '\\xff': the format does not allow this name");
  EXPECT_THROW(writer.set_metadata("k", "\xff"), Error);
  writer.commit();
  EXPECT_EQ(SafetensorsFile(path_).tensors().size(), 1U);
}

TEST_F(SafetensorsWriterTest, AHeaderThatDoesNotFitIsRefused) {
  {
    SafetensorsWriter writer(path_, 64);
    const float value = 0.0f;
    writer.add("a_rather_long_name", view_of(&value, Shape{1}));
    try {
      writer.commit();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_request);
      EXPECT_EQ(std::string(error.what()).substr(path_.size()),
                ": the header of 1 tensors needs 71 bytes, but 56 were reserved; write fewer "
                "tensors or less metadata");
    }
  }
  EXPECT_TRUE(is_empty());
}

TEST_F(SafetensorsWriterTest, WithoutCommitNothingStays) {
  {
    SafetensorsWriter writer(path_);
    const float value = 0.0f;
    writer.add("a", view_of(&value, Shape{1}));
  }
  EXPECT_TRUE(is_empty());
}

}  // namespace
}  // namespace tessera::io
