// Spellings of one picture. Golden rows: tests/golden/image/README.md.
#include "intake/data_url.h"

#include <gtest/gtest.h>

#include <string>

#include "base/str_cat.h"
#include "intake/decode.h"
#include "tests/support/json_lines.h"

namespace tessera::intake {
namespace {

using Bytes = std::vector<std::byte>;

constexpr int64_t kMost = int64_t{1} << 20;

// The bytes as text, or "FAULT: DETAIL".
std::string parsed(std::string_view url, int64_t max_bytes = kMost) {
  const auto result = parse_data_url(url, max_bytes);
  if (const Refusal* refusal = std::get_if<Refusal>(&result)) {
    return str_cat(fault_name(refusal->fault), ": ", refusal->detail);
  }
  std::string out;
  for (const std::byte byte : std::get<Bytes>(result)) {
    out.push_back(static_cast<char>(byte));
  }
  return out;
}

std::string fault_of(std::string_view url, int64_t max_bytes = kMost) {
  const std::string result = parsed(url, max_bytes);
  return result.substr(0, result.find(':'));
}

std::string bytes_of_hex(std::string_view hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return out;
}

// Accepted rows give the very bytes of the picture; refused ones are refused here or by the
// decoder.
TEST(DataUrl, EverySpellingIsReadOrRefusedByItsRule) {
  const std::vector<io::Json> rows =
      test::read_json_lines(test::golden_path("image/data_urls.jsonl"));
  const std::string picture = bytes_of_hex(test::text_of(rows.at(0), "picture_hex"));
  int accepted = 0;
  int refused = 0;
  for (size_t i = 1; i < rows.size(); ++i) {
    const std::string expect = test::text_of(rows[i], "expect");
    const std::string note = test::text_of(rows[i], "note");
    const auto result = parse_data_url(test::text_of(rows[i], "url"), kMost);
    const Bytes* bytes = std::get_if<Bytes>(&result);
    if (bytes != nullptr && std::holds_alternative<DecodedImage>(try_decode_image(*bytes))) {
      EXPECT_NE(expect, "refuse") << note;
      EXPECT_EQ(parsed(test::text_of(rows[i], "url")), picture) << note;
      ++accepted;
    } else {
      EXPECT_NE(expect, "ok") << note << ": " << parsed(test::text_of(rows[i], "url"));
      ++refused;
    }
  }
  EXPECT_GE(accepted, 15);
  EXPECT_GE(refused, 13);
  EXPECT_EQ(accepted + refused, 31);
}

TEST(DataUrl, TheMarkerIsTheLastParameter) {
  for (const std::string_view url :
       {"data:;base64,Zm9v", "data:image/png;BASE64,Zm9v", "data:image/png;Base64,Zm9v",
        "data:image/png;name=a.png;charset=utf-8;base64,Zm9v", "data:image/png; base64 ,Zm9v",
        "dAtA:;base64,Zm9v", "\t data:;base64,Zm9v\n"}) {
    EXPECT_EQ(parsed(url), "foo") << url;
  }
  for (const std::string_view url : {"data:,Zm9v", "data:base64,Zm9v", "data:;base64;name=a,Zm9v",
                                     "data:;name=base64,Zm9v", "data:image/png;base64x,Zm9v"}) {
    EXPECT_EQ(parsed(url), "Zm9v") << url;
  }
}

TEST(DataUrl, TheFirstCommaBeginsTheData) {
  EXPECT_EQ(parsed("data:,a,b"), "a,b");
  EXPECT_EQ(fault_of("data:;base64,Zm9v,Zm9v"), "corrupt");
}

TEST(DataUrl, EscapesAreDecodedOnceBeforeBase64) {
  EXPECT_EQ(parsed("data:;base64,%2B%2f-_"), "\xfb\xff\xbf");
  EXPECT_EQ(parsed("data:;base64,Zg%3D%3d"), "f");
  EXPECT_EQ(parsed("data:;base64,Zm%0A9v%20"), "foo");
  EXPECT_EQ(parsed("data:;base64,+/-_"), "\xfb\xff\xbf");  // + is no blank
  EXPECT_EQ(fault_of("data:;base64,%252B%252B"), "corrupt");
  EXPECT_EQ(fault_of("data:;base64,Zm%009v"), "corrupt");
  EXPECT_EQ(parsed("data:,%00%fF%41+%2525"), std::string("\0\xff"
                                                         "A+%25",
                                                         7));
}

TEST(DataUrl, BrokenEscapesAreRefusedWithTheirPosition) {
  for (const std::string_view data : {"%", "%4", "%zz", "%4g", "%%41", "A%", "%41%4", "AAA%%%%"}) {
    EXPECT_EQ(fault_of(str_cat("data:,", data)), "corrupt") << data;
    EXPECT_EQ(fault_of(str_cat("data:;base64,", data)), "corrupt") << data;
  }
  EXPECT_EQ(parsed("data:,ab%41%g1"),
            "corrupt: the % at byte 5 of the URL's data (counted from 0) is not followed by two "
            "hexadecimal digits; write %25 for a %");
}

TEST(DataUrl, UnencodedDataMustBePrintableAscii) {
  EXPECT_EQ(parsed("data:,ab\xc3\xa9"),
            "corrupt: byte 2 of the URL's data (counted from 0) is not printable ASCII; "
            "percent-encode it, or send base64");
  for (const std::string_view data : {"a b", "a\tb", "a\nb",
                                      "a\x7f"
                                      "b"}) {
    EXPECT_EQ(fault_of(str_cat("data:,", data)), "corrupt") << data;
  }
}

TEST(DataUrl, TheFragmentIsNotData) {
  EXPECT_EQ(parsed("data:;base64,Zm9v#tail"), "foo");
  EXPECT_EQ(parsed("data:,a%23b#c"), "a#b");
  EXPECT_EQ(fault_of("data:;base64#,Zm9v"), "corrupt");  // no comma is left
}

TEST(DataUrl, OtherSchemesAreRefused) {
  for (const std::string_view url : {"", "d", "data", "datx:,a", "http://a/", "file:///a", ",a",
                                     "xdata:,a", "image/png;base64,Zm9v", "Zm9v"}) {
    EXPECT_EQ(fault_of(url), "unrecognised") << url;
    EXPECT_FALSE(is_data_url(url)) << url;
  }
  EXPECT_TRUE(is_data_url("DATA:"));
  EXPECT_TRUE(is_data_url(" \r\n data:,"));
}

TEST(DataUrl, NothingIsRefused) {
  for (const std::string_view url : {"data:,", "data:;base64,", "data:;base64, ", "data:,#a"}) {
    EXPECT_EQ(fault_of(url), "empty") << url;
  }
  EXPECT_EQ(fault_of("data:"), "corrupt");
  EXPECT_EQ(fault_of("data:;base64"), "corrupt");
}

TEST(DataUrl, TheLimitCountsDecodedBytes) {
  EXPECT_EQ(parsed("data:;base64,Zm9v", 3), "foo");
  EXPECT_EQ(fault_of("data:;base64,Zm9v", 2), "too_large");
  EXPECT_EQ(parsed("data:,%41%42C", 3), "ABC");
  EXPECT_EQ(parsed("data:,%41%42C", 2),
            "too_large: the data URL holds 3 bytes, at most 2 are read; send a smaller picture");
}

TEST(DataUrl, MessagesHaveNoPartOfTheUrl) {
  for (const std::string_view url :
       {"secret:,a", "data:secret", "data:;base64,secret*", "data:,secret%", "data:,secret \n",
        "data:;base64,secret=A", "data:;base64,secre"}) {
    const std::string message = parsed(url, 1);
    EXPECT_EQ(message.find("secre"), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace tessera::intake
