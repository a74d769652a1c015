#include "base/output_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"

namespace tessera {
namespace {

class OutputFileTest : public testing::Test {
 protected:
  OutputFileTest() {
    std::string pattern = testing::TempDir() + "output_file_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~OutputFileTest() override { std::filesystem::remove_all(folder_); }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  std::string folder_;
};

using Names = std::vector<std::string>;

std::string content(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string refusal(const std::string& path) {
  try {
    const OutputFile file(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_request);
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos);
    return message;
  }
  return "no error";
}

TEST_F(OutputFileTest, AppearsOnCommitOnly) {
  const std::string path = folder_ + "/结果.json";
  OutputFile file(path);
  file.write("one ");
  file.write("two");
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_EQ(names().size(), 1U);  // the temporary, in the same folder
  EXPECT_TRUE(names()[0].ends_with(".tmp"));
  file.commit();
  EXPECT_EQ(content(path), "one two");
  EXPECT_EQ(names(), Names{"结果.json"});
}

TEST_F(OutputFileTest, ReplacesAnOldFileAtOnce) {
  const std::string path = folder_ + "/a";
  std::ofstream(path) << "old";
  OutputFile file(path);
  file.write("new");
  EXPECT_EQ(content(path), "old");
  file.commit();
  EXPECT_EQ(content(path), "new");
}

TEST_F(OutputFileTest, WithoutCommitNothingStays) {
  {
    OutputFile file(folder_ + "/a");
    file.write("half");
  }
  EXPECT_EQ(names(), Names{});
  try {
    OutputFile file(folder_ + "/a");
    file.write("half");
    throw Error(ErrorCode::cancelled, "stopped");
  } catch (const Error&) {
  }
  EXPECT_EQ(names(), Names{});
}

TEST_F(OutputFileTest, WritesOfEverySizeKeepTheirOrder) {
  OutputFile file(folder_ + "/a");
  std::string expected;
  for (size_t bytes = 1; bytes < 2'000'000; bytes = bytes * 3 + 1) {
    const std::string piece(bytes, static_cast<char>('a' + expected.size() % 26));
    file.write(piece);
    expected += piece;
  }
  file.commit();
  EXPECT_EQ(content(folder_ + "/a"), expected);
}

TEST_F(OutputFileTest, WriteAtReplacesBytesAndKeepsTheEnd) {
  OutputFile file(folder_ + "/a");
  file.write("0123456789");
  const std::string patch = "AB";
  file.write_at(2, std::as_bytes(std::span(patch)));
  file.write("X");
  file.write_at(12, std::as_bytes(std::span(patch)));
  file.commit();
  EXPECT_EQ(content(folder_ + "/a"), std::string("01AB456789X\0AB", 14));
}

TEST_F(OutputFileTest, TheModeFollowsTheUmask) {
  const mode_t before = ::umask(027);
  OutputFile file(folder_ + "/a");
  ::umask(before);
  file.commit();
  struct stat status {};
  ASSERT_EQ(::stat((folder_ + "/a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0640U);
}

TEST_F(OutputFileTest, TwoWritersOfOnePathDoNotMeet) {
  OutputFile first(folder_ + "/a");
  OutputFile second(folder_ + "/a");
  first.write("first");
  second.write("second");
  second.commit();
  EXPECT_EQ(content(folder_ + "/a"), "second");
  first.commit();
  EXPECT_EQ(content(folder_ + "/a"), "first");
  EXPECT_EQ(names(), Names{"a"});
}

TEST_F(OutputFileTest, ALinkKeepsPointingAtItsFile) {
  std::filesystem::create_directory(folder_ + "/real");
  std::ofstream(folder_ + "/real/file") << "old";
  std::filesystem::create_symlink("real/file", folder_ + "/link");
  OutputFile file(folder_ + "/link");
  file.write("new");
  file.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ + "/link"));
  EXPECT_EQ(content(folder_ + "/real/file"), "new");
}

TEST_F(OutputFileTest, ANameOfTheGreatestLengthWorks) {
  const std::string name = std::string(252, 'n') + "图";  // 255 bytes
  OutputFile file(folder_ + "/" + name);
  file.commit();
  EXPECT_EQ(names(), Names{name});
}

TEST_F(OutputFileTest, EachRefusalSaysWhatToDo) {
  EXPECT_EQ(refusal(""), "an output file name is needed, found an empty one");
  EXPECT_EQ(refusal(folder_), folder_ +
                                  ": is a folder, expected a name for the output file; add a file "
                                  "name");
  EXPECT_EQ(refusal(folder_ + "/none/a"),
            folder_ + "/none/a: the folder " + folder_ + "/none does not exist; make it first");
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(refusal(pipe),
            pipe + ": is a device, pipe or socket, expected a regular file; choose another name");
  const std::string long_path = folder_ + "/" + std::string(256, 'x');
  EXPECT_EQ(refusal(long_path).substr(long_path.size()),
            ": the path is too long for this system; choose a shorter one");
  EXPECT_EQ(names(), Names{"pipe"});
}

TEST_F(OutputFileTest, AFolderWithoutPermissionIsSaid) {
  ASSERT_EQ(::chmod(folder_.c_str(), 0555), 0);
  // Root may write everywhere, so the attempt is made by another user in a child process.
  const auto attempt = [&] {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) {
      _exit(9);
    }
    std::fprintf(stderr, "%s\n", refusal(folder_ + "/a").c_str());
    _exit(2);
  };
  EXPECT_EXIT(attempt(), testing::ExitedWithCode(2), "no permission to write into the folder");
}

// A process limit on file sizes stands for a full disk: the kernel refuses the write either way.
void write_beyond_the_limit(const std::string& path, bool in_small_pieces) {
  std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit limit = {1 << 20, 1 << 20};
  setrlimit(RLIMIT_FSIZE, &limit);
  try {
    OutputFile file(path);
    if (in_small_pieces) {
      for (int i = 0; i < 300'000; ++i) {
        file.write("12345678");
      }
    } else {
      file.write(std::string(2 << 20, 'x'));
    }
    file.commit();
  } catch (const Error& error) {
    const auto folder = std::filesystem::path(path).parent_path();
    const bool is_empty = std::filesystem::is_empty(folder);
    std::fprintf(stderr, "%s|%s\n", error.what(), is_empty ? "clean" : "left over");
    _exit(exit_status(error.code()));
  }
  _exit(0);
}

TEST_F(OutputFileTest, ARefusedWriteIsAnIoErrorAndLeavesNothing) {
  const std::string expected = "/a: cannot write: the file would be larger .*\\|clean";
  EXPECT_EXIT(write_beyond_the_limit(folder_ + "/a", false), testing::ExitedWithCode(3), expected);
  EXPECT_EXIT(write_beyond_the_limit(folder_ + "/a", true), testing::ExitedWithCode(3), expected);
}

TEST_F(OutputFileTest, BytesOfATruncatedMapAreNamedAsSuch) {
  const std::string source = folder_ + "/source";
  std::ofstream(source) << std::string(1 << 20, 'x');
  const MappedFile map(source);
  std::filesystem::resize_file(source, 0);
  OutputFile file(folder_ + "/a");
  try {
    file.write(map.bytes());
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_NE(std::string(error.what()).find("was their source file truncated?"),
              std::string::npos);
  }
  EXPECT_EQ(names(), Names{"source"});
}

TEST_F(OutputFileTest, ATargetThatBecameAFolderIsAnIoError) {
  OutputFile file(folder_ + "/a");
  file.write("x");
  std::filesystem::create_directory(folder_ + "/a");
  try {
    file.commit();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
  }
  EXPECT_EQ(names(), Names{"a"});
}

}  // namespace
}  // namespace tessera
