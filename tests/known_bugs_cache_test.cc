// Known bugs of caches (docs/known-bugs.md, B41 to B49 and B11): what is kept belongs to exactly
// the tokens, pictures and tenant that it came from.
#include <algorithm>
#include <atomic>
#include <set>

#include "intake/decode.h"
#include "tests/known_bugs_test.h"
#include "tests/support/scripted_http_server.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {
namespace {

constexpr image::Size kSize = {240, 180};  // pixels

Request about(const std::vector<std::string>& files, const std::string& question,
              const std::string& before = "Look at this.") {
  std::vector<ContentBlock> parts = {text_block(before)};
  for (const std::string& file : files) {
    parts.push_back(inline_block(file));
  }
  parts.push_back(text_block(question));
  return ask(std::move(parts));
}

// Same size, so same ids; in turns, by both ways into the engine. The third differs from the first
// in its last square alone.
TEST(KnownBugCache, PicturesOfOneSizeInTurns) {
  const image::Image first = drawn_picture(kSize, 1);
  image::Image last_square = first.copy();
  for (int64_t y = kSize.height - 16; y < kSize.height; ++y) {
    std::fill_n(last_square.row(y) + (kSize.width - 16) * 3, 16 * 3, uint8_t{255});
  }
  const std::vector<std::string> files = {png_file(first), drawn_file(kSize, 2),
                                          png_file(last_square)};
  std::string before = "Look.";  // so long that the picture lies in two blocks of the cache
  for (int i = 0; i < 15; ++i) {
    before += " two red cats";
  }
  std::vector<Request> requests;
  std::vector<Result> expected;
  std::set<double> answers;
  for (const std::string& file : files) {
    requests.push_back(about({file}, "What does the image show?", before));
    expected.push_back(plain_result(requests.back()));
    answers.insert(first_logprob(expected.back()));
    EXPECT_EQ(expected.back().prompt_ids, expected.front().prompt_ids);
  }
  EXPECT_EQ(answers.size(), files.size());
  const std::unique_ptr<Engine> engine = Engine::open(keeping_options());
  const EncodedPrompt prompt = engine->encode(requests[0], ImageSpans::expand);
  const int64_t begin = prompt.spans[0].start;
  const int64_t end = begin + prompt.spans[0].length;
  EXPECT_LT(begin, 128);
  EXPECT_GT(end, 128);
  std::set<size_t> seen;
  for (const size_t i : {0U, 1U, 0U, 2U, 1U, 2U, 0U, 0U}) {
    const bool is_new = seen.insert(i).second;
    const Result got = seen.size() % 2 == 0 ? engine->generate(requests[i])
                                            : engine->submit(requests[i])->result();
    expect_same(got, expected[i], str_cat("picture ", i));
    if (is_new) {
      EXPECT_LE(got.cached_tokens, begin) << i;
    } else {
      EXPECT_GE(got.cached_tokens, end) << i;
    }
  }
}

// The same pictures in another order, or one of them twice.
TEST(KnownBugCache, PicturesThatChangePlaces) {
  const std::string a = drawn_file(kSize, 3);
  const std::string b = drawn_file(kSize, 4);
  const std::unique_ptr<Engine> engine = Engine::open(keeping_options());
  std::vector<Request> requests;
  std::vector<Result> expected;
  std::set<double> answers;
  for (const auto& [first, second] : {std::pair(a, b), {b, a}, {a, a}, {b, b}}) {
    requests.push_back(about({first, second}, "Compare."));
    expected.push_back(plain_result(requests.back()));
    answers.insert(first_logprob(expected.back()));
  }
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < requests.size(); ++i) {
      expect_same(engine->submit(requests[i])->result(), expected[i], str_cat("order ", i));
    }
  }
  EXPECT_EQ(answers.size(), 4U);
}

