// What may be fetched, and how a fetch is refused.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "intake/ip_address.h"
#include "intake/url.h"

namespace tessera::intake {

// The limits are those of DeepSeek's API (guide on vision).
struct FetchRules {
  bool is_enabled = false;
  // Also loopback, private, shared and unique local addresses (Reach::intranet), on any port: for
  // tests and intranets. Link-local addresses stay refused, for clouds keep secrets there.
  bool allows_private_hosts = false;
  // "host" or "*.domain", which is any host below the domain but not the domain; empty: all.
  std::vector<std::string> allowed_hosts;
  std::vector<int> allowed_ports = {80, 443};         // empty: all
  int64_t max_bytes = int64_t{32} << 20;              // as received, and after decompression
  std::chrono::milliseconds connect_timeout{10'000};  // of each connection
  std::chrono::milliseconds total_timeout{60'000};    // from first lookup to last byte
  int max_redirects = 5;
  std::string user_agent = "tessera";
  std::string ca_file;  // PEM; issuers of certificates that are trusted; empty: the system's
};

enum class FetchFault {
  // What the client asked for.
  disabled,            // nothing is fetched here
  bad_url,             // also that of a redirect
  blocked,             // a host, port, address or change of scheme that the rules do not allow
  unknown_host,        // the name has no address
  denied,              // HTTP status 4xx
  too_large,           // more than max_bytes
  too_many_redirects,  // more than max_redirects
  // The far side or the network.
  unreachable,   // no connection, or none that can be trusted
  far_error,     // HTTP status 5xx, or no time for us (408, 425, 429); a name service that failed
  bad_response,  // not HTTP, cut short, or no body
  timed_out,
  // Nobody wants the picture any more.
  cancelled,
};

std::string_view fetch_fault_name(FetchFault fault);  // "disabled", "bad_url", ...

// The client can mend it: a 4xx; all others but `cancelled` are the far side's or the network's.
bool is_clients_fault(FetchFault fault);

struct FetchRefusal {
  FetchFault fault;
  // What was found and what to do, one line. Of the URL it has at most host and port, of addresses
  // that a host name has nothing: clients need not learn names of an intranet.
  std::string detail;
};

// "pictures.example:8443", quoted; the port only if it is not the scheme's.
std::string host_text(const HttpUrl& url);

// Nothing if the rules allow this host name and port. Redirects are checked like first URLs.
std::optional<FetchRefusal> check_host(const HttpUrl& url, const FetchRules& rules);

// Nothing if the rules allow every one of the host's addresses.
std::optional<FetchRefusal> check_addresses(const HttpUrl& url,
                                            std::span<const IpAddress> addresses,
                                            const FetchRules& rules);

// Nothing if `from` may redirect to `to`: https does not lead to http.
std::optional<FetchRefusal> check_redirect(const HttpUrl& from, const HttpUrl& to);

}  // namespace tessera::intake
