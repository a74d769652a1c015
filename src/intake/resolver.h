// Host names to addresses, under a deadline.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "intake/deadline.h"
#include "intake/ip_address.h"

namespace tessera::intake {

struct Resolution {
  enum class Status {
    found,         // `addresses` has at least one
    unknown_host,  // the name does not exist or has no address
    failed,        // the name service failed; it may work later
    busy,          // too many lookups are under way
    timed_out,     // the deadline is over, or nobody wants the answer any more
  };
  Status status = Status::failed;
  std::vector<IpAddress> addresses;
};

// Tests script it.
class Resolver {
 public:
  Resolver() = default;
  virtual ~Resolver() = default;
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // Threads may call it at the same time. Returns soon after the deadline is over.
  virtual Resolution resolve(const std::string& host, const Deadline& deadline) = 0;
};

// getaddrinfo(), which knows no deadline. Each lookup has a thread of its own, which is left alone
// when the deadline passes and ends when the lookup does.
class SystemResolver final : public Resolver {
 public:
  using Lookup = std::function<Resolution(const std::string& host)>;

  SystemResolver();  // looks up by getaddrinfo()
  // At most max_lookups of them run at a time, those counted that were left alone.
  explicit SystemResolver(Lookup lookup, int max_lookups = 32);
  ~SystemResolver() override;

  Resolution resolve(const std::string& host, const Deadline& deadline) override;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the lookups, which may outlive the resolver
};

}  // namespace tessera::intake
