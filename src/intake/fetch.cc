#include "intake/fetch.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/str_cat.h"
#include "intake/fetch_transfer.h"

namespace tessera::intake {
namespace {

using AddressesResult = std::variant<std::vector<IpAddress>, FetchRefusal>;

FetchRefusal refuse_late(const HttpUrl& url, const Deadline& deadline) {
  if (deadline.cancel != nullptr && deadline.cancel->load(std::memory_order_relaxed)) {
    return {FetchFault::cancelled, "nobody waits for the picture any more"};
  }
  return {FetchFault::timed_out, str_cat("the name of host ", host_text(url),
                                         " was not found in time; try again later, or send the "
                                         "picture itself as base64")};
}

AddressesResult look_up(const HttpUrl& url, Resolver& resolver, const Deadline& deadline) {
  if (url.address.has_value()) {
    return std::vector<IpAddress>{*url.address};
  }
  Resolution resolution = resolver.resolve(url.host, deadline);
  switch (resolution.status) {
    case Resolution::Status::found:
      if (!resolution.addresses.empty()) {
        return std::move(resolution.addresses);
      }
      [[fallthrough]];
    case Resolution::Status::unknown_host:
      return FetchRefusal{FetchFault::unknown_host,
                          str_cat("host ", host_text(url), " is not known; correct the URL")};
    case Resolution::Status::failed:
      return FetchRefusal{FetchFault::far_error, str_cat("the name service has no answer for host ",
                                                         host_text(url), "; try again later")};
    case Resolution::Status::busy:
      return FetchRefusal{FetchFault::far_error,
                          "too many host names are being looked up; try again later"};
    case Resolution::Status::timed_out:
      return refuse_late(url, deadline);
  }
  TESSERA_UNREACHABLE();
}

// The addresses that the connection may go to, if all rules allow the URL.
AddressesResult check(const HttpUrl& url, const FetchRules& rules, Resolver& resolver,
                      const Deadline& deadline) {
  if (std::optional<FetchRefusal> refusal = check_host(url, rules)) {
    return *std::move(refusal);
  }
  AddressesResult addresses = look_up(url, resolver, deadline);
  if (const auto* found = std::get_if<std::vector<IpAddress>>(&addresses)) {
    if (std::optional<FetchRefusal> refusal = check_addresses(url, *found, rules)) {
      return *std::move(refusal);
    }
  }
  return addresses;
}

TransferResult check_and_run(const HttpUrl& url, const FetchRules& rules, Resolver& resolver,
                             const Deadline& deadline) {
  AddressesResult addresses = check(url, rules, resolver, deadline);
  if (FetchRefusal* refusal = std::get_if<FetchRefusal>(&addresses)) {
    return std::move(*refusal);
  }
  return run_transfer({.url = url,
                       .addresses = std::get<std::vector<IpAddress>>(addresses),
                       .rules = rules,
                       .deadline = deadline});
}

// Where `from` leads, if it may.
std::variant<HttpUrl, FetchRefusal> follow(const HttpUrl& from, const Redirect& redirect) {
  UrlResult target = resolve_location(from, redirect.location);
  if (BadUrl* bad = std::get_if<BadUrl>(&target)) {
    return FetchRefusal{FetchFault::bad_url, std::move(bad->detail)};
  }
  if (std::optional<FetchRefusal> refusal = check_redirect(from, std::get<HttpUrl>(target))) {
    return *std::move(refusal);
  }
  return std::get<HttpUrl>(std::move(target));
}

FetchRefusal after(int redirects, FetchRefusal refusal) {
  if (redirects > 0) {
    refusal.detail = str_cat("after ", redirects,
                             redirects == 1 ? " redirect: " : " redirects: ", refusal.detail);
  }
  return refusal;
}

}  // namespace

FetchResult fetch(std::string_view text, const FetchRules& rules, Resolver& resolver,
                  const Deadline& deadline) {
  if (!rules.is_enabled) {
    return FetchRefusal{FetchFault::disabled,
                        "pictures are not fetched from URLs here; send the picture itself as "
                        "base64"};
  }
  UrlResult first = parse_http_url(text);
  if (BadUrl* bad = std::get_if<BadUrl>(&first)) {
    return FetchRefusal{FetchFault::bad_url, std::move(bad->detail)};
  }
  HttpUrl url = std::get<HttpUrl>(std::move(first));
  const Deadline::Clock::time_point limit = Deadline::Clock::now() + rules.total_timeout;
  const Deadline within{.at = std::min(deadline.at, limit), .cancel = deadline.cancel};
  for (int redirects = 0;; ++redirects) {
    TransferResult result = check_and_run(url, rules, resolver, within);
    if (auto* bytes = std::get_if<std::vector<std::byte>>(&result)) {
      return std::move(*bytes);
    }
    if (FetchRefusal* refusal = std::get_if<FetchRefusal>(&result)) {
      return after(redirects, std::move(*refusal));
    }
    if (redirects >= rules.max_redirects) {
      return FetchRefusal{
          FetchFault::too_many_redirects,
          str_cat("more than ", rules.max_redirects, " redirects; give the URL of the picture")};
    }
    std::variant<HttpUrl, FetchRefusal> next = follow(url, std::get<Redirect>(result));
    if (FetchRefusal* refusal = std::get_if<FetchRefusal>(&next)) {
      return after(redirects + 1, std::move(*refusal));
    }
    url = std::get<HttpUrl>(std::move(next));
  }
}

}  // namespace tessera::intake
