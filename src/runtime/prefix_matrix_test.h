// What the tests of prefix hits share: prompts that begin alike and part at and around every
// position of an image span, each compared with what it gets alone and anew.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/str_cat.h"
#include "runtime/engine.h"

namespace tessera {

struct MatrixCase {
  int64_t pictures = 1;
  int64_t step_rows = 64;
  int threads = 1;
  int64_t interval = 13;  // tokens from one kept state to the next
  bool is_tight = false;  // so little room that requests wait and are swapped out
  bool cancels = false;   // every third request of a batch is dropped on its way
};

// Prompts of one beginning: `lead` words, pictures, and a tail of their own. Longer tails let later
// states of the beginning be used (docs/engine.md), so the place where a prompt goes on wanders
// through the picture.
inline Request matrix_request(int64_t pictures, int64_t lead, int64_t tail) {
  const std::string folder = TESSERA_SOURCE_DIR "/models/demo/eval/images/";
  const char* const names[] = {"p001.png", "p002.png"};
  Request request;
  Message& message = request.messages.emplace_back();
  std::string text;
  for (int64_t i = 0; i < lead; ++i) {
    text += i % 2 == 0 ? "red " : "猫";
  }
  message.content.emplace_back().text = text + ":";
  for (int64_t i = 0; i < pictures; ++i) {
    ContentBlock& block = message.content.emplace_back();
    block.kind = ContentBlock::Kind::image;
    block.image.value = folder + names[i];
  }
  std::string own = str_cat(tail, " ");
  for (int64_t i = 0; i < tail; ++i) {
    own += i % 3 == 0 ? "猫" : "two ";
  }
  message.content.emplace_back().text = own;
  request.sampling.temperature = 1;
  request.sampling.seed = static_cast<uint64_t>(tail);
  request.max_tokens = 8;
  request.ignores_eos = true;
  request.logprobs = 0;
  request.is_thinking = false;
  return request;
}

// From too short for any state of the beginning to long enough for all of them; a picture more
// stands for some fifteen words.
inline std::vector<int64_t> matrix_tails(int64_t pictures) {
  std::vector<int64_t> tails = {0};
  for (int64_t words = 30; words <= 46; words += 2) {
    tails.push_back(words - 15 * std::max<int64_t>(pictures - 1, 0));
  }
  return tails;
}

// What a request gets alone, computed once.
inline const Result& matrix_expected(int64_t pictures, int64_t lead, int64_t tail) {
  static const std::unique_ptr<Engine> engine = [] {
    EngineOptions options;
    options.model = TESSERA_SOURCE_DIR "/models/demo";
    options.threads = 1;
    options.picture_cache_bytes = 1 << 20;
    return Engine::open(options);
  }();
  static std::map<std::vector<int64_t>, Result> known;
  const auto [place, is_new] = known.try_emplace({pictures, lead, tail});
  if (is_new) {
    place->second = engine->generate(matrix_request(pictures, lead, tail));
  }
  return place->second;
}

// Positions at which prompts went on, relative to the beginning of the first picture's span.
inline std::set<int64_t> run_matrix(const MatrixCase& c, int64_t leads) {
  const std::vector<int64_t> tails = matrix_tails(c.pictures);
  std::set<int64_t> places;
  for (int64_t lead = 0; lead < leads; ++lead) {
    EngineOptions options;
    options.model = TESSERA_SOURCE_DIR "/models/demo";
    options.threads = c.threads;
    options.step_rows = c.step_rows;
    options.prefix_cache_bytes = 32 << 20;
    options.prefix_interval = c.interval;
    options.context = 1024;
    options.picture_cache_bytes = 1 << 20;
    options.serving.cache_tokens = c.is_tight ? 400 : 8192;
    options.serving.answer_room = c.is_tight ? 1 : 64;
    options.serving.max_running = 16;
    const std::unique_ptr<Engine> engine = Engine::open(options);
    engine->submit(matrix_request(c.pictures, lead, 50))->result();  // leaves its states
    std::vector<std::shared_ptr<Ticket>> batch;
    for (const int64_t tail : tails) {
      batch.push_back(engine->submit(matrix_request(c.pictures, lead, tail)));
    }
    for (size_t i = 2; c.cancels && i < batch.size(); i += 3) {
      batch[i]->next(std::chrono::milliseconds(static_cast<int64_t>(i)));
      batch[i]->cancel();
    }
    for (size_t i = 0; i < batch.size(); ++i) {
      const int64_t tail = tails[i];
      const Result& want = matrix_expected(c.pictures, lead, tail);
      const Result got = batch[i]->result();
      const std::string name =
          str_cat(c.pictures, " pictures, steps of ", c.step_rows, ", ", c.threads, " threads, ",
                  lead, " + ", tail, " words, from ", got.cached_tokens);
      if (got.is_cancelled) {
        EXPECT_TRUE(c.cancels) << name;
        continue;
      }
      EXPECT_EQ(got.choices.at(0).ids, want.choices.at(0).ids) << name;
      EXPECT_EQ(got.prompt_tokens, want.prompt_tokens) << name;
      for (size_t k = 0; k < want.choices[0].logprobs.size(); ++k) {
        EXPECT_EQ(got.choices[0].logprobs.at(k).token.logprob,
                  want.choices[0].logprobs[k].token.logprob)
            << name;
      }
      if (c.pictures > 0) {
        const auto first = std::find(want.prompt_ids.begin(), want.prompt_ids.end(), int32_t{1015});
        places.insert(got.cached_tokens - (first - want.prompt_ids.begin()));
      }
    }
  }
  return places;
}

}  // namespace tessera
