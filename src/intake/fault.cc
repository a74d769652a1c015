#include "intake/fault.h"

#include "base/check.h"
#include "base/str_cat.h"

namespace tessera::intake {

std::string_view fault_name(Fault fault) {
  switch (fault) {
    case Fault::empty:
      return "empty";
    case Fault::unrecognised:
      return "unrecognised";
    case Fault::unsupported:
      return "unsupported";
    case Fault::truncated:
      return "truncated";
    case Fault::corrupt:
      return "corrupt";
    case Fault::too_large:
      return "too_large";
    case Fault::timed_out:
      return "timed_out";
  }
  TESSERA_UNREACHABLE();
}

Error to_error(std::string_view name, const Refusal& refusal) {
  const ErrorCode code =
      refusal.fault == Fault::unsupported ? ErrorCode::unsupported : ErrorCode::bad_request;
  return Error(code, str_cat(name, ": ", fault_name(refusal.fault), ": ", refusal.detail));
}

}  // namespace tessera::intake
