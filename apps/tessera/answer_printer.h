// An answer for people, printed as it arrives: reasoning between <think> tags (faint on a
// terminal), content as it is, one line per tool call.
#pragma once

#include "output.h"
#include "runtime/engine.h"

namespace tessera {

class AnswerPrinter {
 public:
  explicit AnswerPrinter(Output& out) : out_(out) {}

  void print(const AnswerDelta& delta);
  void print(const Answer& answer);  // a whole one, finish() included
  // Ends what is open, and the last line.
  void finish();

 private:
  enum class Part { none, reasoning, content, call };
  void enter(Part part);

  Output& out_;
  Part part_ = Part::none;
};

}  // namespace tessera
