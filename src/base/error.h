// The one exception type of the project. Callers act on `code`, people read `message`.
#pragma once

#include <stdexcept>
#include <string>

namespace tessera {

enum class ErrorCode {
  bad_file,          // a file from outside is missing, unreadable or malformed
  bad_request,       // usage, a prompt or a picture that cannot be served
  context_exceeded,  // a prompt, with what is scored after it, that is longer than the context
  unsupported,       // valid, but not something this build or machine can do
  far_side,          // a host that the request names failed, or cannot be reached
  queue_full,        // no room for another request now; it may be tried again later
  io,                // the machine failed: reading, writing, disk full, a mapped file changed
  out_of_memory,     // no memory for what the caller asked
  cancelled,         // the caller asked to stop
};

// One line: names the thing, what was expected, what was found and what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

// Exit status of a program that ends with this error: 2 for what the caller can mend, 3 for the
// machine and other hosts, 130 for an interrupt.
int exit_status(ErrorCode code);

}  // namespace tessera
