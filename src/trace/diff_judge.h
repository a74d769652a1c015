// The verdict over compared taps. Internal to the module.
#pragma once

#include "trace/diff.h"

namespace tessera::trace {

// Whether the values of both sides were looked at.
bool is_judged(TapStatus status);

// Fills verdict, first, cause and line from `taps`, which are in the order of the computation.
//
// The first tap outside its tolerance is the divergence. Behind a tie, a free run legitimately
// differs wherever the other pick reaches, which is everywhere its stage is an input, directly or
// not, and in all later calls: such taps are excused.
void judge(DiffReport& report);

}  // namespace tessera::trace
