#include "intake/content_decoder.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/support/deflated.h"

namespace tessera::intake {
namespace {

using Status = ContentDecoder::Status;

constexpr int kGzip = 31;
constexpr int kZlib = 15;
constexpr int kBare = -15;

// The decoded bytes, or what is wrong.
std::string decoded(ContentCoding coding, std::string_view bytes, size_t step = 1000,
                    int64_t max_bytes = 1'000'000) {
  ContentDecoder decoder(coding, max_bytes);
  for (size_t at = 0; at < bytes.size(); at += step) {
    const Status status = decoder.push(bytes.substr(at, step));
    if (status != Status::ok) {
      return status == Status::corrupt ? "corrupt" : "too large";
    }
  }
  if (!decoder.is_whole()) {
    return "cut short";
  }
  std::string out;
  for (const std::byte byte : decoder.take()) {
    out.push_back(static_cast<char>(byte));
  }
  return out;
}

// Partly random, so that there are several blocks.
std::string sample() {
  std::mt19937 random(3);
  std::string bytes;
  while (bytes.size() < 100'000) {
    bytes.append(1 + random() % 50, static_cast<char>(random() & 0xffU));
  }
  return bytes;
}

struct Form {
  ContentCoding coding;
  int window_bits;
};

constexpr Form kForms[] = {
    {ContentCoding::gzip, kGzip}, {ContentCoding::deflate, kZlib}, {ContentCoding::deflate, kBare}};

TEST(ContentDecoder, EveryFormIsDecodedHoweverItIsCut) {
  const std::string bytes = sample();
  for (const Form& form : kForms) {
    const std::string packed = test::deflated(bytes, form.window_bits);
    for (const size_t step : {size_t{1}, size_t{2}, size_t{1000}, packed.size()}) {
      EXPECT_EQ(decoded(form.coding, packed, step), bytes) << form.window_bits << " " << step;
    }
  }
  EXPECT_EQ(decoded(ContentCoding::identity, bytes, 7), bytes);
  EXPECT_EQ(decoded(ContentCoding::identity, ""), "");
}

TEST(ContentDecoder, NoPrefixIsWhole) {
  const std::string bytes = sample().substr(0, 3000);
  for (const Form& form : kForms) {
    const std::string packed = test::deflated(bytes, form.window_bits);
    for (size_t size = 0; size < packed.size(); ++size) {
      ASSERT_EQ(decoded(form.coding, std::string_view(packed).substr(0, size)), "cut short")
          << form.window_bits << " " << size;
    }
    EXPECT_EQ(decoded(form.coding, packed + "x"), "corrupt");
    EXPECT_EQ(decoded(form.coding, packed + "x", packed.size()), "corrupt");
  }
}

TEST(ContentDecoder, DamageIsFound) {
  EXPECT_EQ(decoded(ContentCoding::gzip, "no gzip data"), "corrupt");
  EXPECT_EQ(decoded(ContentCoding::gzip, test::deflated("a", kZlib)), "corrupt");
  EXPECT_EQ(decoded(ContentCoding::deflate, test::deflated("a", kGzip)), "corrupt");
  EXPECT_EQ(decoded(ContentCoding::deflate, "\xff\xff\xff\xff"), "corrupt");
  std::string packed = test::deflated(sample(), kGzip);
  packed[packed.size() - 6] = static_cast<char>(packed[packed.size() - 6] ^ 1);  // the checksum
  EXPECT_EQ(decoded(ContentCoding::gzip, packed), "corrupt");
}

TEST(ContentDecoder, TheLimitCountsDecodedBytes) {
  const std::string bytes = sample();
  const auto limit = static_cast<int64_t>(bytes.size());
  for (const Form& form : kForms) {
    const std::string packed = test::deflated(bytes, form.window_bits);
    EXPECT_EQ(decoded(form.coding, packed, packed.size(), limit), bytes);
    EXPECT_EQ(decoded(form.coding, packed, packed.size(), limit - 1), "too large");
  }
  EXPECT_EQ(decoded(ContentCoding::identity, bytes, 10, limit), bytes);
  EXPECT_EQ(decoded(ContentCoding::identity, bytes, 10, limit - 1), "too large");
}

TEST(ContentDecoder, OneCodingOfThoseAskedForIsKnown) {
  EXPECT_EQ(parse_content_coding(""), ContentCoding::identity);
  EXPECT_EQ(parse_content_coding("Identity"), ContentCoding::identity);
  EXPECT_EQ(parse_content_coding("GZIP"), ContentCoding::gzip);
  EXPECT_EQ(parse_content_coding("x-gzip"), ContentCoding::gzip);
  EXPECT_EQ(parse_content_coding("deflate"), ContentCoding::deflate);
  for (const std::string_view value :
       {"br", "zstd", "compress", "gzip, gzip", "gzip,br", "gzip ", "x"}) {
    EXPECT_FALSE(parse_content_coding(value).has_value()) << value;
  }
}

}  // namespace
}  // namespace tessera::intake
