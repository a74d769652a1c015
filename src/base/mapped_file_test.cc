#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/error.h"
#include "base/str_cat.h"

namespace tessera {
namespace {

class MappedFileTest : public testing::Test {
 protected:
  MappedFileTest() {
    std::string pattern = testing::TempDir() + "mapped_file_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~MappedFileTest() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, std::string_view content) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  std::string folder_;
};

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// The message of the Error{bad_file} that mapping `path` throws, without the leading path.
std::string refusal(const std::string& path) {
  try {
    const MappedFile file(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    const std::string message = error.what();
    EXPECT_EQ(message.substr(0, path.size() + 2), path + ": ");
    EXPECT_EQ(message.find('\n'), std::string::npos);
    return message.substr(std::min(message.size(), path.size() + 2));
  }
  return "no error";
}

TEST_F(MappedFileTest, MapsTheWholeFile) {
  const MappedFile file(write("a", "看 tessera"));
  EXPECT_EQ(text_of(file), "看 tessera");
  EXPECT_EQ(file.path(), folder_ + "/a");
}

TEST_F(MappedFileTest, AnEmptyFileHasNoBytes) {
  const MappedFile file(write("empty", ""));
  EXPECT_TRUE(file.bytes().empty());
  EXPECT_TRUE(file.is_unchanged());
}

TEST_F(MappedFileTest, ASparseFileBeyond4GiBIsReadAt64BitOffsets) {
  const std::string path = write("large", "");
  const int64_t bytes = (int64_t{5} << 30) + 3;
  std::filesystem::resize_file(path, static_cast<uintmax_t>(bytes));
  std::fstream stream(path, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekp(bytes - 3);
  stream << "end";
  stream.close();
  const MappedFile file(path);
  ASSERT_EQ(static_cast<int64_t>(file.bytes().size()), bytes);
  EXPECT_EQ(file.bytes()[static_cast<size_t>(bytes) - 3], std::byte{'e'});
  EXPECT_EQ(file.bytes()[static_cast<size_t>(int64_t{4} << 30)], std::byte{0});
}

TEST_F(MappedFileTest, FollowsLinks) {
  write("blob", "content");
  std::filesystem::create_symlink("blob", folder_ + "/link");
  EXPECT_EQ(text_of(MappedFile(folder_ + "/link")), "content");
}

TEST_F(MappedFileTest, MovingKeepsTheBytes) {
  MappedFile first(write("a", "first"));
  MappedFile second(write("b", "second"));
  const std::byte* data = first.bytes().data();
  second = std::move(first);
  EXPECT_EQ(second.bytes().data(), data);
  EXPECT_EQ(text_of(second), "first");
  const MappedFile third(std::move(second));
  EXPECT_EQ(text_of(third), "first");
  EXPECT_EQ(third.path(), folder_ + "/a");
}

TEST_F(MappedFileTest, EachRefusalSaysWhatToDo) {
  EXPECT_EQ(refusal(folder_ + "/none"), "no such file; check the path");
  EXPECT_EQ(refusal(""), "a file name is needed, found an empty one");
  EXPECT_EQ(refusal(folder_), "is a folder, expected a file");
  write("file", "x");
  EXPECT_EQ(refusal(folder_ + "/file/x"),
            "a part of the path is a file where a folder is expected; check the path");
  std::filesystem::create_symlink("gone", folder_ + "/broken");
  EXPECT_EQ(refusal(folder_ + "/broken"),
            "is a link whose target does not exist; download or copy the file again");
  std::filesystem::create_symlink("circle", folder_ + "/circle");
  EXPECT_EQ(refusal(folder_ + "/circle"), "the links of this path go in a circle; check them");
  EXPECT_EQ(refusal(folder_ + "/" + std::string(300, 'x')), "the path is too long for this system");
  EXPECT_EQ(refusal("/dev/null"),
            "is not a regular file (a device, pipe or socket); copy its content to a file");
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(refusal(pipe),
            "is not a regular file (a device, pipe or socket); copy its content to a file");
}

TEST_F(MappedFileTest, NoPermissionIsSaid) {
  const std::string path = write("secret", "x");
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  // Root may read everything, so the attempt is made by another user in a child process.
  const auto attempt = [&] {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) {
      _exit(9);
    }
    try {
      const MappedFile file(path);
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      _exit(exit_status(error.code()));
    }
    _exit(0);
  };
  EXPECT_EXIT(attempt(), testing::ExitedWithCode(2), "no permission to read this file");
}

TEST_F(MappedFileTest, AnLfsPointerIsNamedAsSuch) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:"
      "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";
  EXPECT_EQ(refusal(write("model.safetensors", pointer)),
            "is a Git LFS pointer, not the file itself; run `git lfs pull` in its folder");
  EXPECT_EQ(text_of(MappedFile(write("other", "version https://git"))), "version https://git");
  // Pointers are short: a longer file that starts alike is a file.
  EXPECT_EQ(MappedFile(write("long", pointer + std::string(2000, ' '))).bytes().size(),
            pointer.size() + 2000);
}

TEST_F(MappedFileTest, SeesChangesOnDisk) {
  const std::string path = write("a", "12345678");
  const MappedFile file(path);
  EXPECT_TRUE(file.is_unchanged());
  std::filesystem::last_write_time(
      path, std::filesystem::last_write_time(path) - std::chrono::nanoseconds(1000));
  EXPECT_FALSE(file.is_unchanged());
  const MappedFile again(path);
  EXPECT_TRUE(again.is_unchanged());
  write("a", "123456789");
  EXPECT_FALSE(again.is_unchanged());
  std::filesystem::remove(path);
  EXPECT_FALSE(again.is_unchanged());
}

// The byte at `offset`, read in a way that the compiler keeps.
int read_byte(const MappedFile& file, size_t offset) {
  const volatile std::byte* data = file.bytes().data();
  return static_cast<int>(data[offset]);
}

using MapFaultDeathTest = MappedFileTest;

TEST_F(MapFaultDeathTest, ATruncatedFileEndsTheProcessWithItsName) {
  const std::string path = write("shard.safetensors", std::string(1 << 20, 'x'));
  const std::string other = write("other.safetensors", std::string(1 << 20, 'y'));
  const auto use = [&] {
    install_map_fault_handler();
    const MappedFile intact(other);
    const MappedFile file(path);
    std::filesystem::resize_file(path, 100);
    _exit(read_byte(file, (1 << 20) - 1) + read_byte(intact, 0));
  };
  EXPECT_EXIT(
      use(), testing::ExitedWithCode(3),
      str_cat("^tessera: ", path, ": the file was truncated or could not be read while in use\n$"));
}

TEST_F(MapFaultDeathTest, TheEndOfALongPathIsShown) {
  std::string path = folder_;
  for (int i = 0; i < 4; ++i) {
    path += "/" + std::string(200, static_cast<char>('a' + i));
    std::filesystem::create_directory(path);
  }
  path += "/shard";
  std::ofstream(path) << std::string(8192, 'x');
  const auto use = [&] {
    install_map_fault_handler();
    const MappedFile file(path);
    std::filesystem::resize_file(path, 0);
    _exit(read_byte(file, 0));
  };
  EXPECT_EXIT(use(), testing::ExitedWithCode(3),
              "^tessera: \\.\\.\\.b+/c+/d+/shard: the file was truncated");
}

TEST_F(MapFaultDeathTest, AMapThatIsGoneIsNotBlamed) {
  const std::string path = write("a", "x");
  const auto use = [&] {
    install_map_fault_handler();
    { const MappedFile file(path); }
    raise(SIGBUS);
    _exit(0);
  };
  EXPECT_EXIT(use(), testing::KilledBySignal(SIGBUS), "^$");
}

TEST_F(MapFaultDeathTest, MoreMapsThanTheTableHoldsStillWork) {
  const std::string path = write("a", "x");
  std::vector<MappedFile> files;
  for (int i = 0; i < 1100; ++i) {
    files.emplace_back(path);
  }
  EXPECT_EQ(read_byte(files.back(), 0), 'x');
  files.clear();
  const auto use = [&] {  // all entries are free again
    install_map_fault_handler();
    const MappedFile file(write("b", std::string(8192, 'x')));
    std::filesystem::resize_file(file.path(), 0);
    _exit(read_byte(file, 0));
  };
  EXPECT_EXIT(use(), testing::ExitedWithCode(3), "/b: the file was truncated");
}

}  // namespace
}  // namespace tessera