// A prompt that differs in one word takes from the cache at most what comes before that word.
TEST(KnownBugCache, NothingBehindTheFirstDifferenceIsTaken) {
  std::vector<std::string> words;
  for (int i = 0; i < 120; ++i) {
    words.push_back(i % 3 == 0 ? "red " : i % 3 == 1 ? "cat " : "two ");
  }
  const auto request_of = [](const std::vector<std::string>& all) {
    std::string text;
    for (const std::string& word : all) {
      text += word;
    }
    return ask({text_block(text)}, 2);
  };
  const std::unique_ptr<Engine> engine = Engine::open(keeping_options());
  const std::vector<int32_t> base = engine->submit(request_of(words))->result().prompt_ids;
  std::vector<std::vector<int32_t>> earlier = {base};
  int64_t taken = 0;
  for (size_t at = 0; at < words.size(); at += 39) {
    std::vector<std::string> changed = words;
    changed[at] = "carrot ";
    const Request request = request_of(changed);
    const Result got = engine->submit(request)->result();
    expect_same(got, plain_result(request), str_cat("word ", at));
    int64_t common = 0;
    for (const std::vector<int32_t>& ids : earlier) {
      const auto differ = std::ranges::mismatch(ids, got.prompt_ids);
      common = std::max<int64_t>(common, differ.in1 - ids.begin());
    }
    EXPECT_LE(got.cached_tokens, common) << at;
    taken += got.cached_tokens;
    earlier.push_back(got.prompt_ids);
  }
  EXPECT_GT(taken, 50);
}

// Names that would be one if they were joined to something without a border.
TEST(KnownBugCache, NoTenantFindsWhatAnotherLeft) {
  const std::unique_ptr<Engine> engine = Engine::open(keeping_options());
  Request request = about({drawn_file(kSize, 5)}, "What does the image show?");
  const Result want = plain_result(request);
  const std::vector<std::string> tenants = {"", "a", " a", "a ", std::string("a\0", 2)};
  for (const bool is_known : {false, true}) {
    for (const std::string& tenant : tenants) {
      request.tenant = tenant;
      const Result got = engine->submit(request)->result();
      expect_same(got, want, str_cat("tenant '", tenant, "'"));
      EXPECT_EQ(got.cached_tokens > 0, is_known) << "'" << tenant << "'";
      EXPECT_EQ(got.cached_pictures, 0) << "'" << tenant << "'";  // the state is behind it
    }
  }
}

// The same of the pictures alone: another question in front of them.
TEST(KnownBugCache, NoTenantFindsPicturesOfAnother) {
  EngineOptions options = keeping_options();
  options.prefix_cache_bytes = 0;
  const std::unique_ptr<Engine> engine = Engine::open(options);
  Request request = about({drawn_file(kSize, 5)}, "What does the image show?");
  for (const int64_t cached : {0, 1}) {
    for (const char* tenant : {"", "a", " a"}) {
      request.tenant = tenant;
      EXPECT_EQ(engine->submit(request)->result().cached_pictures, cached) << "'" << tenant << "'";
    }
  }
}

// A path or URL is no identity: it is read again for each request, and its bytes decide.
TEST(KnownBugCache, APathWhoseFileChanges) {
  const TempFolder folder;
  const std::string path = folder / "picture.png";
  const std::unique_ptr<Engine> engine = Engine::open(keeping_options());
  const Request request = ask({source_block(path), text_block("What does the image show?")});
  std::set<double> answers;
  for (const uint32_t seed : {6U, 7U, 6U}) {
    folder.write("picture.png", drawn_file(kSize, seed));
    const Result got = engine->submit(request)->result();
    expect_same(got, plain_result(request), str_cat("picture ", seed));
    answers.insert(first_logprob(got));
  }
  EXPECT_EQ(answers.size(), 2U);
}

TEST(KnownBugCache, AUrlWhosePictureChanges) {
  std::atomic<uint32_t> seed = 0;
  const ScriptedHttpServer server([&](ScriptedHttpServer::Connection& connection) {
    connection.answer("200 OK", "Cache-Control: max-age=3600\r\nETag: \"same\"\r\n",
                      drawn_file(kSize, seed));
  });
  EngineOptions options = keeping_options();
  options.pictures.fetch.is_enabled = true;
  options.pictures.fetch.allows_private_hosts = true;
  const std::unique_ptr<Engine> engine = Engine::open(options);
  const std::string question = "What does the image show?";
  for (const uint32_t now : {6U, 7U, 6U}) {
    seed = now;
    const Request request = ask({source_block(server.url("/picture.png")), text_block(question)});
    const Request same = ask({inline_block(drawn_file(kSize, now)), text_block(question)});
    expect_same(engine->submit(request)->result(), plain_result(same), str_cat("picture ", now));
  }
  EXPECT_EQ(server.connections(), 3);
}

