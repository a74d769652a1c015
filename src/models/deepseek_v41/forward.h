// The text stack: one function for prefill, chunked prefill, decode and draft verification.
// Source: deepseek_v41 specification 0.1, 6 to 10.
#pragma once

#include "models/deepseek_v41/model.h"
#include "models/deepseek_v41/step.h"
#include "tensor/exec_context.h"

namespace tessera::deepseek_v41 {

// Computes the plan's rows. Reads the states and changes none (their tails beyond the committed
// length are scratch: SequenceState::prepare must have made room). buffers.logits [logit rows,
// vocab] and the fresh rows in `buffers` are the result. A row's values depend on that row's
// sequence alone, never on the other rows, the cut into steps or the thread count.
void forward(ExecContext& ctx, const Network& network, const StepPlan& plan, StepBuffers& buffers);

}  // namespace tessera::deepseek_v41
