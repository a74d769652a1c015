// Who keeps a model's weights in memory, if somebody has to. Internal to the runtime.
#pragma once

#include <cstdint>
#include <memory>

#include "base/residency.h"
#include "models/deepseek_v41/model.h"
#include "runtime/engine.h"

namespace tessera {

// nullptr for a model that is small against the memory, without a limit and locks. `rows`: of
// the largest step; `cache_bytes` will be taken beside it. Throws Error{bad_request} for a limit
// that cannot work and for locks that the system refuses.
std::unique_ptr<Residency> open_residency(const EngineOptions& options,
                                          const deepseek_v41::Model& model, int64_t rows,
                                          int64_t cache_bytes);

}  // namespace tessera
