// Why a picture was refused. An expected outcome of reading bytes from outside, so it is a value;
// decode_image() turns it into an Error for callers that only report it.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace tessera::intake {

enum class Fault {
  empty,         // no bytes
  unrecognised,  // the first bytes are no picture format
  unsupported,   // a picture, but of a format or variant that is not read
  truncated,     // the file ends before the picture does
  corrupt,       // the file contradicts itself
  too_large,     // more bytes, pixels or decoder memory than the limits allow
  timed_out,     // the deadline passed, or nobody wants the picture any more
};

std::string_view fault_name(Fault fault);  // "empty", "unrecognised", ...

struct Refusal {
  Fault fault;
  std::string detail;  // what was found and what to do, one line, without the picture's name
};

// "NAME: FAULT: DETAIL". Code `unsupported` for that fault, `bad_request` for all others.
Error to_error(std::string_view name, const Refusal& refusal);

}  // namespace tessera::intake
