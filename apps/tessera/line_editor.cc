#include "line_editor.h"

#include <fcntl.h>
#include <histedit.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <filesystem>
#include <iostream>

namespace tessera {

// libedit's state. Its callbacks find it through EL_CLIENTDATA.
struct LineEditor::Terminal {
  std::string prompt;
  std::string history_file;
  EditLine* editor = nullptr;
  History* history = nullptr;
  bool is_continued = false;
  bool is_interrupted = false;

  ~Terminal() {
    el_end(editor);
    history_end(history);
  }
};

namespace {

constexpr int kHistoryLines = 1000;
constexpr const char* kPasteOn = "\x1b[?2004h";
constexpr const char* kPasteOff = "\x1b[?2004l";
constexpr std::wstring_view kPasteEnd = L"\x1b[201~";
constexpr size_t kMaxPaste = size_t{16} << 20;  // characters

template <typename Terminal>
Terminal& terminal_of(EditLine* editor) {
  void* data = nullptr;
  el_get(editor, EL_CLIENTDATA, &data);
  return *static_cast<Terminal*>(data);
}

// What a terminal sends between the marks of a bracketed paste goes into the line as it is.
unsigned char insert_paste(EditLine* editor, wint_t) {
  std::wstring text;
  wchar_t c = 0;
  while (text.size() < kMaxPaste && el_wgetc(editor, &c) == 1) {
    text.push_back(c == L'\r' ? L'\n' : c);
    if (text.ends_with(kPasteEnd)) {
      text.resize(text.size() - kPasteEnd.size());
      break;
    }
  }
  if (!text.empty()) {
    el_winsertstr(editor, text.c_str());
  }
  return CC_REFRESH;
}

}  // namespace

LineEditor::LineEditor(std::string prompt, std::string history_file) {
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) {
    return;
  }
  std::setlocale(LC_CTYPE, "C.UTF-8");
  terminal_ = std::make_unique<Terminal>();
  Terminal& t = *terminal_;
  t.prompt = std::move(prompt);
  t.history_file = std::move(history_file);
  t.editor = el_init("tessera", stdin, stdout, stderr);
  t.history = history_init();
  HistEvent event;
  history(t.history, &event, H_SETSIZE, kHistoryLines);
  history(t.history, &event, H_SETUNIQUE, 1);
  if (!t.history_file.empty()) {
    history(t.history, &event, H_LOAD, t.history_file.c_str());
  }
  const auto prompt_of = [](EditLine* editor) {
    Terminal& own = terminal_of<Terminal>(editor);
    static char continued[] = "... ";
    return own.is_continued ? continued : own.prompt.data();
  };
  const auto interrupt = [](EditLine* editor, wint_t) -> unsigned char {
    terminal_of<Terminal>(editor).is_interrupted = true;
    return CC_NEWLINE;
  };
  el_set(t.editor, EL_CLIENTDATA, &t);
  el_set(t.editor, EL_PROMPT, static_cast<char* (*)(EditLine*)>(prompt_of));
  el_set(t.editor, EL_EDITOR, "emacs");
  el_set(t.editor, EL_HIST, history, t.history);
  // The wide form keeps the pointers; the other one copies the names and never frees them.
  using Function = unsigned char (*)(EditLine*, wint_t);
  el_wset(t.editor, EL_ADDFN, L"tessera-paste", L"insert a paste", &insert_paste);
  el_wset(t.editor, EL_ADDFN, L"tessera-interrupt", L"drop the line",
          static_cast<Function>(interrupt));
  el_set(t.editor, EL_BIND, "\\e[200~", "tessera-paste", nullptr);
  el_set(t.editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  // Ctrl-C is a key while a line is edited, a signal while an answer is written.
  el_set(t.editor, EL_SETTY, "-d", "-isig", nullptr);
  el_set(t.editor, EL_BIND, "^C", "tessera-interrupt", nullptr);
}

LineEditor::~LineEditor() = default;

LineEnd LineEditor::read_one(std::string& line, bool is_continued) {
  if (terminal_ == nullptr) {
    return std::getline(std::cin, line) ? LineEnd::entered : LineEnd::closed;
  }
  Terminal& t = *terminal_;
  t.is_continued = is_continued;
  t.is_interrupted = false;
  // Before anything shows that keys are read: libedit would print its prompt first, and the
  // terminal would take a Ctrl-D that comes at once for itself.
  el_set(t.editor, EL_PREP_TERM, 1);
  std::cout << kPasteOn << std::flush;
  int bytes = 0;
  const char* text = el_gets(t.editor, &bytes);
  std::cout << kPasteOff << (t.is_interrupted ? "\n" : "") << std::flush;
  if (t.is_interrupted) {
    return LineEnd::interrupted;
  }
  if (text == nullptr || bytes <= 0) {
    return LineEnd::closed;
  }
  line.assign(text, static_cast<size_t>(bytes));
  if (line.ends_with('\n')) {
    line.pop_back();
  }
  return LineEnd::entered;
}

LineEnd LineEditor::read(std::string& line) {
  line.clear();
  std::string part;
  for (bool is_continued = false;; is_continued = true) {
    const LineEnd end = read_one(part, is_continued);
    if (end == LineEnd::closed && is_continued) {
      break;
    }
    if (end != LineEnd::entered) {
      return end;
    }
    line += part;
    if (!line.ends_with('\\')) {
      break;
    }
    line.back() = '\n';
  }
  if (terminal_ != nullptr && !line.empty()) {
    HistEvent event;
    history(terminal_->history, &event, H_ENTER, line.c_str());
    if (!terminal_->history_file.empty()) {
      history(terminal_->history, &event, H_SAVE, terminal_->history_file.c_str());
    }
  }
  return LineEnd::entered;
}

std::string state_file(const std::string& name) {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder;
  if (state != nullptr && *state == '/') {
    folder = state;
  } else if (home != nullptr && *home == '/') {
    folder = std::filesystem::path(home) / ".local/state";
  } else {
    return "";
  }
  folder /= "tessera";
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const std::string file = (folder / name).string();
  // What is typed concerns nobody else.
  const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) {
    return "";
  }
  close(descriptor);
  return file;
}

}  // namespace tessera
