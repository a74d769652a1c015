// What clients are answered, over real sockets.
#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "base/str_cat.h"
#include "server/http_server.h"
#include "server/http_test.h"

namespace tessera::server {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): the test's own vocabulary

// "GET /path?query body", and more by path.
void answer(const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  if (request.path == "/stream") {
    exchange->begin_stream({.content_type = "text/event-stream", .body = "one"});
    EXPECT_TRUE(exchange->write("") && exchange->write("two"));
    exchange->write("three");
    exchange->end_stream();
    EXPECT_FALSE(exchange->is_gone());
  } else if (request.path == "/throw") {
    throw std::runtime_error("told to");
  } else if (request.path == "/cut") {
    exchange->begin_stream({.body = "beginning"});
  } else if (request.path == "/empty") {
    exchange->respond({.status = 204});
  } else if (request.path != "/drop") {
    exchange->respond({.content_type = "text/plain",
                       .body = str_cat(request.method, " ", request.path, "?", request.query, " ",
                                       request.body)});
  }
}

class HttpServerTest : public testing::Test {
 protected:
  explicit HttpServerTest(const HttpOptions& options = options_of_test())
      : server_(options, &answer) {}

  static HttpOptions options_of_test() {
    HttpOptions options = local_options();
    options.allowed_origins = {"https://page.example"};
    options.limits.body_bytes = 1000;
    options.limits.header_bytes = 2000;
    options.limits.requests_per_connection = 100;
    return options;
  }

  HttpServer server_;
  Client client_{server_.port()};
};

