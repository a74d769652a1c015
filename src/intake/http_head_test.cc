#include "intake/http_head.h"

#include <gtest/gtest.h>

#include <limits>

namespace tessera::intake {
namespace {

HttpHead head_of(std::initializer_list<std::string_view> lines) {
  HttpHead head;
  for (const std::string_view line : lines) {
    head.add(line);
  }
  return head;
}

TEST(HttpHead, NamesHaveAnyCaseAndValuesAreTrimmed) {
  const HttpHead head = head_of({"HTTP/1.1 200 OK\r\n", "LOCATION:\t /a:b \r\n", "X: y\r\n",
                                 "content-LENGTH:12\r\n", "Content-encoding: GZIP\r\n"});
  EXPECT_EQ(head.location, "/a:b");
  EXPECT_EQ(head.content_length, 12);
  EXPECT_EQ(head.coding, ContentCoding::gzip);
}

TEST(HttpHead, OtherLinesChangeNothing) {
  const HttpHead head = head_of({"", "\r\n", ":", "location", " Location: /a", "XLocation: /a",
                                 "Location : /a", "HTTP/1.1 302 Location: /a\r\n"});
  EXPECT_TRUE(head.location.empty());
  EXPECT_EQ(head.content_length, 0);
  EXPECT_EQ(head.coding, ContentCoding::identity);
}

TEST(HttpHead, TheFirstLocationCounts) {
  EXPECT_EQ(head_of({"Location: /a", "Location: /b"}).location, "/a");
}

TEST(HttpHead, LengthsThatAreNoNumberAreTooLarge) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(head_of({"Content-Length: 9223372036854775807"}).content_length, kMost);
  for (const std::string_view line : {"Content-Length: 9223372036854775808", "Content-Length: 1, 1",
                                      "Content-Length: x", "Content-Length:"}) {
    EXPECT_EQ(head_of({line}).content_length, kMost) << line;
  }
}

TEST(HttpHead, CodingsThatWereNotAskedForAreNone) {
  EXPECT_EQ(head_of({"Transfer-Encoding: Chunked"}).coding, ContentCoding::identity);
  for (const std::string_view line :
       {"Content-Encoding: br", "Content-Encoding: gzip, gzip", "Transfer-Encoding: gzip",
        "Transfer-Encoding: gzip, chunked"}) {
    EXPECT_FALSE(head_of({line}).coding.has_value()) << line;
    EXPECT_FALSE(head_of({line, "Content-Encoding: identity"}).coding.has_value()) << line;
  }
  EXPECT_FALSE(head_of({"Content-Encoding: gzip", "Content-Encoding: gzip"}).coding.has_value());
}

}  // namespace
}  // namespace tessera::intake
