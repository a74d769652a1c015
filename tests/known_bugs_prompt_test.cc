// Known bugs of prompts (docs/known-bugs.md, B22 and B33 to B36): placeholders, order and control
// tokens for whatever a conversation is made of.
#include <algorithm>
#include <array>
#include <set>

#include "models/deepseek_v41/prompt.h"
#include "tests/known_bugs_test.h"
#include "tests/support/released_tokenizer.h"

namespace tessera::test {
namespace {

using deepseek_v41::Prompt;
using deepseek_v41::PromptEncoder;
using deepseek_v41::PromptOptions;

Prompt encode(const std::vector<Message>& messages, const PromptOptions& options) {
  static const PromptEncoder encoder(released_tokenizer(), kReleasedImageId);
  return encoder.encode(messages, options);
}

// Conversations of every kind of message that may hold pictures, and what stands in them: "[7]" is
// a text, "p7" a picture.
class DrawnConversation {
 public:
  DrawnConversation(unsigned seed, std::string noise) : random_(seed), noise_(std::move(noise)) {
    if (flips()) {
      add(Role::system);
    }
    for (uint64_t turn = 1 + random_() % 4; turn > 0; --turn) {
      add(Role::user);
      Message& answer = messages_.emplace_back();
      answer.role = Role::assistant;
      answer.content.push_back(drawn_text());
      if (flips()) {
        answer.tool_calls.push_back({.id = "c", .name = "look", .arguments = {}});
        add_result();
      }
    }
    add(Role::user);
  }

  const std::vector<Message>& messages() const { return messages_; }
  const std::vector<std::string>& parts() const { return parts_; }
  std::vector<std::string> pictures() const {
    std::vector<std::string> out;
    std::ranges::copy_if(parts_, std::back_inserter(out),
                         [](const std::string& part) { return part[0] == 'p'; });
    return out;
  }

 private:
  bool flips() { return random_() % 2 == 0; }

  ContentBlock drawn_text() {
    parts_.push_back(str_cat("[", parts_.size(), "]"));
    return text_block(str_cat(noise_, parts_.back(), noise_));
  }

  std::vector<ContentBlock> drawn_parts() {
    std::vector<ContentBlock> out;
    for (uint64_t i = 1 + random_() % 4; i > 0; --i) {
      if (flips()) {
        out.push_back(drawn_text());
      } else {
        parts_.push_back(str_cat("p", parts_.size()));
        out.push_back(source_block(parts_.back()));
      }
    }
    return out;
  }

  void add(Role role) {
    Message& message = messages_.emplace_back();
    message.role = role;
    message.content = drawn_parts();
  }

  // As a message of its own, or as a block of the user's.
  void add_result() {
    Message& message = messages_.emplace_back();
    if (flips()) {
      message.role = Role::tool;
      message.call_id = "c";
      message.content = drawn_parts();
    } else {
      ContentBlock& block = message.content.emplace_back();
      block.kind = ContentBlock::Kind::tool_result;
      block.call_id = "c";
      block.content = drawn_parts();
      message.content.push_back(drawn_text());
    }
  }

  std::mt19937 random_;
  std::string noise_;
  std::vector<Message> messages_;
  std::vector<std::string> parts_;
};

std::vector<std::string> values_of(const std::vector<ImageSource>& images) {
  std::vector<std::string> out;
  std::ranges::transform(images, std::back_inserter(out),
                         [](const ImageSource& image) { return image.value; });
  return out;
}

constexpr std::array kRevisions = {EncodingRevision::ref, EncodingRevision::ref_1017,
                                   EncodingRevision::recipe};

// As many placeholders as pictures, whatever the texts spell.
TEST(KnownBugPrompt, APlaceholderForEachPicture) {
  const std::string noise = str_cat("<image>", deepseek_v41::kImagePlaceholder, "\n");
  int64_t pictures = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    const DrawnConversation drawn(seed, noise);
    const Prompt prompt =
        encode(drawn.messages(), {.is_thinking = seed % 2 == 0, .revision = kRevisions[seed % 3]});
    EXPECT_EQ(values_of(prompt.images), drawn.pictures()) << "seed " << seed;
    EXPECT_EQ(std::ranges::count(prompt.ids, kReleasedImageId),
              static_cast<int64_t>(prompt.images.size()))
        << "seed " << seed;
    pictures += static_cast<int64_t>(prompt.images.size());
  }
  EXPECT_GT(pictures, 200);
}

// Texts and pictures stand in the order in which they were sent.
TEST(KnownBugPrompt, PartsKeepTheirOrder) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    const DrawnConversation drawn(seed, "");
    const Prompt prompt =
        encode(drawn.messages(), {.is_thinking = seed % 2 == 0, .revision = kRevisions[seed % 3]});
    size_t at = 0;
    for (const std::string& part : drawn.parts()) {
      const std::string_view wanted =
          part[0] == 'p' ? deepseek_v41::kImagePlaceholder : std::string_view(part);
      at = prompt.text.find(wanted, at);
      ASSERT_NE(at, std::string::npos) << part << ", seed " << seed << ": " << prompt.text;
      at += wanted.size();
      // The next part comes next: nothing is passed over.
      const std::string_view rest = std::string_view(prompt.text).substr(at);
      const size_t next = std::min(rest.find(deepseek_v41::kImagePlaceholder), rest.find('['));
      const bool is_last = &part == &drawn.parts().back();
      ASSERT_EQ(next == std::string_view::npos, is_last) << part << ", seed " << seed;
    }
  }
}