// More pictures than any cache holds while requests wait for their turn: all of them end.
TEST(KnownBugCache, MorePicturesThanPlaces) {
  std::vector<Request> requests;
  std::vector<Result> expected;
  for (uint32_t i = 0; i < 4; ++i) {
    requests.push_back(about({drawn_file({300, 220}, 20 + i)}, "What does the image show?"));
    expected.push_back(plain_result(requests.back()));
  }
  EngineOptions options = keeping_options();
  options.picture_cache_bytes = 1 << 16;  // two of these pictures
  options.prefix_cache_bytes = 60'000;    // a state or two
  options.prefix_interval = 64;
  options.serving.max_running = 3;
  options.serving.cache_tokens = 300;
  const std::unique_ptr<Engine> engine = Engine::open(options);
  std::vector<std::shared_ptr<Ticket>> tickets;
  for (size_t i = 0; i < 2 * requests.size(); ++i) {
    tickets.push_back(engine->submit(requests[i * 3 % requests.size()]));
  }
  for (size_t i = 0; i < tickets.size(); ++i) {
    expect_same(tickets[i]->result(), expected[i * 3 % requests.size()], str_cat("request ", i));
  }
  EXPECT_EQ(engine->serving_statistics().unfinished, 0);
  EXPECT_GT(engine->serving_statistics().evicted_states, 0);
}

// An 8-bit BMP: the same indices with two palettes are two pictures.
std::string palette_file(image::Size size, uint32_t seed) {
  const auto number = [](int64_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) {
      out.push_back(static_cast<char>(value >> (8 * i)));
    }
    return out;
  };
  constexpr int64_t kColours = 4;
  constexpr int64_t kHead = 14 + 40 + 4 * kColours;
  std::string indices;
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x) {
      indices.push_back(static_cast<char>((x / 16 + y / 16) % kColours));
    }
  }
  std::mt19937 random(seed);
  std::string palette;
  for (int64_t i = 0; i < kColours; ++i) {
    palette += number(static_cast<int64_t>(random() & 0xffffffU), 4);
  }
  const int64_t pixels = static_cast<int64_t>(indices.size());
  return str_cat("BM", number(kHead + pixels, 4), number(0, 4), number(kHead, 4), number(40, 4),
                 number(size.width, 4), number(size.height, 4), number(1, 2), number(8, 2),
                 number(0, 4), number(pixels, 4), number(0, 8), number(kColours, 4), number(0, 4),
                 palette, indices);
}

TEST(KnownBugCache, PalettesBelongToAPicture) {
  const std::unique_ptr<Engine> engine = Engine::open(keeping_options());
  std::set<double> answers;
  for (const uint32_t seed : {1U, 2U, 1U}) {
    const Request request = about({palette_file(kSize, seed)}, "What does the image show?");
    const Result got = engine->submit(request)->result();
    expect_same(got, plain_result(request), str_cat("palette ", seed));
    answers.insert(first_logprob(got));
  }
  EXPECT_EQ(answers.size(), 2U);
}

// A picture and the same pixels in another format are one.
TEST(KnownBugCache, TheFormatIsNoPartOfAPicture) {
  const std::unique_ptr<Engine> engine = Engine::open(keeping_options());
  const std::string file = palette_file(kSize, 1);
  const intake::DecodeResult decoded = intake::try_decode_image(std::as_bytes(std::span(file)));
  const image::Image& pixels = std::get<intake::DecodedImage>(decoded).rgb;
  const Request bmp = about({file}, "What does the image show?");
  const Request png = about({png_file(pixels)}, "What does the image show?");
  const Result first = engine->submit(bmp)->result();
  const Result again = engine->submit(png)->result();
  expect_same(again, first, "as PNG");
  EXPECT_EQ(again.cached_tokens, again.prompt_tokens - 1);
}

}  // namespace
}  // namespace tessera::test
