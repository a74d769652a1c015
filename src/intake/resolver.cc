#include "intake/resolver.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "intake/socket_address.h"

namespace tessera::intake {
namespace {

// How long a cancelled caller waits at most; no event tells of a cancellation.
constexpr std::chrono::milliseconds kCancelCheck{20};

struct AddressListDeleter {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

Resolution look_up_by_system(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int code = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  const std::unique_ptr<addrinfo, AddressListDeleter> owner(list);
  if (code != 0) {
    const bool is_unknown = code == EAI_NONAME || code == EAI_NODATA || code == EAI_ADDRFAMILY;
    return {is_unknown ? Resolution::Status::unknown_host : Resolution::Status::failed, {}};
  }
  Resolution found;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    const std::optional<Endpoint> endpoint = endpoint_of(entry->ai_addr, entry->ai_addrlen);
    if (endpoint.has_value() && std::ranges::count(found.addresses, endpoint->address) == 0) {
      found.addresses.push_back(endpoint->address);
    }
  }
  found.status =
      found.addresses.empty() ? Resolution::Status::unknown_host : Resolution::Status::found;
  return found;
}

}  // namespace

struct SystemResolver::State {
  Lookup lookup;
  int max_lookups;
  std::mutex mutex;
  std::condition_variable done;
  int lookups = 0;  // under way
};

SystemResolver::SystemResolver() : SystemResolver(look_up_by_system) {}

SystemResolver::SystemResolver(Lookup lookup, int max_lookups) : state_(std::make_shared<State>()) {
  state_->lookup = std::move(lookup);
  state_->max_lookups = max_lookups;
}

SystemResolver::~SystemResolver() = default;

Resolution SystemResolver::resolve(const std::string& host, const Deadline& deadline) {
  const std::shared_ptr<State> state = state_;
  const auto answer = std::make_shared<std::optional<Resolution>>();  // guarded by state->mutex
  std::unique_lock lock(state->mutex);
  if (state->lookups >= state->max_lookups) {
    return {Resolution::Status::busy, {}};
  }
  try {
    std::thread([state, answer, host] {
      Resolution result;
      try {
        result = state->lookup(host);
      } catch (const std::exception&) {
        result = {Resolution::Status::failed, {}};  // no memory
      }
      const std::lock_guard guard(state->mutex);
      *answer = std::move(result);
      --state->lookups;
      state->done.notify_all();
    }).detach();
  } catch (const std::system_error&) {  // no thread
    return {Resolution::Status::busy, {}};
  }
  ++state->lookups;
  while (!answer->has_value()) {
    if (deadline.is_over()) {
      return {Resolution::Status::timed_out, {}};
    }
    state->done.wait_until(lock, std::min(deadline.at, Deadline::Clock::now() + kCancelCheck));
  }
  return std::move(**answer);
}

}  // namespace tessera::intake
