#include "base/error.h"

namespace tessera {

int exit_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::bad_file:
    case ErrorCode::bad_request:
    case ErrorCode::context_exceeded:
    case ErrorCode::unsupported:
    case ErrorCode::queue_full:
      return 2;
    case ErrorCode::far_side:
    case ErrorCode::io:
    case ErrorCode::out_of_memory:
      return 3;
    case ErrorCode::cancelled:
      return 130;
  }
  return 3;
}

}  // namespace tessera
