#include "intake/fetch_rules.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/check.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace tessera::intake {
namespace {

// `pattern` is "host" or "*.domain", in any case; `host` is in lower case.
bool matches(std::string_view pattern, std::string_view host) {
  if (!pattern.starts_with("*.")) {
    return is_equal_in_any_case(pattern, host);
  }
  const std::string_view suffix = pattern.substr(1);  // ".domain"
  return host.size() > suffix.size() &&
         is_equal_in_any_case(suffix, host.substr(host.size() - suffix.size()));
}

bool is_allowed(const IpAddress& address, const FetchRules& rules) {
  const Reach reach = kind_of(address).reach;
  return reach == Reach::global || (reach == Reach::intranet && rules.allows_private_hosts);
}

std::string list_of(const std::vector<int>& ports) {
  std::string out;
  for (const int port : ports) {
    out += str_cat(out.empty() ? "" : ", ", port);
  }
  return out;
}

}  // namespace

std::string_view fetch_fault_name(FetchFault fault) {
  switch (fault) {
    case FetchFault::disabled:
      return "disabled";
    case FetchFault::bad_url:
      return "bad_url";
    case FetchFault::blocked:
      return "blocked";
    case FetchFault::unknown_host:
      return "unknown_host";
    case FetchFault::denied:
      return "denied";
    case FetchFault::too_large:
      return "too_large";
    case FetchFault::too_many_redirects:
      return "too_many_redirects";
    case FetchFault::unreachable:
      return "unreachable";
    case FetchFault::far_error:
      return "far_error";
    case FetchFault::bad_response:
      return "bad_response";
    case FetchFault::timed_out:
      return "timed_out";
    case FetchFault::cancelled:
      return "cancelled";
  }
  TESSERA_UNREACHABLE();
}

bool is_clients_fault(FetchFault fault) {
  switch (fault) {
    case FetchFault::disabled:
    case FetchFault::bad_url:
    case FetchFault::blocked:
    case FetchFault::unknown_host:
    case FetchFault::denied:
    case FetchFault::too_large:
    case FetchFault::too_many_redirects:
      return true;
    case FetchFault::unreachable:
    case FetchFault::far_error:
    case FetchFault::bad_response:
    case FetchFault::timed_out:
    case FetchFault::cancelled:
      return false;
  }
  TESSERA_UNREACHABLE();
}

std::string host_text(const HttpUrl& url) {
  const std::string_view origin = url.origin;
  return quoted(origin.substr(origin.find("//") + 2), 80);
}

std::optional<FetchRefusal> check_host(const HttpUrl& url, const FetchRules& rules) {
  if (!rules.allowed_hosts.empty() &&
      std::ranges::none_of(rules.allowed_hosts, [&url](const std::string& pattern) {
        return matches(pattern, url.host);
      })) {
    return FetchRefusal{FetchFault::blocked,
                        str_cat("host ", host_text(url),
                                " is not on the list of hosts that pictures are fetched from; "
                                "send the picture itself as base64")};
  }
  if (!rules.allows_private_hosts && !rules.allowed_ports.empty() &&
      std::ranges::count(rules.allowed_ports, url.port) == 0) {
    return FetchRefusal{FetchFault::blocked,
                        str_cat("port ", url.port, " is not allowed; pictures are fetched from ",
                                "these ports: ", list_of(rules.allowed_ports))};
  }
  return std::nullopt;
}

std::optional<FetchRefusal> check_addresses(const HttpUrl& url,
                                            std::span<const IpAddress> addresses,
                                            const FetchRules& rules) {
  if (std::ranges::all_of(
          addresses, [&rules](const IpAddress& address) { return is_allowed(address, rules); })) {
    return std::nullopt;
  }
  // The kind of an address in the URL is no news to the client; that of a name would be.
  const std::string what = url.address.has_value()
                               ? str_cat(" is a ", kind_of(*url.address).name, " address")
                               : std::string(" has an address that is not public");
  return FetchRefusal{
      FetchFault::blocked,
      str_cat("host ", host_text(url), what,
              "; give a URL of the public internet, or send the picture itself as base64")};
}

std::optional<FetchRefusal> check_redirect(const HttpUrl& from, const HttpUrl& to) {
  if (from.is_https && !to.is_https) {
    return FetchRefusal{FetchFault::blocked,
                        str_cat("host ", host_text(from),
                                " redirects from https to http, which is not followed; give the "
                                "URL of the picture")};
  }
  return std::nullopt;
}

}  // namespace tessera::intake
