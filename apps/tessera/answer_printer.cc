#include "answer_printer.h"

#include "base/str_cat.h"

namespace tessera {

void AnswerPrinter::enter(Part part) {
  if (part == part_ && part != Part::call) {
    return;
  }
  switch (part_) {
    case Part::reasoning:
      out_.write(str_cat("\n</think>", out_.plain(), "\n"));
      break;
    case Part::content:
      out_.write("\n");
      break;
    case Part::call:
      out_.write(")\n");
      break;
    case Part::none:
      break;
  }
  if (part == Part::reasoning) {
    out_.write(str_cat(out_.faint(), "<think>\n"));
  } else if (part == Part::call) {
    out_.write("call ");
  }
  part_ = part;
}

void AnswerPrinter::print(const AnswerDelta& delta) {
  switch (delta.kind) {
    case AnswerDelta::Kind::reasoning:
      enter(Part::reasoning);
      out_.write_foreign(delta.text);
      return;
    case AnswerDelta::Kind::content:
      enter(Part::content);
      out_.write_foreign(delta.text);
      return;
    case AnswerDelta::Kind::call_name:
      enter(Part::call);
      out_.write_foreign(delta.text);
      out_.write("(");
      return;
    case AnswerDelta::Kind::call_arguments:
      out_.write_foreign(delta.text);
  }
}

void AnswerPrinter::print(const Answer& answer) {
  using Kind = AnswerDelta::Kind;
  if (!answer.reasoning.empty()) {
    print({Kind::reasoning, answer.reasoning});
  }
  if (!answer.content.empty()) {
    print({Kind::content, answer.content});
  }
  for (const AnsweredCall& call : answer.tool_calls) {
    const std::string prefix = call.name_space.empty() ? "" : str_cat(call.name_space, "::");
    print({Kind::call_name, prefix + call.name});
    print({Kind::call_arguments, call.arguments});
  }
  finish();
}

void AnswerPrinter::finish() {
  if (part_ == Part::none) {
    out_.write("\n");
  }
  enter(Part::none);
}

}  // namespace tessera
