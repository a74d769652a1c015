// What the tests of known bugs share (docs/known-bugs.md): pictures that nobody else has, requests
// about them, an engine that keeps nothing between requests and options of one that keeps all.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "base/str_cat.h"
#include "intake/png_encode.h"
#include "runtime/engine.h"

namespace tessera::test {

// Squares of random colours: another seed gives another picture of the same size.
inline image::Image drawn_picture(image::Size size, uint32_t seed) {
  constexpr int64_t kSquare = 16;  // pixels
  const int64_t columns = size.width / kSquare + 1;
  std::mt19937 random(seed);
  std::vector<image::Rgb> colours(static_cast<size_t>(columns * (size.height / kSquare + 1)));
  for (image::Rgb& colour : colours) {
    const uint32_t bits = static_cast<uint32_t>(random());
    colour = {static_cast<uint8_t>(bits), static_cast<uint8_t>(bits >> 8),
              static_cast<uint8_t>(bits >> 16)};
  }
  image::Image picture(size);
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x) {
      const image::Rgb& colour = colours[static_cast<size_t>(y / kSquare * columns + x / kSquare)];
      std::memcpy(picture.row(y) + x * image::Image::kChannels, &colour, sizeof(colour));
    }
  }
  return picture;
}

inline std::string png_file(const image::Image& picture) {
  const std::vector<std::byte> png = intake::encode_png(picture);
  return {reinterpret_cast<const char*>(png.data()), png.size()};
}
inline std::string drawn_file(image::Size size, uint32_t seed) {
  return png_file(drawn_picture(size, seed));
}

inline ContentBlock text_block(std::string text) {
  ContentBlock block;
  block.text = std::move(text);
  return block;
}

// A picture by its file's bytes, or by its path or URL.
inline ContentBlock inline_block(std::string_view file) {
  ContentBlock block;
  block.kind = ContentBlock::Kind::image;
  block.image.kind = ImageSource::Kind::base64;
  block.image.value = to_base64(std::as_bytes(std::span(file)));
  return block;
}
inline ContentBlock source_block(std::string place) {
  ContentBlock block;
  block.kind = ContentBlock::Kind::image;
  block.image.value = std::move(place);
  return block;
}

// One turn of the user with these parts; a short greedy answer with its probabilities. What hangs
// ends as late.
inline Request ask(std::vector<ContentBlock> parts, int64_t tokens = 3) {
  Request request;
  request.messages.emplace_back().content = std::move(parts);
  request.is_thinking = false;
  request.sampling.temperature = 0;
  request.max_tokens = tokens;
  request.ignores_eos = true;
  request.logprobs = 2;
  request.deadline = std::chrono::minutes(10);
  return request;
}

inline EngineOptions plain_options() {
  EngineOptions options;
  options.model = TESSERA_SOURCE_DIR "/models/demo";
  options.threads = 1;
  options.context = 2048;
  return options;
}

// States and pictures stay between requests; states every few tokens, also inside of pictures.
inline EngineOptions keeping_options() {
  EngineOptions options = plain_options();
  options.step_rows = 64;
  options.prefix_cache_bytes = 64 << 20;
  options.prefix_interval = 16;
  options.picture_cache_bytes = 4 << 20;
  return options;
}

// What the request gets alone and anew.
inline Result plain_result(const Request& request) {
  static const std::unique_ptr<Engine> engine = Engine::open(plain_options());
  return engine->generate(request);
}

// Equal to the last bit.
inline void expect_same(const Result& got, const Result& want, const std::string& name) {
  SCOPED_TRACE(name);
  EXPECT_EQ(got.prompt_ids, want.prompt_ids);
  EXPECT_EQ(got.span_tokens, want.span_tokens);
  EXPECT_FALSE(got.is_cancelled);
  ASSERT_EQ(got.choices.size(), want.choices.size());
  for (size_t i = 0; i < want.choices.size(); ++i) {
    const Choice& a = got.choices[i];
    const Choice& b = want.choices[i];
    ASSERT_EQ(a.ids, b.ids) << "answer " << i;
    EXPECT_EQ(a.finish_reason, b.finish_reason);
    ASSERT_EQ(a.logprobs.size(), b.logprobs.size());
    for (size_t k = 0; k < b.logprobs.size(); ++k) {
      ASSERT_EQ(a.logprobs[k].token.logprob, b.logprobs[k].token.logprob)
          << "answer " << i << ", token " << k;
    }
  }
}

// The probability of the first token: it tells one picture from another.
inline double first_logprob(const Result& result) {
  return result.choices.at(0).logprobs.at(0).token.logprob;
}

// How far a request has come.
enum class Stage { handed_in, picture, prompt, answer };
inline constexpr std::array kStages = {Stage::handed_in, Stage::picture, Stage::prompt,
                                       Stage::answer};

inline void wait_for(Ticket& ticket, Stage stage) {
  const auto is_reached = [&](const RequestEvent& event) {
    switch (stage) {
      case Stage::picture:
        return event.text == "picture";
      case Stage::prompt:
        return event.text == "prompt";
      default:
        return event.kind == RequestEvent::Kind::delta;
    }
  };
  while (stage != Stage::handed_in) {
    const std::optional<RequestEvent> event = ticket.next();
    ASSERT_TRUE(event.has_value()) << "ended before stage " << static_cast<int>(stage);
    if (is_reached(*event)) {
      return;
    }
  }
}

// A picture of several tiles, a prompt of several steps and an answer that ends long after the
// test.
inline Request endless(uint32_t seed) {
  return ask({text_block("Look."), inline_block(drawn_file({240, 180}, seed)),
              text_block("What does the image show?")},
             8000);
}

// Room for one request: what a cancelled one left behind would keep the next one out.
inline EngineOptions one_at_a_time() {
  EngineOptions options = keeping_options();
  options.context = 8192;
  options.step_rows = 16;
  options.serving.max_running = 1;
  return options;
}

}  // namespace tessera::test
