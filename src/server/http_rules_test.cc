#include "server/http_rules.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/str_cat.h"
#include "server/http_options.h"
#include "server/http_parser.h"
#include "server/http_response.h"

namespace tessera::server {
namespace {

constexpr std::string_view kLocal = "127.0.0.1";

// "ok", or the status.
std::string verdict(const std::optional<HttpRefusal>& refusal) {
  return refusal.has_value() ? str_cat(refusal->status) : "ok";
}

RequestHead head_of(std::string_view method, std::vector<HttpField> fields) {
  fields.push_back({"Host", "localhost"});
  return {.method = std::string(method), .target = "/", .fields = std::move(fields)};
}

TEST(HttpRules, HostsOfLoopback) {
  struct Case {
    std::string_view host;
    std::string_view verdict;
  };
  const RequestRules rules{.allowed_hosts = {"api.example"}};
  for (const Case& one : std::vector<Case>{{"localhost", "ok"},
                                           {"LocalHost:8080", "ok"},
                                           {"127.0.0.1:1", "ok"},
                                           {"[::1]:8080", "ok"},
                                           {"API.example:443", "ok"},
                                           {"a.localhost", "403"},
                                           {"localhost.", "403"},
                                           {"attacker.example", "403"},
                                           {"127.0.0.2", "403"},
                                           {"127.0.0.1.attacker.example", "403"},
                                           {"[::2]", "403"},
                                           {"", "400"},
                                           {":8080", "400"},
                                           {"localhost:", "400"},
                                           {"localhost:port", "400"},
                                           {"localhost:-1", "400"},
                                           {"localhost:65536", "400"},
                                           {"localhost:80:80", "400"},
                                           {"user@localhost", "400"},
                                           {"localhost/", "400"},
                                           {"localhost, localhost", "400"},
                                           {"[::1", "400"},
                                           {"[]", "400"},
                                           {"[::1]x", "400"},
                                           {"[localhost]", "400"},
                                           {"b\xc3\xbc.example", "400"}}) {
    const RequestHead head{.fields = {{"hOST", std::string(one.host)}}};
    EXPECT_EQ(verdict(check_hosts(head, "", rules, kLocal)), one.verdict) << one.host;
  }
}

TEST(HttpRules, HostsElsewhere) {
  const RequestHead localhost{.fields = {{"Host", "localhost"}}};
  const RequestHead address{.fields = {{"Host", "10.1.2.3:80"}}};
  const RequestHead ipv6{.fields = {{"Host", "[2001:db8::1]"}}};
  EXPECT_EQ(verdict(check_hosts(localhost, "", {}, "10.1.2.3")), "403");
  EXPECT_EQ(verdict(check_hosts(address, "", {}, "10.1.2.3")), "ok");
  EXPECT_EQ(verdict(check_hosts(address, "", {}, "10.1.2.4")), "403");
  EXPECT_EQ(verdict(check_hosts(ipv6, "", {}, "2001:db8::1")), "ok");
  EXPECT_EQ(verdict(check_hosts(address, "", {.allowed_hosts = {"*"}}, "10.1.2.4")), "ok");
}

TEST(HttpRules, ExactlyOneHost) {
  EXPECT_EQ(verdict(check_hosts({}, "", {.allowed_hosts = {"*"}}, kLocal)), "400");
  const RequestHead two{.fields = {{"Host", "localhost"}, {"host", "localhost"}}};
  EXPECT_EQ(verdict(check_hosts(two, "", {}, kLocal)), "400");
  const RequestHead one{.fields = {{"Host", "localhost"}}};
  EXPECT_EQ(verdict(check_hosts(one, "localhost:80", {}, kLocal)), "ok");
  EXPECT_EQ(verdict(check_hosts(one, "attacker.example", {}, kLocal)), "403");
}

TEST(HttpRules, BodiesAreJson) {
  struct Case {
    std::string_view type;
    std::string_view verdict;
  };
  for (const Case& one : std::vector<Case>{{"application/json", "ok"},
                                           {"Application/JSON", "ok"},
                                           {"application/json; charset=utf-8", "ok"},
                                           {"application/json ;charset=\"UTF-8\"", "ok"},
                                           {"application/json; a=b; charset=utf8", "ok"},
                                           {"application/json;", "ok"},
                                           {"application/json; charset=latin1", "415"},
                                           {"application/json; charset=", "415"},
                                           {"application/jsonp", "415"},
                                           {"application/json, text/plain", "415"},
                                           {"text/plain", "415"},
                                           {"text/plain; application/json", "415"},
                                           {"application/x-www-form-urlencoded", "415"},
                                           {"multipart/form-data; boundary=x", "415"},
                                           {"", "415"}}) {
    const HttpField field{"content-type", std::string(one.type)};
    EXPECT_EQ(verdict(check_content(head_of("POST", {field}))), one.verdict) << one.type;
    EXPECT_EQ(verdict(check_content(head_of("GET", {field}))), "ok") << one.type;
  }
  const HttpField json{"Content-Type", "application/json"};
  EXPECT_EQ(verdict(check_content(head_of("POST", {}))), "415");
  EXPECT_EQ(verdict(check_content(head_of("PUT", {}))), "415");
  EXPECT_EQ(verdict(check_content(head_of("POST", {json, json}))), "415");
  EXPECT_EQ(verdict(check_content(head_of("POST", {json, {"Content-Encoding", "gzip"}}))), "415");
  EXPECT_EQ(verdict(check_content(head_of("POST", {json, {"Content-Encoding", "Identity"}}))),
            "ok");
}

TEST(HttpRules, Targets) {
  struct Case {
    std::string_view target;
    std::string_view result;  // path, "?", query, "@", host; or the status
  };
  for (const Case& one : std::vector<Case>{
           {"/", "/?@"},
           {"/v1/models?a=b%00&c", "/v1/models?a=b%00&c@"},
           {"/a%20b%C3%BC", "/a b\xc3\xbc?@"},
           {"/a?", "/a?@"},
           {"//a", "//a?@"},
           {"/..a/b..", "/..a/b..?@"},
           {"http://localhost:80/a?b", "/a?b@localhost:80"},
           {"HTTPS://localhost", "/?@localhost"},
           {"http://localhost?q", "/?q@localhost"},
           {"", "400"},
           {"a", "400"},
           {"*", "400"},
           {"localhost:80", "400"},
           {"ftp://localhost/", "400"},
           {"http:///a", "400"},
           {"/..", "400"},
           {"/a/../b", "400"},
           {"/a/%2e%2E", "400"},
           {"/a%2f..%2fb", "400"},
           {"/%00", "400"},
           {"/%0a", "400"},
           {"/%7f", "400"},
           {"/%", "400"},
           {"/%4", "400"},
           {"/%4g", "400"},
           {"/%ff", "400"},
           {"/a#b", "400"},
           {"/\xc3\xbc", "400"},
           {"/a b", "400"},
       }) {
    RequestTarget target;
    const std::optional<HttpRefusal> refusal = parse_target("GET", one.target, target);
    EXPECT_EQ(refusal.has_value() ? verdict(refusal)
                                  : str_cat(target.path, "?", target.query, "@", target.host),
              one.result)
        << one.target;
  }
  RequestTarget target;
  EXPECT_EQ(verdict(parse_target("OPTIONS", "*", target)), "ok");
}

TEST(HttpRules, FramingIsUnambiguous) {
  struct Case {
    std::vector<HttpField> fields;
    int minor_version;
    std::string_view verdict;
  };
  const HttpField five{"Content-Length", "5"};
  const HttpField chunked{"Transfer-Encoding", "Chunked"};
  for (const Case& one : std::vector<Case>{
           {{}, 1, "ok"},
           {{five}, 1, "ok"},
           {{five}, 0, "ok"},
           {{chunked}, 1, "ok"},
           {{chunked}, 0, "400"},
           {{five, five}, 1, "400"},
           {{five, {"content-length", "6"}}, 1, "400"},
           {{five, chunked}, 1, "400"},
           {{chunked, chunked}, 1, "400"},
           {{{"Content-Length", "5, 5"}}, 1, "400"},
           {{{"Content-Length", "+5"}}, 1, "400"},
           {{{"Transfer-Encoding", "gzip, chunked"}}, 1, "400"},
           {{{"Transfer-Encoding", "chunked, identity"}}, 1, "400"},
       }) {
    RequestHead head{.minor_version = one.minor_version, .fields = one.fields};
    head.content_length = 5;
    head.is_chunked = true;
    EXPECT_EQ(verdict(check_framing(head)), one.verdict)
        << (one.fields.empty() ? "" : one.fields.front().value);
  }
}

TEST(HttpRules, ExpectationsAndLength) {
  RequestTarget target;
  const RequestRules rules{.body_bytes = 10};
  RequestHead head = head_of("GET", {{"Expect", "100-Continue"}});
  EXPECT_EQ(verdict(check_head(head, rules, kLocal, target)), "ok");
  EXPECT_TRUE(expects_continue(head));
  head.minor_version = 0;
  EXPECT_FALSE(expects_continue(head));
  head = head_of("GET", {{"Expect", "tea"}});
  EXPECT_EQ(verdict(check_head(head, rules, kLocal, target)), "417");
  head = head_of("GET", {{"Content-Length", "11"}});
  head.content_length = 11;
  EXPECT_EQ(verdict(check_head(head, rules, kLocal, target)), "413");
}

std::string cors_text(const RequestHead& head, const RequestRules& rules) {
  std::string out;
  for (const HttpField& field : cors_fields(head, rules)) {
    out += str_cat(field.name, ": ", field.value, "\n");
  }
  return out;
}

TEST(HttpRules, PagesOfOtherOrigins) {
  const RequestHead page = head_of("GET", {{"Origin", "https://Page.example"}});
  const RequestHead stranger = head_of("GET", {{"Origin", "https://page.example.attacker"}});
  const RequestRules rules{.allowed_origins = {"https://page.example"}};
  EXPECT_EQ(cors_text(page, {}), "");
  EXPECT_EQ(cors_text(page, rules),
            "Vary: Origin\nAccess-Control-Allow-Origin: https://Page.example\n"
            "Access-Control-Expose-Headers: X-Request-Id, Retry-After\n");
  EXPECT_EQ(cors_text(stranger, rules), "Vary: Origin\n");
  EXPECT_EQ(cors_text(stranger, {.allowed_origins = {"*"}}),
            "Access-Control-Allow-Origin: *\n"
            "Access-Control-Expose-Headers: X-Request-Id, Retry-After\n");
  const RequestHead preflight =
      head_of("OPTIONS", {{"Origin", "https://page.example"},
                          {"Access-Control-Request-Method", "POST"},
                          {"Access-Control-Request-Headers", "content-type"}});
  EXPECT_TRUE(is_preflight(preflight));
  EXPECT_EQ(cors_text(preflight, rules),
            "Vary: Origin\nAccess-Control-Allow-Origin: https://page.example\n"
            "Access-Control-Allow-Methods: POST\nAccess-Control-Allow-Headers: content-type\n"
            "Access-Control-Max-Age: 600\n");
}

TEST(HttpRules, RequestIds) {
  EXPECT_EQ(request_id({{"x-request-id", "abc-1"}}), "abc-1");
  EXPECT_EQ(request_id({{"X-Request-Id", std::string(128, 'x')}}), std::string(128, 'x'));
  for (const std::string& bad : {std::string(), std::string(129, 'x'), std::string("a b"),
                                 std::string("\xc3\xbc"), std::string("a\tb")}) {
    const std::string id = request_id({{"X-Request-Id", bad}});
    EXPECT_EQ(id.size(), 32u);
    EXPECT_NE(id, request_id({{"X-Request-Id", bad}}));
  }
}

TEST(HttpRules, HeadsEndOrAreBad) {
  struct Case {
    std::string_view bytes;
    int64_t end;  // -1: bad
  };
  for (const Case& one : std::vector<Case>{{"", 0},
                                           {"GET / HTTP/1.1\r\n", 0},
                                           {"GET / HTTP/1.1\r\n\r", 0},
                                           {"GET / HTTP/1.1\r\n\r\nmore", 18},
                                           {"GET /\r\nA: b\r\n\r\n", 15},
                                           {"GET /\r\nA: \t\xff\r\n\r\n", 16},
                                           {"GET /\n", -1},
                                           {"GET /\r\nA: b\n\r\n", -1},
                                           {"GET /\r\nA: b\rc\r\n", -1},
                                           {"GET /\r\n\rb", -1},
                                           {"GET /\r\nA: b\r\n c", -1},
                                           {"GET /\r\n\tc", -1},
                                           {" GET /", -1},
                                           {std::string_view("GET /\r\nA: \0", 11), -1},
                                           {"GET /\r\nA: \x7f", -1},
                                           {"\x16\x03\x01", -1}}) {
    HeadScanner scanner;
    const int64_t end = scanner.scan(one.bytes);
    EXPECT_EQ(scanner.is_bad() ? -1 : end, one.end) << one.bytes;
    HeadScanner slow;
    int64_t slow_end = 0;
    for (size_t size = 0; size <= one.bytes.size() && slow_end == 0; ++size) {
      slow_end = slow.scan(one.bytes.substr(0, size));
    }
    EXPECT_EQ(slow.is_bad() ? -1 : slow_end, one.end) << one.bytes;
  }
}

// The body, or the status.
std::string body_of(std::string_view head, std::string_view body, size_t piece_bytes) {
  RequestParser parser;
  std::optional<HttpRefusal> refusal = parser.read_head(head);
  std::string waiting;
  while (!refusal.has_value() && !parser.is_done()) {
    if (body.empty()) {
      return "more";
    }
    waiting += body.substr(0, piece_bytes);
    body.remove_prefix(std::min(piece_bytes, body.size()));
    waiting.erase(0, static_cast<size_t>(parser.read_body(waiting, 20, 16, refusal)));
  }
  return refusal.has_value() ? verdict(refusal) : str_cat(parser.take_body(), "|", waiting, body);
}

TEST(HttpRules, BodiesInPieces) {
  struct Case {
    std::string_view body;
    std::string_view result;
  };
  for (const Case& one : std::vector<Case>{
           {"3\r\nabc\r\n0\r\n\r\nGET", "abc|GET"},
           {"3;x=y\r\nabc\r\n002\r\nde\r\n0\r\nA: b\r\n\r\n", "abcde|"},
           {"A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789|"},
           {"A\r\n0123456789\r\nb\r\n0123456789a\r\n0\r\n\r\n", "413"},
           {"3\r\nabcd\r\n0\r\n\r\n", "400"},
           {"3\r\nabc0\r\n\r\n", "400"},
           {"xyz\r\n", "400"},
           {"-12\r\n", "400"},
           {"3\nabc\n0\n\n", "more"},
           {"11111111111111111\r\n", "400"},
           {"3;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "400"},
           {"3\r\nabc\r\n0\r\nContent-Length: 5\r\n", "400"},  // longer than 16
           {"3\r\nab", "more"},
       }) {
    for (const size_t piece_bytes : {size_t{1}, size_t{2}, size_t{7}, one.body.size()}) {
      EXPECT_EQ(
          body_of("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", one.body, piece_bytes),
          one.result)
          << one.body << " in pieces of " << piece_bytes;
    }
  }
  EXPECT_EQ(body_of("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n", "abcGET", 2), "abc|GET");
  EXPECT_EQ(body_of("POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "", 1), "|");
}

TEST(HttpRules, HeadsOfResponses) {
  const HttpResponse response{.status = 200, .headers = {{"A", "b\r\nC: d"}}, .body = "body"};
  const std::string text = response_head(response, {.keeps_alive = false, .request_id = "id"});
  EXPECT_TRUE(text.starts_with("HTTP/1.1 200 OK\r\n"));
  for (const std::string_view line :
       {"Server: tessera", "X-Request-Id: id", "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer", "Content-Type: application/json; charset=utf-8",
        "A: b  C: d", "Connection: close", "Content-Length: 4"}) {
    EXPECT_NE(text.find(str_cat("\r\n", line, "\r\n")), std::string::npos) << line;
  }
  EXPECT_TRUE(text.ends_with("\r\n\r\n"));
  const std::string empty = response_head({.status = 204}, {.request_id = "id"});
  EXPECT_EQ(empty.find("Content-"), empty.find("Content-Type-Options"));
  EXPECT_EQ(plain_error_body(400, "a \"b\"\n"), R"({"error":{"code":400,"message":"a \"b\" "}})");
}

TEST(HttpRules, LimitsAreChecked) {
  const auto message = [](auto change) {
    HttpOptions options;
    change(options);
    try {
      check_options(options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("ok");
  };
  EXPECT_EQ(message([](HttpOptions&) {}), "ok");
  EXPECT_EQ(message([](HttpOptions& o) { o.limits.header_bytes = 1; }),
            "header_bytes is 1, expected 1024 to 1048576");
  EXPECT_EQ(message([](HttpOptions& o) { o.limits.body_timeout = {}; }),
            "body_timeout is 0, expected 1 to 86400000");
  EXPECT_EQ(message([](HttpOptions& o) { o.io_threads = 0; }), "io_threads is 0, expected 1 to 64");
  EXPECT_EQ(message([](HttpOptions& o) { o.tls_key = "key.pem"; }),
            "tls_key is given without tls_certificate; give both or none");
  EXPECT_EQ(message([](HttpOptions& o) { o.allowed_origins = {"page.example"}; }),
            "allowed_origins has 'page.example', expected 'https://HOST[:PORT]' or '*'");
}

}  // namespace
}  // namespace tessera::server
