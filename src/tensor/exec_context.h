// What anything that computes receives first: threads, scratch memory, kernel level, trace, and who
// keeps weights in memory.
#pragma once

#include <span>
#include <string_view>

#include "base/check.h"
#include "base/cpu.h"
#include "base/thread_pool.h"
#include "tensor/arena.h"
#include "tensor/trace.h"

namespace tessera {

class Residency;
class LinearObserver;

struct ExecContext {
  ThreadPool& threads;
  Arena& scratch;
  IsaLevel isa = active_isa();
  Trace trace;
  Residency* residency = nullptr;      // of mapped weights; nullptr: they are left to the system
  LinearObserver* observer = nullptr;  // hears of every product: ops/linear/linear.h
};

// One implementation of an operation. A table of them is ordered by level, reference first.
template <typename Function>
struct Variant {
  IsaLevel isa;
  Function function;
};

// The highest implementation at or below the context's level.
template <typename Function>
Function pick(const ExecContext& ctx, std::span<const Variant<Function>> variants) {
  Function best = nullptr;
  for (const Variant<Function>& v : variants) {
    if (v.isa <= ctx.isa) {
      best = v.function;
    }
  }
  TESSERA_CHECK(best != nullptr);
  return best;
}

}  // namespace tessera
