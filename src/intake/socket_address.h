// Addresses as the system's socket calls have them.
#pragma once

#include <cstddef>
#include <optional>

#include "intake/ip_address.h"

struct sockaddr;

namespace tessera::intake {

struct Endpoint {
  IpAddress address;
  int port = 0;
};

// Nothing if the `bytes` bytes hold no IPv4 or IPv6 address.
std::optional<Endpoint> endpoint_of(const sockaddr* address, size_t bytes);

}  // namespace tessera::intake
