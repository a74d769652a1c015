#include "intake/socket_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

namespace tessera::intake {

std::optional<Endpoint> endpoint_of(const sockaddr* address, size_t bytes) {
  sa_family_t family = AF_UNSPEC;
  if (address == nullptr || bytes < offsetof(sockaddr, sa_family) + sizeof(family)) {
    return std::nullopt;
  }
  family = address->sa_family;
  Endpoint endpoint;
  if (family == AF_INET && bytes >= sizeof(sockaddr_in)) {
    sockaddr_in ipv4;
    std::memcpy(&ipv4, address, sizeof(ipv4));
    std::memcpy(endpoint.address.bytes.data(), &ipv4.sin_addr, sizeof(ipv4.sin_addr));
    endpoint.port = ntohs(ipv4.sin_port);
    return endpoint;
  }
  if (family == AF_INET6 && bytes >= sizeof(sockaddr_in6)) {
    sockaddr_in6 ipv6;
    std::memcpy(&ipv6, address, sizeof(ipv6));
    endpoint.address.family = IpFamily::v6;
    std::memcpy(endpoint.address.bytes.data(), &ipv6.sin6_addr, sizeof(ipv6.sin6_addr));
    endpoint.port = ntohs(ipv6.sin6_port);
    return endpoint;
  }
  return std::nullopt;
}

}  // namespace tessera::intake
