// Where pictures come from, with the built program: files, data URLs, base64, http(s); what each
// way refuses, and that one picture is one picture whichever way it came.
#include <gtest/gtest.h>

#include <span>
#include <string>

#include "base/base64.h"
#include "base/str_cat.h"
#include "tests/support/demo.h"
#include "tests/support/scripted_http_server.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {
namespace {

using io::Json;

constexpr std::string_view kQuestion = "What does the image show?";

std::string base64(std::string_view text) { return to_base64(std::as_bytes(std::span(text))); }

// What the program says about a picture that stands in the demo's evaluation.
Json asked(const std::string& image, const Arguments& more = {}) {
  Arguments arguments = {"run", "--temperature", "0", "--image", image};
  arguments.insert(arguments.end(), more.begin(), more.end());
  arguments.push_back(std::string(kQuestion));
  return json_of(arguments);
}

ScriptedHttpServer::Script picture_script(const std::string& bytes) {
  return [bytes](ScriptedHttpServer::Connection& connection) {
    if (connection.path() == "/cat.jpg") {
      connection.answer("200 OK", "Content-Type: text/plain\r\n", bytes);
    } else if (connection.path() == "/moved") {
      connection.answer("302 Found", "Location: /cat.jpg\r\n", "");
    } else if (connection.path() == "/broken") {
      connection.answer("500 No", "", "");
    } else {
      connection.answer("404 Not Found", "", "nothing here");
    }
  };
}

class PictureSources : public testing::Test {
 protected:
  const std::string file_ = picture("p019.jpg");
  const std::string bytes_ = read_bytes(file_);
};

TEST_F(PictureSources, OnePictureWhicheverWayItComes) {
  const Json want = asked(file_);
  const ScriptedHttpServer server(picture_script(bytes_));
  const std::string url = "data:image/png;base64," + base64(bytes_);  // the type does not count
  for (const std::string& source : {url, server.url("/cat.jpg"), server.url("/moved")}) {
    const Json got = asked(source, {"--allow-private-hosts"});
    EXPECT_EQ(integers_of(got, "ids"), integers_of(want, "ids")) << source.substr(0, 40);
    EXPECT_EQ(integer_of(got, "prompt_tokens"), integer_of(want, "prompt_tokens"));
  }
}

// Both forms in which requests carry base64.
TEST_F(PictureSources, Base64InAConversation) {
  const Json want = asked(file_);
  const TempFolder folder;
  const std::string data = base64(bytes_);
  const std::string text = str_cat(R"({"type": "text", "text": ")", kQuestion, R"("}])");
  const std::string chat =
      str_cat(R"({"model": "demo", "messages": [{"role": "user", "content": [)",
              R"({"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,)", data,
              R"("}}, )", text, "}]}");
  const Json got =
      json_of({"run", "--temperature", "0", "--input", folder.write("chat.json", chat)});
  EXPECT_EQ(integers_of(got, "ids"), integers_of(want, "ids"));
}

TEST_F(PictureSources, AddressesOfThisMachineAreNotFetched) {
  const ScriptedHttpServer server(picture_script(bytes_));
  expect_error(run_program({"run", "--image", server.url("/cat.jpg"), std::string(kQuestion)}), 2,
               {"image 0: blocked: "});
  expect_error(run_program({"run", "--no-fetch", "--image", server.url("/cat.jpg"), "x"}), 2,
               {"image 0: disabled: "});
  expect_error(run_program({"run", "--fetch-hosts", "pictures.example", "--allow-private-hosts",
                            "--image", server.url("/cat.jpg"), "x"}),
               2, {"image 0: blocked: "});
  EXPECT_EQ(server.connections(), 0);
}

// Whose fault it is: 2 for what the user can mend, 3 for the far side.
TEST_F(PictureSources, FailuresOfAServer) {
  const ScriptedHttpServer server(picture_script(bytes_));
  const auto run = [&](std::string_view path) {
    return run_program({"run", "--allow-private-hosts", "--image", file_, "--image",
                        server.url(path), std::string(kQuestion)});
  };
  expect_error(run("/nothing"), 2, {"image 1: denied: ", "404"});
  expect_error(run("/broken"), 3, {"image 1: far_error: ", "500"});
}

TEST_F(PictureSources, DamagedInlineDataIsNamedByItsPlace) {
  expect_error(
      run_program({"run", "--image", file_, "--image", "data:image/png;base64,iVBOR!", "x"}), 2,
      {"image 1: corrupt: "});
  expect_error(run_program({"run", "--image", "data:image/png;base64,PGh0bWw+", "x"}), 2,
               {"image 0: unrecognised: ", "HTML"});
}

// What policies show differently is said, with what to do about it; --quiet does not hide it.
TEST_F(PictureSources, NoticesAboutAPicture) {
  const std::string transparent = golden_path("image/files/png_rgba8.png");
  const ProgramResult said = run_program({"run", "--image", transparent, std::string(kQuestion)});
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_TRUE(said.err.starts_with("tessera: warning: ")) << said.err;
  EXPECT_NE(said.err.find("transparent"), std::string::npos);
  const std::string turned = golden_path("image/files/jpeg_exif_o6.jpg");
  EXPECT_NE(run_program({"run", "--image", turned, std::string(kQuestion)}).err.find("EXIF"),
            std::string::npos);
  EXPECT_EQ(run_program({"run", "--exif-rotate", "--image", turned, std::string(kQuestion)}).err,
            "");
}

// A policy reaches the pixels: other prompt lengths or other answers would be no proof, so the
// plan's own hashes are compared.
TEST_F(PictureSources, PoliciesAndDetail) {
  const std::string file = golden_path("image/files/jpeg_big.jpg");
  const auto canvas = [&](const Arguments& more) {
    Arguments arguments = {"image", "plan", file};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return text_of(json_of(arguments), "canvas_sha256");
  };
  const std::string reference = canvas({});
  const std::string recipe = canvas({"--policy", "recipe"});
  EXPECT_NE(recipe, reference);
  EXPECT_NE(canvas({"--policy", "hf-fast"}), reference);
  EXPECT_NE(canvas({"--policy", "recipe", "--detail", "low"}), recipe);
  EXPECT_EQ(canvas({"--detail", "low"}), reference);
  expect_error(run_program({"image", "plan", file, "--policy", "pil"}), 2,
               {"'pil'", "reference, recipe, hf-fast, hf-slow"});
  expect_error(run_program({"image", "plan", file, "--detail", "huge"}), 2, {"--detail huge"});
  expect_error(run_program({"run", "--image", file, "--policy", "recipe", "--pillow", "12", "x"}),
               2, {"--pillow 12"});
}

// The recipe does not read what DeepSeek's API does not take.
TEST_F(PictureSources, FormatsOfAPolicy) {
  const std::string bmp = golden_path("image/files/bmp_24.bmp");
  EXPECT_EQ(run_program({"run", "--image", bmp, std::string(kQuestion)}).status, 0);
  expect_error(run_program({"run", "--policy", "recipe", "--image", bmp, "x"}), 2,
               {"unsupported: ", "recipe"});
}

}  // namespace
}  // namespace tessera::test
