// What servers do: bodies, lengths, encodings, statuses and time.
#include "intake/fetch_transfer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>

#include "base/str_cat.h"
#include "tests/support/deflated.h"
#include "tests/support/fetched.h"
#include "tests/support/scripted_http_server.h"

namespace tessera::intake {
namespace {

using std::chrono::milliseconds;
using test::fetched;
using test::local_rules;
using test::ScriptedHttpServer;
using test::verdict;
using Connection = ScriptedHttpServer::Connection;

constexpr int64_t kBudget = 10'000;
constexpr milliseconds kSilence{60'000};  // of a server whose client should not wait so long
constexpr milliseconds kSoon{30'000};     // on a machine that does other things too

FetchRules small_rules() {
  FetchRules rules = local_rules();
  rules.max_bytes = kBudget;
  return rules;
}

// What becomes of an answer that is sent as it is, and the connection closed.
std::string fetched_answer(std::string_view bytes, const FetchRules& rules = small_rules()) {
  ScriptedHttpServer server([bytes](Connection& client) { client.send(bytes); });
  return fetched(server.url("/"), rules);
}

std::string fetched_answer(std::string_view status, std::string_view headers,
                           std::string_view body) {
  return fetched_answer(str_cat("HTTP/1.1 ", status, "\r\n", headers, "\r\n", body));
}

std::string fetched_body(std::string_view headers, std::string_view body) {
  return fetched_answer("200 OK", headers, body);
}

std::string chunk(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string size;
  for (size_t left = bytes.size(); size.empty() || left > 0; left /= 16) {
    size.insert(size.begin(), kDigits[left % 16]);
  }
  return str_cat(size, "\r\n", bytes, "\r\n");
}

TEST(FetchTransfer, LengthsAnnouncedOrNot) {
  EXPECT_EQ(fetched_body("Content-Length: 7\r\n", "picture"), "ok: picture");
  EXPECT_EQ(fetched_body("", "picture"), "ok: picture");  // as long as the connection
  EXPECT_EQ(fetched_answer("HTTP/1.0 200 OK\r\n\r\npicture"), "ok: picture");
  EXPECT_EQ(
      fetched_body("Transfer-Encoding: chunked\r\n", chunk("pic") + chunk("ture") + chunk("")),
      "ok: picture");
  EXPECT_EQ(
      fetched_body("Transfer-Encoding: chunked\r\n",
                   "7;name=value\r\npicture\r\n0\r\nLocation: /b\r\nContent-Length: 9\r\n\r\n"),
      "ok: picture");
  EXPECT_EQ(fetched_answer("203 Non-Authoritative", "", "picture"), "ok: picture");
  EXPECT_EQ(fetched_answer("HTTP/1.1 103 Early\r\nLocation: /b\r\nContent-Length: 99999\r\n\r\n"
                           "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\npicture"),
            "ok: picture");
}

TEST(FetchTransfer, ABodyShorterThanAnnouncedIsRefused) {
  const std::string refusal = fetched_body("Content-Length: 8\r\n", "picture");
  EXPECT_EQ(verdict(refusal), "bad_response") << refusal;
  EXPECT_NE(refusal.find("sent less than it announced"), std::string::npos) << refusal;
  for (const std::string& body :
       {chunk("pic"), chunk("pic") + "7\r\npictu", chunk("pic") + "zz\r\npicture\r\n",
        std::string("7\r\npictureX"), std::string("-7\r\npicture\r\n")}) {
    EXPECT_EQ(verdict(fetched_body("Transfer-Encoding: chunked\r\n", body)), "bad_response")
        << body;
  }
}

TEST(FetchTransfer, WhatFollowsTheAnnouncedBodyIsNotPartOfIt) {
  EXPECT_EQ(fetched_body("Content-Length: 3\r\n", "picture"), "ok: pic");
  EXPECT_EQ(fetched_body("Transfer-Encoding: chunked\r\n", chunk("pic") + chunk("") + "ture"),
            "ok: pic");
}

TEST(FetchTransfer, AnAnnouncedLengthAboveTheBudgetIsRefusedAtOnce) {
  const std::string full(static_cast<size_t>(kBudget), 'x');
  EXPECT_EQ(fetched_body(str_cat("Content-Length: ", kBudget, "\r\n"), full), "ok: " + full);
  for (const std::string& length : {str_cat(kBudget + 1), std::string("9223372036854775807"),
                                    std::string("99999999999999999999999")}) {
    ScriptedHttpServer server([&length](Connection& client) {
      client.answer("200 OK", str_cat("Content-Length: ", length, "\r\n"), "");
      client.wait(kSilence);  // the refusal waits for no byte of the body
    });
    const auto start = Deadline::Clock::now();
    EXPECT_EQ(verdict(fetched(server.url("/"), small_rules())), "too_large") << length;
    EXPECT_LT(Deadline::Clock::now() - start, kSoon) << length;
  }
  for (const std::string_view length : {"-1", "abc", ""}) {
    const std::string result = fetched_body(str_cat("Content-Length: ", length, "\r\n"), "picture");
    EXPECT_NE(verdict(result), "timed_out") << length << result;
  }
}

TEST(FetchTransfer, EndlessBodiesEndAtTheBudget) {
  for (const bool is_chunked : {false, true}) {
    std::atomic<int64_t> sent = 0;
    ScriptedHttpServer server([&](Connection& client) {
      const std::string block(1000, 'x');
      client.answer("200 OK", is_chunked ? "Transfer-Encoding: chunked\r\n" : "", "");
      while (client.send(is_chunked ? chunk(block) : block)) {
        sent += 1000;
      }
    });
    EXPECT_EQ(fetched(server.url("/"), small_rules()),
              str_cat("too_large: the answer of host '127.0.0.1:", server.port(),
                      "' has more than 10000 bytes; send a smaller picture"));
  }
}

TEST(FetchTransfer, CompressedBodiesAreUnpacked) {
  const std::string body(5000, 'x');
  EXPECT_EQ(fetched_body("Content-Encoding: gzip\r\n", test::deflated(body, 31)), "ok: " + body);
  EXPECT_EQ(fetched_body("Content-Encoding: deflate\r\n", test::deflated(body, 15)), "ok: " + body);
  EXPECT_EQ(fetched_body("Content-Encoding: deflate\r\n", test::deflated(body, -15)),
            "ok: " + body);
  EXPECT_EQ(fetched_body("Content-Encoding: identity\r\n", body), "ok: " + body);
  EXPECT_EQ(verdict(fetched_body("Content-Encoding: gzip\r\n", "no gzip")), "bad_response");
}

TEST(FetchTransfer, ACompressedBodyThatIsCutShortIsRefused) {
  const std::string refusal = fetched_body("Content-Encoding: gzip\r\nContent-Length: 20\r\n",
                                           test::deflated("picture", 31).substr(0, 20));
  EXPECT_NE(refusal.find("sent compressed data that is cut short"), std::string::npos) << refusal;
}

TEST(FetchTransfer, TheBudgetCountsUnpackedAndReceivedBytes) {
  const std::string full(static_cast<size_t>(kBudget), 'x');
  EXPECT_EQ(fetched_body("Content-Encoding: gzip\r\n", test::deflated(full, 31)), "ok: " + full);
  EXPECT_EQ(verdict(fetched_body("Content-Encoding: gzip\r\n", test::deflated(full + "x", 31))),
            "too_large");
  // 100 MB in 100 kB.
  const std::string bomb = test::deflated(std::string(100'000'000, '\0'), 31);
  FetchRules rules = local_rules();
  rules.max_bytes = 1'000'000;
  EXPECT_EQ(verdict(fetched_answer(
                str_cat("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", bomb), rules)),
            "too_large");
  // Received bytes that unpack to nothing: blocks without content.
  std::string empty_blocks("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
  for (int64_t i = 0; i < kBudget; ++i) {
    empty_blocks += std::string("\0\0\0\xff\xff", 5);
  }
  EXPECT_EQ(verdict(fetched_body("Content-Encoding: gzip\r\n", empty_blocks)), "too_large");
}

TEST(FetchTransfer, EncodingsThatWereNotAskedForAreRefused) {
  const std::string twice = test::deflated(test::deflated("picture", 31), 31);
  for (const std::string_view headers :
       {"Content-Encoding: br\r\n", "Content-Encoding: zstd\r\n", "Content-Encoding: compress\r\n",
        "Content-Encoding: gzip, gzip\r\n", "Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n",
        "Transfer-Encoding: gzip\r\n", "Transfer-Encoding: gzip, chunked\r\n"}) {
    const std::string refusal = fetched_body(headers, twice);
    EXPECT_NE(refusal.find("sent an encoding that was not asked for"), std::string::npos)
        << headers << refusal;
  }
}

TEST(FetchTransfer, StatusesSayWhoseFaultItIs) {
  for (const int status : {400, 401, 403, 404, 410, 418, 451}) {
    EXPECT_EQ(verdict(fetched_answer(str_cat(status, " X"), "", "page")), "denied") << status;
  }
  for (const int status : {408, 425, 429, 500, 502, 503, 504, 599}) {
    EXPECT_EQ(verdict(fetched_answer(str_cat(status, " X"), "", "page")), "far_error") << status;
  }
  for (const int status : {101, 201, 202, 204, 205, 206, 226, 300, 304, 305, 306}) {
    EXPECT_EQ(verdict(fetched_answer(str_cat(status, " X"), "Location: /b\r\n", "page")),
              "bad_response")
        << status;
  }
  EXPECT_EQ(verdict(fetched_answer("302 Found", "", "")), "bad_response");
  EXPECT_EQ(verdict(fetched_answer("302 Found", "Location:\r\n", "")), "bad_response");
}

TEST(FetchTransfer, TheBodyOfARefusalIsNotRead) {
  std::promise<bool> was_closed;
  ScriptedHttpServer server([&was_closed](Connection& client) {
    client.answer("404 Not Found", "Content-Length: 99999999999\r\n", "");
    was_closed.set_value(!client.wait(kSilence));
  });
  EXPECT_EQ(verdict(fetched(server.url("/"), small_rules())), "denied");
  EXPECT_TRUE(was_closed.get_future().get());
}

TEST(FetchTransfer, AnswersThatAreNotHttpAreRefused) {
  for (const std::string_view answer :
       {"", "picture", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-",
        "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 abc\r\n\r\npicture", "HTTP/9.9 200 OK\r\n\r\npicture",
        "HTTP/1.1 200 OK\r\nno header\r\n\r\n", "\r\n\r\npicture", "SSH-2.0-OpenSSH_9.2\r\n",
        "ICY 200 OK\r\n\r\npicture"}) {
    EXPECT_EQ(verdict(fetched_answer(answer)), "bad_response") << answer;
  }
}

TEST(FetchTransfer, HeadersAreBounded) {
  const std::string line = str_cat("X: ", std::string(1000, 'x'), "\r\n");
  std::string many;
  for (int i = 0; i < 60; ++i) {
    many += line;
  }
  EXPECT_EQ(fetched_body(many, "picture"), "ok: picture");
  EXPECT_NE(fetched_body(many + many, "picture").find("more than 65536 bytes of HTTP headers"),
            std::string::npos);
  EXPECT_EQ(verdict(fetched_body(str_cat("X: ", std::string(200'000, 'x'), "\r\n"), "picture")),
            "bad_response");
  for (const std::string_view endless :
       {"X: y\r\n", "HTTP/1.1 103 Early\r\n\r\n", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}) {
    ScriptedHttpServer server([endless](Connection& client) {
      std::string block;
      while (block.size() < 4000) {
        block += endless;
      }
      client.send("HTTP/1.1 100 Continue\r\n");
      while (client.send(block)) {
      }
    });
    EXPECT_EQ(verdict(fetched(server.url("/"), small_rules())), "bad_response") << endless;
  }
  // Trailers count too.
  ScriptedHttpServer server([](Connection& client) {
    client.answer("200 OK", "Transfer-Encoding: chunked\r\n", chunk("picture") + "0\r\n");
    while (client.send("X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n")) {
    }
  });
  EXPECT_EQ(verdict(fetched(server.url("/"), small_rules())), "bad_response");
}

TEST(FetchTransfer, SlowAnswersEndAtTheTotalTimeout) {
  const std::vector<ScriptedHttpServer::Script> scripts = {
      [](Connection& client) { client.wait(kSilence); },  // silence
      [](Connection& client) {                            // a slow head
        client.send("HTTP/1.1 200 OK\r\n");
        while (client.send("X: y\r\n") && client.wait(milliseconds(20))) {
        }
      },
      [](Connection& client) {  // a slow body
        client.answer("200 OK", "Content-Length: 5000\r\n", "");
        while (client.send("x") && client.wait(milliseconds(20))) {
        }
      },
      [](Connection& client) {  // each redirect takes a while
        client.wait(milliseconds(70));
        client.answer("302 Found", "Location: /\r\n", "");
      },
  };
  FetchRules rules = small_rules();
  rules.total_timeout = milliseconds(200);
  for (const ScriptedHttpServer::Script& script : scripts) {
    ScriptedHttpServer server(script);
    const auto start = Deadline::Clock::now();
    EXPECT_EQ(verdict(fetched(server.url("/"), rules)), "timed_out");
    EXPECT_GE(Deadline::Clock::now() - start, milliseconds(190));
    EXPECT_LT(Deadline::Clock::now() - start, kSoon);
  }
}

TEST(FetchTransfer, TheEarlierDeadlineCounts) {
  ScriptedHttpServer server([](Connection& client) { client.wait(kSilence); });
  test::ScriptedResolver resolver;
  const auto start = Deadline::Clock::now();
  EXPECT_EQ(
      verdict(fetched(server.url("/"), small_rules(), resolver, {.at = start + milliseconds(100)})),
      "timed_out");
  EXPECT_LT(Deadline::Clock::now() - start, kSoon);
  EXPECT_EQ(verdict(fetched(server.url("/"), small_rules(), resolver, {.at = start})), "timed_out");
}

TEST(FetchTransfer, HangingLookupsAndConnectionsEndInTime) {
  FetchRules rules = small_rules();
  rules.total_timeout = milliseconds(100);
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  SystemResolver resolver([ended](const std::string&) {
    ended.wait();
    return Resolution{};
  });
  EXPECT_EQ(fetched("http://slow.test/", rules, resolver),
            "timed_out: the name of host 'slow.test' was not found in time; try again later, or "
            "send the picture itself as base64");
  end.set_value();
}

TEST(FetchTransfer, ACancelledFetchEndsSoon) {
  std::promise<void> asked;
  ScriptedHttpServer server([&asked](Connection& client) {
    asked.set_value();
    client.wait(kSilence);
  });
  std::atomic<bool> cancel = false;
  std::future<std::string> result = std::async(std::launch::async, [&] {
    test::ScriptedResolver resolver;
    return fetched(server.url("/"), small_rules(), resolver, {.cancel = &cancel});
  });
  asked.get_future().wait();
  const auto start = Deadline::Clock::now();
  cancel = true;
  EXPECT_EQ(result.get(), "cancelled: nobody waits for the picture any more");
  EXPECT_LT(Deadline::Clock::now() - start, kSoon);
}

TEST(FetchTransfer, RefusedConnectionsAreUnreachable) {
  int port = 0;
  {
    ScriptedHttpServer server([](Connection&) {});
    port = server.port();
  }
  const std::string result = fetched(str_cat("http://127.0.0.1:", port, "/"));
  EXPECT_EQ(result, str_cat("unreachable: host '127.0.0.1:", port,
                            "' accepts no connection; try again later, or send the picture itself "
                            "as base64"));
}

TEST(FetchTransfer, ServersWithoutTlsAreUnreachableByHttps) {
  ScriptedHttpServer server([](Connection& client) { client.answer("200 OK", "", "picture"); });
  EXPECT_EQ(verdict(fetched(str_cat("https://127.0.0.1:", server.port(), "/"))), "unreachable");
}

// The address in the URL is one, the checked addresses are others: whatever libcurl makes of a URL,
// it connects to no other address, and to no other port.
TEST(FetchTransfer, OnlyCheckedAddressesAreConnectedTo) {
  ScriptedHttpServer server([](Connection& client) { client.answer("200 OK", "", "picture"); });
  const FetchRules rules = small_rules();
  const Deadline deadline;
  HttpUrl url = std::get<HttpUrl>(parse_http_url(server.url("/")));
  const std::vector<IpAddress> other = {*parse_ip_address("192.0.2.1"), *parse_ip_address("::1")};
  const auto run = [&](const std::vector<IpAddress>& addresses) {
    const TransferResult result =
        run_transfer({.url = url, .addresses = addresses, .rules = rules, .deadline = deadline});
    const FetchRefusal* refusal = std::get_if<FetchRefusal>(&result);
    return refusal == nullptr ? "ok" : std::string(fetch_fault_name(refusal->fault));
  };
  EXPECT_EQ(run({*url.address}), "ok");
  EXPECT_EQ(run(other), "blocked");
  ++url.port;
  EXPECT_EQ(run({*url.address}), "blocked");
  EXPECT_EQ(server.connections(), 1);
}

TEST(FetchTransfer, ThreadsMayFetchAtTheSameTime) {
  ScriptedHttpServer server([](Connection& client) { client.answer("200 OK", "", client.path()); });
  std::vector<std::future<int>> results;
  for (int thread = 0; thread < 8; ++thread) {
    results.push_back(std::async(std::launch::async, [&server, thread] {
      int right = 0;
      for (int i = 0; i < 10; ++i) {
        const std::string path = str_cat("/", thread, "/", i);
        right += fetched(server.url(path)) == "ok: " + path ? 1 : 0;
      }
      return right;
    }));
  }
  for (std::future<int>& result : results) {
    EXPECT_EQ(result.get(), 10);
  }
}

}  // namespace
}  // namespace tessera::intake