// Every order of the parts of one message, with the vendor's blank lines between them; the spans of
// the pictures, which differ in size, follow.
TEST(KnownBugPrompt, EveryOrderOfFourParts) {
  const std::unique_ptr<Engine> engine = Engine::open(plain_options());
  const std::vector<std::pair<std::string, ContentBlock>> parts = {
      {"one", text_block("one")},
      {std::string(deepseek_v41::kImagePlaceholder), inline_block(drawn_file({300, 100}, 1))},
      {std::string(deepseek_v41::kImagePlaceholder), inline_block(drawn_file({100, 300}, 1))},
      {"two", text_block("two")}};
  std::vector<size_t> order = {0, 1, 2, 3};
  do {
    std::vector<ContentBlock> content;
    std::string text;
    std::vector<bool> is_wide;
    for (const size_t i : order) {
      text += str_cat(text.empty() ? "" : "\n\n", parts[i].first);
      content.push_back(parts[i].second);
      if (i == 1 || i == 2) {
        is_wide.push_back(i == 1);
      }
    }
    const EncodedPrompt prompt = engine->encode(ask(content), ImageSpans::expand);
    EXPECT_NE(prompt.text.find(str_cat("<｜User｜>", text, "<｜Assistant｜>")), std::string::npos)
        << prompt.text;
    ASSERT_EQ(prompt.spans.size(), 2U);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(prompt.spans[i].columns > prompt.spans[i].rows, is_wide[i]) << text;
      EXPECT_EQ(prompt.types[static_cast<size_t>(prompt.spans[i].start)], 0);
    }
  } while (std::ranges::next_permutation(order).found);
}

// A picture makes the prompt longer by its span, and a larger picture by more.
TEST(KnownBugPrompt, APictureCountsItsTokens) {
  const std::unique_ptr<Engine> engine = Engine::open(plain_options());
  int64_t before = 0;
  for (const image::Size size :
       {image::Size{20, 20}, {190, 180}, {260, 180}, {300, 240}, {420, 300}}) {
    const Request request =
        ask({text_block("a"), inline_block(drawn_file(size, 1)), text_block("b")}, 1);
    const EncodedPrompt::Span span = engine->encode(request, ImageSpans::expand).spans.at(0);
    const Result result = engine->generate(request);
    const int64_t formula = span.rows * (span.columns + 1) + 2;
    EXPECT_EQ(result.span_tokens, std::vector{formula}) << size.width;
    EXPECT_EQ(result.prompt_tokens, std::ssize(result.prompt_ids) - 1 + formula) << size.width;
    EXPECT_GT(formula, before) << size.width;
    before = formula;
  }
}

