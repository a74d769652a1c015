// Pictures from http(s) URLs, without letting URLs reach into the network of this machine.
//
// A host name is looked up once for each request, all its addresses are checked, and the connection
// goes to one of them; a name that changes its addresses meanwhile (DNS rebinding) changes nothing.
// Redirects are followed here, not by libcurl, and each is checked like a first URL. Nothing comes
// from the environment: no proxy, no .netrc, no cookies. URLs are not logged. Rules: fetch_rules.h,
// url.h, ip_address.h.
#pragma once

#include <cstddef>
#include <string_view>
#include <variant>
#include <vector>

#include "intake/deadline.h"
#include "intake/fetch_rules.h"
#include "intake/resolver.h"

namespace tessera::intake {

using FetchResult = std::variant<std::vector<std::byte>, FetchRefusal>;

// The whole body behind `url`; what it is, is for the decoder to say. Ends by the earlier of
// `deadline` and rules.total_timeout. Threads may call it at the same time. Throws only
// Error{out_of_memory}.
FetchResult fetch(std::string_view url, const FetchRules& rules, Resolver& resolver,
                  const Deadline& deadline);

}  // namespace tessera::intake
