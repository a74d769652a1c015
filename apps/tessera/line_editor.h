// Lines that a person types: edited (libedit) with a history on a terminal, read as they are
// otherwise.
#pragma once

#include <memory>
#include <string>

namespace tessera {

enum class LineEnd {
  entered,      // a line came
  interrupted,  // Ctrl-C: what was typed is dropped
  closed,       // Ctrl-D or the end of the input
};

class LineEditor {
 public:
  // `history_file`: lines of earlier sessions; empty for none. A file that cannot be read or
  // written is left alone.
  LineEditor(std::string prompt, std::string history_file);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // One line without its end. On a terminal a paste of several lines comes as one; everywhere a
  // line that ends in a backslash goes on in the next.
  LineEnd read(std::string& line);

  bool is_terminal() const { return terminal_ != nullptr; }

 private:
  struct Terminal;
  LineEnd read_one(std::string& line, bool is_continued);

  std::unique_ptr<Terminal> terminal_;  // nullptr: standard input is no terminal
};

// $XDG_STATE_HOME/tessera/NAME, by default ~/.local/state/tessera/NAME: made if it is not there,
// readable by its owner alone. Empty where that is impossible.
std::string state_file(const std::string& name);

}  // namespace tessera
