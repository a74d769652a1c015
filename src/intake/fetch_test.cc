// What may be fetched: hosts, ports, addresses and redirects. Bodies: fetch_transfer_test.cc.
#include "intake/fetch.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/str_cat.h"
#include "intake/decode.h"
#include "tests/support/fetched.h"
#include "tests/support/json_lines.h"
#include "tests/support/scripted_http_server.h"

namespace tessera::intake {
namespace {

using test::fetched;
using test::local_rules;
using test::ScriptedHttpServer;
using test::ScriptedResolver;
using test::verdict;
using Connection = ScriptedHttpServer::Connection;

constexpr std::string_view kLoopback = "127.0.0.1";

// Answers "/to?URL" with a redirect to URL, "/N" with one to "/N-1", and all else with its path.
void redirect_or_echo(Connection& client) {
  const std::string path = client.path();
  if (path.starts_with("/to?")) {
    client.answer("302 Found", str_cat("Location: ", path.substr(4), "\r\nContent-Length: 0\r\n"),
                  "");
  } else if (int left = 0; parse_number(path.substr(1), left) && left > 0) {
    client.answer("301 Moved", str_cat("Location: /", left - 1, "\r\n"), "body of the redirect");
  } else {
    client.answer("200 OK", "", path);
  }
}

std::string redirected_to(const ScriptedHttpServer& server, std::string_view target,
                          const FetchRules& rules = local_rules()) {
  return fetched(server.url(str_cat("/to?", target)), rules);
}

TEST(Fetch, APictureArrives) {
  const std::vector<std::byte> picture =
      read_image_file(test::golden_path("image/files/png_rgb8.png"));
  ScriptedHttpServer server([&picture](Connection& client) {
    client.answer("200 OK", str_cat("Content-Length: ", picture.size(), "\r\n"),
                  {reinterpret_cast<const char*>(picture.data()), picture.size()});
  });
  ScriptedResolver resolver;
  const FetchResult result = fetch(server.url("/a.png"), local_rules(), resolver, {});
  ASSERT_TRUE(std::holds_alternative<std::vector<std::byte>>(result)) << test::text_of(result);
  EXPECT_EQ(std::get<0>(result), picture);
  EXPECT_TRUE(std::holds_alternative<DecodedImage>(try_decode_image(std::get<0>(result))));
}

TEST(Fetch, TheRequestSaysNothingAboutThisMachine) {
  ScriptedHttpServer server(redirect_or_echo);
  EXPECT_EQ(fetched(server.url("/a/../b?c=%20#d")), "ok: /b?c=%20");
  EXPECT_EQ(server.requests(), std::vector<std::string>{str_cat(
                                   "GET /b?c=%20 HTTP/1.1\r\nHost: 127.0.0.1:", server.port(),
                                   "\r\nUser-Agent: tessera\r\nAccept: */*\r\n"
                                   "Accept-Encoding: gzip, deflate\r\n\r\n")});
}

TEST(Fetch, IsOffUnlessSwitchedOn) {
  ScriptedHttpServer server(redirect_or_echo);
  FetchRules rules = local_rules();
  rules.is_enabled = false;
  EXPECT_EQ(fetched(server.url("/a"), rules),
            "disabled: pictures are not fetched from URLs here; send the picture itself as base64");
  EXPECT_FALSE(FetchRules().is_enabled);
  EXPECT_EQ(server.connections(), 0);
}

TEST(Fetch, BadUrlsAreTheClientsFault) {
  for (const std::string_view url :
       {"", "a.png", "file:///etc/passwd", "ftp://127.0.0.1/", "http://user:word@127.0.0.1/",
        "http://0x7f000001/", "http://127.1/", "http://[fe80::1%25lo]/", "http://127.0.0.1:0/"}) {
    EXPECT_EQ(verdict(fetched(url)), "bad_url") << url;
  }
}

TEST(Fetch, AddressesThatAreNotGlobalAreBlocked) {
  ScriptedHttpServer server(redirect_or_echo);
  FetchRules rules = local_rules();
  rules.allows_private_hosts = false;
  rules.allowed_ports.clear();
  EXPECT_EQ(fetched(server.url("/a"), rules),
            str_cat("blocked: host '127.0.0.1:", server.port(),
                    "' is a loopback address; give a URL of the public internet, or send the "
                    "picture itself as base64"));
  for (const std::string_view host : {"0.0.0.0",
                                      "10.0.0.1",
                                      "169.254.169.254",
                                      "100.100.100.200",
                                      "192.168.0.1",
                                      "224.0.0.1",
                                      "255.255.255.255",
                                      "[::]",
                                      "[::1]",
                                      "[::ffff:127.0.0.1]",
                                      "[::ffff:7f00:1]",
                                      "[::127.0.0.1]",
                                      "[64:ff9b::7f00:1]",
                                      "[64:ff9b:1::1]",
                                      "[2002:7f00:1::]",
                                      "[2001::1]",
                                      "[fe80::1]",
                                      "[fd00:ec2::254]",
                                      "[fec0::1]",
                                      "[ff02::1]",
                                      "[2001:db8::1]"}) {
    EXPECT_EQ(verdict(fetched(server.url("/a", host), rules)), "blocked") << host;
  }
  EXPECT_EQ(server.connections(), 0);
}

TEST(Fetch, OneAddressThatIsNotGlobalBlocksTheHost) {
  FetchRules rules = local_rules();
  rules.allows_private_hosts = false;
  for (const std::string_view address :
       {"127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0", "::1", "::ffff:127.0.0.1",
        "::ffff:8.8.8.8", "64:ff9b::a00:1", "2002:a00:1::1", "fd00::1", "fe80::1"}) {
    for (const bool is_first : {true, false}) {
      std::vector<std::string> addresses = {"8.8.8.8", "2606:4700::1"};
      addresses.insert(is_first ? addresses.begin() : addresses.end(), std::string(address));
      ScriptedResolver resolver({{"evil.test", {addresses}}});
      // What a name of an intranet stands for is not said.
      EXPECT_EQ(fetched("http://evil.test/secret?secret", rules, resolver),
                "blocked: host 'evil.test' has an address that is not public; give a URL of the "
                "public internet, or send the picture itself as base64")
          << address;
    }
  }
}

TEST(Fetch, PrivateHostsMayBeAllowedButNotLinkLocalOnes) {
  ScriptedHttpServer server(redirect_or_echo);
  ScriptedResolver resolver({{"intranet.test", {{std::string(kLoopback)}}},
                             {"metadata.test", {{"169.254.169.254"}}},
                             {"mapped.test", {{"::ffff:127.0.0.1"}}},
                             {"any.test", {{"0.0.0.0"}}}});
  EXPECT_EQ(fetched(server.url("/a", "intranet.test"), local_rules(), resolver), "ok: /a");
  for (const std::string_view host : {"metadata.test", "mapped.test", "any.test"}) {
    EXPECT_EQ(verdict(fetched(server.url("/a", host), local_rules(), resolver)), "blocked") << host;
  }
  EXPECT_EQ(server.connections(), 1);
}

// No such name exists anywhere else: that the server is reached shows that libcurl was given the
// checked addresses and asked nobody.
TEST(Fetch, TheConnectionIsPinnedToTheCheckedAddresses) {
  ScriptedHttpServer server(redirect_or_echo);
  ScriptedResolver resolver({{"pictures.test", {{std::string(kLoopback)}}}});
  EXPECT_EQ(fetched(server.url("/a", "Pictures.TEST"), local_rules(), resolver), "ok: /a");
  EXPECT_EQ(resolver.asked(), std::vector<std::string>{"pictures.test"});
  EXPECT_NE(server.requests().at(0).find(str_cat("Host: pictures.test:", server.port(), "\r\n")),
            std::string::npos);
}

TEST(Fetch, TheNextAddressIsTriedWhenOneFails) {
  ScriptedHttpServer server(redirect_or_echo);
  ScriptedResolver resolver({{"pictures.test", {{"127.0.0.9", "::1", std::string(kLoopback)}}}});
  EXPECT_EQ(fetched(server.url("/a", "pictures.test"), local_rules(), resolver), "ok: /a");
}

TEST(Fetch, EachRequestLooksItsHostUpOnce) {
  ScriptedHttpServer server(redirect_or_echo);
  ScriptedResolver resolver({{"a.test", {{std::string(kLoopback)}}}});
  EXPECT_EQ(fetched(server.url("/3", "a.test"), local_rules(), resolver), "ok: /0");
  EXPECT_EQ(resolver.asked().size(), 4U);
}

TEST(Fetch, ANameThatChangesItsAddressIsCheckedAgain) {
  ScriptedHttpServer server(redirect_or_echo);
  ScriptedResolver resolver({{"rebinding.test", {{std::string(kLoopback)}, {"169.254.169.254"}}}});
  EXPECT_EQ(fetched(server.url("/1", "rebinding.test"), local_rules(), resolver),
            str_cat("blocked: after 1 redirect: host 'rebinding.test:", server.port(),
                    "' has an address that is not public; give a URL of the public internet, or "
                    "send the picture itself as base64"));
  EXPECT_EQ(resolver.asked().size(), 2U);
  EXPECT_EQ(server.connections(), 1);
}

TEST(Fetch, UnknownHostsAndFailingNameServices) {
  class Failing final : public Resolver {
   public:
    explicit Failing(Resolution::Status status) : status_(status) {}
    Resolution resolve(const std::string&, const Deadline&) override { return {status_, {}}; }

   private:
    Resolution::Status status_;
  };
  const auto verdict_for = [](Resolution::Status status) {
    Failing resolver(status);
    return verdict(fetched("http://a.test/", local_rules(), resolver));
  };
  EXPECT_EQ(verdict_for(Resolution::Status::unknown_host), "unknown_host");
  EXPECT_EQ(verdict_for(Resolution::Status::found), "unknown_host");  // no address
  EXPECT_EQ(verdict_for(Resolution::Status::failed), "far_error");
  EXPECT_EQ(verdict_for(Resolution::Status::busy), "far_error");
  EXPECT_EQ(verdict_for(Resolution::Status::timed_out), "timed_out");
}

TEST(Fetch, OnlyAllowedPortsAreReached) {
  FetchRules rules = local_rules();
  rules.allows_private_hosts = false;
  ScriptedResolver resolver({{"a.test", {{"10.0.0.1"}}}});
  EXPECT_EQ(fetched("http://a.test:22/", rules, resolver),
            "blocked: port 22 is not allowed; pictures are fetched from these ports: 80, 443");
  EXPECT_TRUE(resolver.asked().empty());
  // These ports are allowed: the address is what blocks them.
  for (const std::string_view url : {"http://a.test/", "https://a.test/", "http://a.test:443/"}) {
    EXPECT_NE(fetched(url, rules, resolver).find("not public"), std::string::npos) << url;
  }
  rules.allowed_ports = {8080};
  EXPECT_EQ(verdict(fetched("http://a.test/", rules, resolver)), "blocked");
  rules.allowed_ports.clear();
  EXPECT_NE(fetched("http://a.test:22/", rules, resolver).find("not public"), std::string::npos);
}

TEST(Fetch, TheListOfHostsHoldsForEveryRequest) {
  ScriptedHttpServer server(redirect_or_echo);
  ScriptedResolver resolver({{"good.test", {{std::string(kLoopback)}}},
                             {"a.b.good.test", {{std::string(kLoopback)}}},
                             {"notgood.test", {{std::string(kLoopback)}}},
                             {"one.test", {{std::string(kLoopback)}}}});
  FetchRules rules = local_rules();
  rules.allowed_hosts = {"*.Good.test", "ONE.test"};
  const auto result = [&](std::string_view host, std::string_view path) {
    return fetched(server.url(path, host), rules, resolver);
  };
  EXPECT_EQ(result("one.test", "/a"), "ok: /a");
  EXPECT_EQ(result("a.b.good.test", "/a"), "ok: /a");
  for (const std::string_view host :
       {"good.test", "notgood.test", "x.one.test", "one.test.evil.test", "127.0.0.1", "[::1]"}) {
    EXPECT_EQ(verdict(result(host, "/a")), "blocked") << host;
  }
  EXPECT_EQ(verdict(result("one.test", str_cat("/to?", server.url("/a", "good.test")))), "blocked");
  EXPECT_EQ(result("one.test", str_cat("/to?", server.url("/a", "a.b.good.test"))), "ok: /a");
  rules.allowed_hosts = {"::1", "127.0.0.1"};
  EXPECT_EQ(result("127.0.0.1", "/a"), "ok: /a");
  EXPECT_EQ(verdict(result("[0::1]", "/a")), "unreachable");  // allowed, nobody listens
}

TEST(Fetch, RedirectsAreFollowedUpToTheLimit) {
  ScriptedHttpServer server(redirect_or_echo);
  EXPECT_EQ(fetched(server.url("/5")), "ok: /0");
  EXPECT_EQ(fetched(server.url("/6")),
            "too_many_redirects: more than 5 redirects; give the URL of the picture");
  EXPECT_EQ(server.connections(), 12);
  FetchRules rules = local_rules();
  rules.max_redirects = 0;
  EXPECT_EQ(verdict(fetched(server.url("/1"), rules)), "too_many_redirects");
  EXPECT_EQ(fetched(server.url("/a"), rules), "ok: /a");
}

TEST(Fetch, EveryKindOfRedirectIsFollowed) {
  for (const std::string_view status : {"301 A", "302 B", "303 C", "307 D", "308 E"}) {
    ScriptedHttpServer server([status](Connection& client) {
      if (client.path() == "/a") {
        client.answer(status, "lOcAtIoN:   /b  \r\n", "");
      } else {
        client.answer("200 OK", "", client.path());
      }
    });
    EXPECT_EQ(fetched(server.url("/a")), "ok: /b") << status;
  }
}

TEST(Fetch, LocationsAreAbsoluteOrRelative) {
  ScriptedHttpServer server(redirect_or_echo);
  EXPECT_EQ(redirected_to(server, "b"), "ok: /b");
  EXPECT_EQ(redirected_to(server, "/b/c"), "ok: /b/c");
  EXPECT_EQ(redirected_to(server, str_cat("//127.0.0.1:", server.port(), "/b")), "ok: /b");
  EXPECT_EQ(redirected_to(server, server.url("/b")), "ok: /b");
}

TEST(Fetch, RedirectsAreCheckedLikeFirstUrls) {
  ScriptedHttpServer server(redirect_or_echo);
  for (const std::string_view target :
       {"file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1/", "data:,a",
        "//user:word@127.0.0.1/", "http://0x7f.1/", "http://2130706433/", "http://017700000001/",
        "//127.1/", "http://127.0.0.1:0/", "http:///a"}) {
    EXPECT_EQ(verdict(redirected_to(server, target)), "bad_url") << target;
  }
  for (const std::string_view target :
       {"http://169.254.169.254/latest/meta-data/", "http://[::ffff:127.0.0.1]/", "http://0.0.0.0/",
        "http://[fe80::1]/", "//[64:ff9b::7f00:1]/"}) {
    EXPECT_EQ(verdict(redirected_to(server, target)), "blocked") << target;
  }
  EXPECT_EQ(verdict(redirected_to(server, "http://unknown.test/")), "unknown_host");
}

TEST(Fetch, HttpsDoesNotLeadToHttp) {
  const auto url = [](std::string_view text) { return std::get<HttpUrl>(parse_http_url(text)); };
  const std::optional<FetchRefusal> refusal =
      check_redirect(url("https://a.test/"), url("http://a.test/"));
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->fault, FetchFault::blocked);
  EXPECT_FALSE(check_redirect(url("https://a.test/"), url("https://b.test/")).has_value());
  EXPECT_FALSE(check_redirect(url("http://a.test/"), url("https://a.test/")).has_value());
  EXPECT_FALSE(check_redirect(url("http://a.test/"), url("http://b.test/")).has_value());
}

TEST(Fetch, ProxiesOfTheEnvironmentAreNotUsed) {
  ScriptedHttpServer proxy([](Connection& client) { client.answer("200 OK", "", "proxy"); });
  ScriptedHttpServer server(redirect_or_echo);
  for (const char* name : {"http_proxy", "ALL_PROXY", "all_proxy"}) {
    ASSERT_EQ(::setenv(name, proxy.url("").c_str(), 1), 0);
  }
  EXPECT_EQ(fetched(server.url("/a")), "ok: /a");
  for (const char* name : {"http_proxy", "ALL_PROXY", "all_proxy"}) {
    ::unsetenv(name);
  }
  EXPECT_EQ(proxy.connections(), 0);
}

TEST(Fetch, MessagesHaveNeitherPathNorQuery) {
  ScriptedHttpServer server(
      [](Connection& client) { client.answer("404 secret", "Set-Cookie: secret\r\n", "secret"); });
  const std::string result = fetched(server.url("/secret?token=secret#secret"));
  EXPECT_EQ(result, str_cat("denied: host '127.0.0.1:", server.port(),
                            "' answers with HTTP status 404; give the URL of a picture that "
                            "anybody may read"));
  ScriptedHttpServer redirecting(redirect_or_echo);
  for (const std::string_view target :
       {"http://a.test:0/secret", "ftp://secret/", "//secret@a/",
        "http://169.254.1.1/secret?secret", "//unknown.test/secret"}) {
    EXPECT_EQ(redirected_to(redirecting, target).find("secret"), std::string::npos) << target;
  }
}

TEST(Fetch, EveryFaultHasANameAndABlame) {
  const std::vector<std::pair<FetchFault, bool>> faults = {{FetchFault::disabled, true},
                                                           {FetchFault::bad_url, true},
                                                           {FetchFault::blocked, true},
                                                           {FetchFault::unknown_host, true},
                                                           {FetchFault::denied, true},
                                                           {FetchFault::too_large, true},
                                                           {FetchFault::too_many_redirects, true},
                                                           {FetchFault::unreachable, false},
                                                           {FetchFault::far_error, false},
                                                           {FetchFault::bad_response, false},
                                                           {FetchFault::timed_out, false},
                                                           {FetchFault::cancelled, false}};
  std::vector<std::string_view> names;
  for (const auto& [fault, is_clients] : faults) {
    EXPECT_EQ(is_clients_fault(fault), is_clients) << fetch_fault_name(fault);
    EXPECT_EQ(std::count(names.begin(), names.end(), fetch_fault_name(fault)), 0);
    names.push_back(fetch_fault_name(fault));
  }
}

}  // namespace
}  // namespace tessera::intake