TEST_F(HttpServerTest, ConnectionsAreKept) {
  Answer got = client_.get("/a%20b?c=%20d");
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.body, "GET /a b?c=%20d ");
  EXPECT_EQ(got.header("Connection"), "");
  EXPECT_EQ(got.header("Server"), "tessera");
  EXPECT_EQ(got.header("Content-Type"), "text/plain");
  EXPECT_EQ(got.header("X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(got.header("Referrer-Policy"), "no-referrer");
  EXPECT_EQ(got.header("X-Request-Id").size(), 32u);
  EXPECT_EQ(got.header("Date").size(), 29u);
  got = client_.post("/b", "{}");
  EXPECT_EQ(got.body, "POST /b? {}");
  client_.send(get_text("/c", "X-Request-Id: mine\r\nConnection: close\r\n"));
  got = client_.read();
  EXPECT_EQ(got.header("X-Request-Id"), "mine");
  EXPECT_EQ(got.header("Connection"), "close");
  EXPECT_TRUE(client_.is_closed());
  EXPECT_EQ(server_.statistics().requests, 3);
  EXPECT_EQ(server_.statistics().active_requests, 0);
}

TEST_F(HttpServerTest, StreamsComeInChunks) {
  for (int i = 0; i < 2; ++i) {
    const Answer got = client_.get("/stream");
    EXPECT_EQ(got.status, 200);
    EXPECT_EQ(got.header("Transfer-Encoding"), "chunked");
    EXPECT_EQ(got.header("Content-Length"), "");
    EXPECT_EQ(got.body, "onetwothree");
    EXPECT_TRUE(got.is_whole);
  }
}

TEST_F(HttpServerTest, HeadHasNoBody) {
  client_.send("HEAD /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client_.read("HEAD").header("Content-Length"), "9");
  client_.send("HEAD /empty HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client_.read("HEAD").status, 204);
  EXPECT_EQ(client_.get("/empty").header("Content-Length"), "");
  EXPECT_EQ(client_.get("/b").body, "GET /b? ");
}

TEST_F(HttpServerTest, OldClients) {
  client_.send("GET /a HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n");
  Answer got = client_.read();
  EXPECT_EQ(got.body, "GET /a? ");
  EXPECT_EQ(got.header("Connection"), "keep-alive");
  client_.send("GET /stream HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n");
  got = client_.read();
  EXPECT_EQ(got.header("Transfer-Encoding"), "");
  EXPECT_EQ(got.header("Connection"), "close");
  EXPECT_EQ(got.body, "onetwothree");
  Client other(server_.port());
  other.send("GET /a HTTP/1.0\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(other.read_to_end().ends_with("\r\n\r\nGET /a? "));
}

TEST_F(HttpServerTest, HandlersThatFail) {
  EXPECT_EQ(client_.get("/throw").status, 500);
  EXPECT_EQ(client_.get("/drop").status, 500);
  const Answer got = client_.get("/cut");
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.body, "beginning");
  EXPECT_FALSE(got.is_whole);
  EXPECT_TRUE(client_.is_closed());
}

TEST_F(HttpServerTest, PipelinedRequestsAreAnsweredInOrder) {
  std::string requests;
  for (int i = 0; i < 50; ++i) {
    requests += i % 3 == 0 ? post_text(str_cat("/", i), "{}") : get_text(str_cat("/", i));
  }
  EXPECT_TRUE(client_.send(requests));
  for (int i = 0; i < 50; ++i) {
    const Answer got = client_.read();
    EXPECT_EQ(got.body, i % 3 == 0 ? str_cat("POST /", i, "? {}") : str_cat("GET /", i, "? "));
  }
}

TEST_F(HttpServerTest, OneByteAtATime) {
  const std::string chunked = str_cat(
      "\r\nPOST /a HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n3;x\r\n[1,\r\n2\r\n2]\r\n0\r\nTrailer: x\r\n\r\n");
  for (const char c : str_cat(chunked, get_text("/b"))) {
    EXPECT_TRUE(client_.send({&c, 1}));
  }
  EXPECT_EQ(client_.read().body, "POST /a? [1,2]");
  EXPECT_EQ(client_.read().body, "GET /b? ");
}

TEST_F(HttpServerTest, ConnectionsEndAfterTheirLastRequest) {
  for (int i = 1; i <= 100; ++i) {
    EXPECT_EQ(client_.get("/").header("Connection"), i == 100 ? "close" : "");
  }
  EXPECT_TRUE(client_.is_closed());
}

TEST_F(HttpServerTest, ContinueIsSaidOnlyIfTheBodyIsWanted) {
  const std::string_view expect = "Expect: 100-continue\r\n";
  const std::string text = post_text("/a", "{}", expect);
  client_.send(text.substr(0, text.size() - 2));
  EXPECT_EQ(client_.read().status, 100);
  client_.send("{}");
  EXPECT_EQ(client_.read().body, "POST /a? {}");
  client_.send(text);  // does not wait
  EXPECT_EQ(client_.read().body, "POST /a? {}");
  const std::string large = post_text("/a", std::string(1001, ' '), expect);
  client_.send(large.substr(0, large.size() - 1001));
  EXPECT_EQ(client_.read().status, 413);
  EXPECT_TRUE(client_.is_closed());
}

TEST_F(HttpServerTest, RefusedBodiesDoNotResetTheConnection) {
  const std::string body(4 << 20, ' ');
  EXPECT_TRUE(client_.send(post_text("/a", body)));  // all of it, before the answer is read
  const Answer got = client_.read();
  EXPECT_EQ(got.status, 413);
  EXPECT_EQ(
      got.body,
      R"({"error":{"code":413,"message":"the body has 4194304 bytes, at most 1000 are taken"}})");
  EXPECT_TRUE(client_.is_closed());
}

TEST_F(HttpServerTest, PagesOfOtherOrigins) {
  client_.send(
      "OPTIONS /a HTTP/1.1\r\nHost: localhost\r\nOrigin: https://page.example\r\n"
      "Access-Control-Request-Method: POST\r\n\r\n");
  Answer got = client_.read();
  EXPECT_EQ(got.status, 204);
  EXPECT_EQ(got.header("Access-Control-Allow-Methods"), "POST");
  client_.send(
      "OPTIONS /a HTTP/1.1\r\nHost: localhost\r\nOrigin: https://other.example\r\n"
      "Access-Control-Request-Method: POST\r\n\r\n");
  got = client_.read();
  EXPECT_EQ(got.status, 403);
  EXPECT_EQ(got.header("Access-Control-Allow-Origin"), "");
  client_.send(get_text("/a", "Origin: https://page.example\r\n"));
  got = client_.read();
  EXPECT_EQ(got.header("Access-Control-Allow-Origin"), "https://page.example");
  EXPECT_EQ(got.header("Vary"), "Origin");
  client_.send("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client_.read().body, "OPTIONS *? ");
}

TEST_F(HttpServerTest, MalformedRequests) {
  struct Case {
    std::string_view bytes;
    int status;
  };
  const std::string long_line = str_cat("GET /", std::string(2000, 'a'));
  const std::string long_head = get_text("/", str_cat("A: ", std::string(2000, 'a'), "\r\n"));
  const std::string many_fields = [] {
    std::string fields;
    for (int i = 0; i < 500; ++i) {
      fields += "a:\r\n";
    }
    return get_text("/", fields);
  }();
#define HEAD "Host: localhost\r\nContent-Type: application/json\r\n"
  for (const Case& one : std::vector<Case>{
           {"\x16\x03\x01\x02", 400},
           {"GET / HTTP/1.1\n\n", 400},
           {"GET / HTTP/1.1\r\nHost: localhost\n\r\n", 400},
           {"GET / HTTP/1.1\r\nHost: localhost\rA: b\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\nHost: localhost\r\n folded\r\n\r\n", 400},
           {std::string_view("GET / HTTP/1.1\r\nHost: local\0host\r\n\r\n", 37), 400},
           {"GET /\r\n\r\n", 400},
           {"GET / HTTP/2.0\r\n" HEAD "\r\n", 400},
           {"GET / HTTP/0.9\r\n" HEAD "\r\n", 400},
           {"GET / HTTP/1.1 \r\n" HEAD "\r\n", 400},
           {"GET  / HTTP/1.1\r\n" HEAD "\r\n", 400},
           {"GET / http/1.1\r\n" HEAD "\r\n", 400},
           {"G(T / HTTP/1.1\r\n" HEAD "\r\n", 400},
           {"GET a HTTP/1.1\r\n" HEAD "\r\n", 400},
           {"GET /../a HTTP/1.1\r\n" HEAD "\r\n", 400},
           {"GET /%00 HTTP/1.1\r\n" HEAD "\r\n", 400},
           {"CONNECT localhost:80 HTTP/1.1\r\n" HEAD "\r\n", 400},
           {"GET / HTTP/1.1\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\n: localhost\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\nHost: attacker.example\r\n\r\n", 403},
           {"GET http://attacker.example/ HTTP/1.1\r\n" HEAD "\r\n", 403},
           {"GET / HTTP/1.1\r\n" HEAD "Expect: tea\r\n\r\n", 417},
           {"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", 415},
           {"POST / HTTP/1.1\r\n" HEAD "Content-Encoding: gzip\r\n\r\n", 415},
           {"POST / HTTP/1.1\r\n" HEAD "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400},
           {"POST / HTTP/1.1\r\n" HEAD "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400},
           {"POST / HTTP/1.1\r\n" HEAD "Content-Length: -2\r\n\r\n{}", 400},
           {"POST / HTTP/1.1\r\n" HEAD "Content-Length: 0x2\r\n\r\n{}", 400},
           {"POST / HTTP/1.1\r\n" HEAD "Content-Length: 99999999999999999999\r\n\r\n", 400},
           {"POST / HTTP/1.1\r\n" HEAD "Content-Length: 9999999999999999999\r\n\r\n", 400},
           {"POST / HTTP/1.1\r\n" HEAD "Content-Length: 1001\r\n\r\n", 413},
           {"POST / HTTP/1.1\r\n" HEAD
            "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400},
           {"POST / HTTP/1.1\r\n" HEAD
            "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
            400},
           {"POST / HTTP/1.1\r\n" HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400},
           {"POST / HTTP/1.1\r\n" HEAD "Transfer-Encoding: identity\r\n\r\n", 400},
           {"POST / HTTP/1.1\r\n" HEAD "Transfer-Encoding: xchunked\r\n\r\n", 400},
           {"POST / HTTP/1.0\r\n" HEAD "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
           {"POST / HTTP/1.1\r\n" HEAD "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
           {"POST / HTTP/1.1\r\n" HEAD "Transfer-Encoding: chunked\r\n\r\n3e9\r\n", 0},
           {long_line, 414},
           {long_head, 431},
           {many_fields, 431},
       }) {
    Client client(server_.port());
    ASSERT_TRUE(client.send(one.bytes));
    if (one.status == 0) {  // 413 only when the bytes come
      ASSERT_TRUE(client.send(std::string(1001, ' ')));
    }
    const Answer got = client.read();
    EXPECT_EQ(got.status, one.status == 0 ? 413 : one.status) << one.bytes;
    EXPECT_EQ(got.header("Connection"), "close") << one.bytes;
    EXPECT_TRUE(client.is_closed()) << one.bytes;
  }
#undef HEAD
  EXPECT_EQ(server_.statistics().requests, 0);
  EXPECT_TRUE(holds_soon([this] { return server_.statistics().open_connections == 1; }));
}

TEST_F(HttpServerTest, ErrorsHaveTheBodyOfTheApplication) {
  HttpOptions options = local_options();
  options.error_body = [](int status, std::string_view message) {
    return str_cat("<", status, " ", message, ">");
  };
  HttpServer server(options, &answer);
  Client client(server.port());
  EXPECT_EQ(client.get("/drop").body, "<500 the request was dropped without an answer>");
  EXPECT_EQ(client.get("/..").body, "<400 the path has a segment '..'>");
}

TEST_F(HttpServerTest, ManyConnectionsAtOnce) {
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(std::make_unique<Client>(server_.port()));
  }
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < clients.size(); ++i) {
      EXPECT_TRUE(clients[i]->send(get_text(str_cat("/", i))));
    }
    for (size_t i = 0; i < clients.size(); ++i) {
      EXPECT_EQ(clients[i]->read().body, str_cat("GET /", i, "? "));
    }
  }
  EXPECT_EQ(server_.statistics().open_connections, 201);
  EXPECT_EQ(server_.statistics().requests, 600);
  clients.clear();
  EXPECT_TRUE(holds_soon([this] { return server_.statistics().open_connections == 1; }));
}

TEST_F(HttpServerTest, APortThatIsTaken) {
  HttpOptions options = local_options();
  options.port = server_.port();
  try {
    const HttpServer second(options, &answer);
    FAIL() << "listens twice";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_EQ(error.what(), str_cat("cannot listen on 127.0.0.1 port ", server_.port(),
                                    ": Address already in use; choose another address or port"));
  }
}

TEST_F(HttpServerTest, StopAcceptingLetsRequestsFinish) {
  EXPECT_EQ(client_.get("/").status, 200);
  server_.stop_accepting();
  EXPECT_FALSE(Client(server_.port()).send("x"));
  const Answer got = client_.get("/");
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.header("Connection"), "close");
  EXPECT_TRUE(client_.is_closed());
}

}  // namespace
}  // namespace tessera::server
