// One HTTP request of a fetch: a connection to checked addresses, by libcurl.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "intake/deadline.h"
#include "intake/fetch_rules.h"

namespace tessera::intake {

struct Transfer {
  const HttpUrl& url;
  std::span<const IpAddress> addresses;  // checked; no other is connected to
  const FetchRules& rules;
  const Deadline& deadline;
};

struct Redirect {
  std::string location;  // as received
};

using TransferResult = std::variant<std::vector<std::byte>, Redirect, FetchRefusal>;

// GET; the body of a 200 or 203, unpacked, not in part: only of a body without announced length
// that ends with the connection nobody but the decoder can tell. Follows no redirect, uses no
// proxy, cookies, .netrc or names of its own. Throws only Error{out_of_memory}.
TransferResult run_transfer(const Transfer& transfer);

}  // namespace tessera::intake
