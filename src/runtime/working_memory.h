// Memory that an engine takes beside the weights, before there is an engine: what
// Engine::memory_plan() says of one that is open.
#pragma once

#include "models/deepseek_v41/config.h"
#include "runtime/engine.h"

namespace tessera {

// Most tokens of a sequence. Throws Error{bad_request} for more than the model states.
int64_t context_of(const EngineOptions& options, const deepseek_v41::Config& config);
// At the same time, the prompt that answers fork from included.
int64_t sequences_of(const EngineOptions& options);
// Whose pages a full prefix cache holds.
int64_t kept_tokens(const EngineOptions& options, const deepseek_v41::Config& config);
// That the page pools have room for.
int64_t pool_tokens(const EngineOptions& options, const deepseek_v41::Config& config);

// Scratch memory of the largest step: of `rows` rows at the end of a full context.
int64_t scratch_bytes(const deepseek_v41::Config& config, int64_t rows, int64_t context,
                      int64_t threads);

// What grows with the context: cache pages and scratch memory.
int64_t context_bytes(const deepseek_v41::Config& config, const EngineOptions& options);

// The parts of a MemoryPlan. Its numbers are those of an open engine, but for the scratch memory,
// which is worked out here and grows to what steps need there.
MemoryPlan working_memory(const deepseek_v41::Config& config, const EngineOptions& options);

}  // namespace tessera
