// Taps: named places of the forward pass where a sink may look at a tensor, or replace it.
// Names: docs/numerics.md (they follow the checkpoint's tensor names).
#pragma once

#include <string>
#include <string_view>

#include "base/str_cat.h"
#include "tensor/tensor.h"

namespace tessera {

// Receives every tap of a request. Implementations: trace/sinks.h.
class TraceSink {
 public:
  virtual ~TraceSink() = default;

  // Whether the tap with this name is wanted; the model may skip work that only unwanted taps need.
  virtual bool wants(std::string_view name) = 0;

  // Called before the value is used or stored. The sink may overwrite it; it may not keep the view.
  // Returns whether it wrote.
  virtual bool tap(std::string_view name, const MutableTensorView& value) = 0;
};

// What an ExecContext carries: one branch per tap when there is no sink.
class Trace {
 public:
  bool is_on() const { return sink_ != nullptr; }
  void start(TraceSink* sink, std::string prefix) {
    sink_ = sink;
    prefix_ = std::move(prefix);
  }
  void stop() { sink_ = nullptr; }

  // tap("layers.", 3, ".attn.norm")(view) would build strings without a sink, so the view comes
  // first: tap(view, "layers.", 3, ".attn.norm"). Returns whether the sink wrote.
  template <typename... Pieces>
  bool tap(const MutableTensorView& value, const Pieces&... name) {
    if (sink_ == nullptr) [[likely]] {
      return false;
    }
    const std::string full = str_cat(prefix_, name...);
    return sink_->wants(full) && sink_->tap(full, value);
  }

  template <typename... Pieces>
  bool wants(const Pieces&... name) {
    return sink_ != nullptr && sink_->wants(str_cat(prefix_, name...));
  }

 private:
  TraceSink* sink_ = nullptr;
  std::string prefix_;
};

}  // namespace tessera
