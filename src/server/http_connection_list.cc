#include <vector>

#include "server/http_connection.h"

namespace tessera::server {

bool ConnectionList::add(const std::shared_ptr<HttpConnection>& connection) {
  const std::lock_guard guard(mutex_);
  if (is_closed_) {
    return false;
  }
  connections_.emplace(connection.get(), connection);
  return true;
}

void ConnectionList::remove(const HttpConnection* connection) {
  const std::lock_guard guard(mutex_);
  connections_.erase(connection);
}

int64_t ConnectionList::size() const {
  const std::lock_guard guard(mutex_);
  return std::ssize(connections_);
}

void ConnectionList::close_all() {
  std::vector<std::shared_ptr<HttpConnection>> open;
  {
    const std::lock_guard guard(mutex_);
    is_closed_ = true;
    for (const auto& [key, weak] : connections_) {
      if (std::shared_ptr<HttpConnection> connection = weak.lock()) {
        open.push_back(std::move(connection));
      }
    }
  }
  for (const std::shared_ptr<HttpConnection>& connection : open) {
    connection->close_soon();
  }
}

}  // namespace tessera::server