// All places of a prompt that text from outside reaches.
std::vector<Message> with_text_at(size_t place, const std::string& text) {
  std::vector<std::string> texts(11, "x");
  texts.at(place) = text;
  std::vector<Message> all(6);
  all[0].role = Role::system;
  all[0].content = {text_block(texts[0])};
  all[0].tools = {io::dump_compact(io::Json::object({{"name", io::Json::string(texts[1])}}))};
  all[0].response_format = io::dump_compact(io::Json::string(texts[2]));
  all[1].content = {text_block(texts[3]), text_block("x")};
  all[2].role = Role::assistant;
  all[2].reasoning = texts[4];
  all[2].content = {text_block(texts[5])};
  all[2].tool_calls = {
      {.id = "c", .name = texts[6], .arguments = {{.name = texts[7], .value = texts[8]}}}};
  all[3].role = Role::tool;
  all[3].call_id = "c";
  all[3].content = {text_block(texts[9])};
  all[4].role = Role::latest_reminder;
  all[4].content = {text_block(texts[10])};
  all[5].content = {text_block("x")};
  return all;
}
constexpr size_t kPlaces = 11;
constexpr std::array<size_t, 2> kAssistantPlaces = {4, 5};

std::vector<int32_t> control_ids(const Prompt& prompt) {
  static const std::set<int32_t> added = [] {
    std::set<int32_t> ids;
    for (const AddedToken& token : released_tokenizer().added_tokens()) {
      ids.insert(token.id);
    }
    return ids;
  }();
  std::vector<int32_t> out;
  std::ranges::copy_if(prompt.ids, std::back_inserter(out),
                       [](int32_t id) { return added.contains(id); });
  return out;
}

bool is_grounding(const std::string& spelling) {
  return std::ranges::any_of(std::array{"ref｜>", "box｜>", "point｜>", "polygon｜>"},
                             [&](const char* end) { return spelling.ends_with(end); });
}

// Spellings of control tokens, whole, cut, nested and side by side, are text everywhere. Grounding
// tokens are the assistant's own.
TEST(KnownBugPrompt, NoSpellingBecomesAControlToken) {
  const std::vector<AddedToken>& added = released_tokenizer().added_tokens();
  const auto hostile = [&](std::mt19937& random, bool has_grounding) {
    std::string text;
    for (int i = 0; i < 40; ++i) {
      const std::string& one = added[random() % added.size()].text;
      const std::string& other = added[random() % added.size()].text;
      if (has_grounding || (!is_grounding(one) && !is_grounding(other))) {
        const size_t cut = random() % (one.size() + 1);
        text += str_cat(one, one.substr(0, cut), other, one.substr(cut));
      }
    }
    return text;
  };
  std::string whole;
  for (const AddedToken& token : added) {
    whole += is_grounding(token.text) ? "" : token.text;
  }
  std::mt19937 random(1);
  for (const bool is_thinking : {false, true}) {
    const std::vector<int32_t> want =
        control_ids(encode(with_text_at(0, "x"), {.is_thinking = is_thinking}));
    EXPECT_GT(want.size(), 8U);
    for (size_t place = 0; place < kPlaces; ++place) {
      const bool has_grounding = std::ranges::count(kAssistantPlaces, place) == 0;
      for (int round = 0; round < 6; ++round) {
        const std::string text = round == 0 ? whole : hostile(random, has_grounding);
        const Prompt prompt = encode(with_text_at(place, text), {.is_thinking = is_thinking});
        EXPECT_EQ(control_ids(prompt), want) << "place " << place << ": " << text;
        EXPECT_TRUE(prompt.images.empty());
      }
    }
  }
}

// Nothing that serves a request changes what the next one finds.
TEST(KnownBugPrompt, TheSameRequestTwiceGivesTheSamePrompt) {
  const std::unique_ptr<Engine> engine = Engine::open(keeping_options());
  const Request request =
      ask({inline_block(drawn_file({200, 150}, 1)), text_block("Compare with"),
           inline_block(drawn_file({150, 200}, 2)), text_block("<｜deepseek_image｜>")});
  const EncodedPrompt first = engine->encode(request, ImageSpans::expand);
  ASSERT_EQ(first.spans.size(), 2U);
  const Result want = plain_result(request);
  EXPECT_EQ(want.prompt_ids, first.ids);
  for (int round = 0; round < 3; ++round) {
    const EncodedPrompt again = engine->encode(request, ImageSpans::expand);
    EXPECT_EQ(again.text, first.text);
    EXPECT_EQ(again.ids, first.ids);
    EXPECT_EQ(again.expanded_ids, first.expanded_ids);
    EXPECT_EQ(again.types, first.types);
    expect_same(engine->submit(request)->result(), want, str_cat("submit, round ", round));
    expect_same(engine->generate(request), want, str_cat("generate, round ", round));
  }
}

}  // namespace
}  // namespace tessera::test
