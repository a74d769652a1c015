// tessera chat: a conversation on the terminal.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>

#include "answer_printer.h"
#include "base/error.h"
#include "base/log.h"
#include "base/output_file.h"
#include "base/str_cat.h"
#include "commands.h"
#include "interrupt.h"
#include "line_editor.h"
#include "output.h"
#include "request_options.h"
#include "result_json.h"
#include "runtime/engine.h"

namespace tessera {
namespace {

using io::Json;

constexpr int64_t kPrefixCacheBytes = int64_t{256} << 20;
constexpr int64_t kPictureCacheBytes = int64_t{64} << 20;

constexpr const char* kHelp =
    "/image FILE    show a picture with the next message; may be repeated\n"
    "/system TEXT   system message from now on; without TEXT: none\n"
    "/think LEVEL   off, low, high, max or 1..100\n"
    "/save FILE     write the conversation as an input file for tessera run --input\n"
    "/reset         forget the conversation\n"
    "/help          this list\n"
    "/quit          leave (as Ctrl-D)\n"
    "A line that ends in \\ goes on in the next; a paste of several lines is one message.\n"
    "A message that begins with / is written with two: //etc\n"
    "Ctrl-C stops an answer and keeps the conversation.\n";

struct Arguments {
  ModelArguments model;
  RequestArguments request;
  bool has_no_history = false;
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const size_t first = text.find_first_not_of(kBlanks);
  return first == std::string_view::npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

Json message_json(const Message& message) {
  Json content = Json::array();
  for (const ContentBlock& block : message.content) {
    Json part = Json::object();
    if (block.kind == ContentBlock::Kind::image) {
      Json url = Json::object();
      url.set("url", Json::string(std::filesystem::absolute(block.image.value).string()));
      part.set("type", Json::string("image_url"));
      part.set("image_url", std::move(url));
    } else {
      part.set("type", Json::string("text"));
      part.set("text", Json::string(block.text));
    }
    content.items().push_back(std::move(part));
  }
  Json json = Json::object();
  json.set("role", Json::string(std::string(kRoleNames[static_cast<size_t>(message.role)].first)));
  json.set("content", std::move(content));
  if (!message.reasoning.empty()) {
    json.set("reasoning_content", Json::string(message.reasoning));
  }
  return json;
}

class Chat {
 public:
  Chat(const Arguments& arguments, Engine& engine, Output& out)
      : is_json_(arguments.model.is_json),
        is_quiet_(arguments.model.is_quiet),
        arguments_(arguments.request),
        engine_(engine),
        out_(out),
        system_(arguments.request.system) {}

  // Answers a message or obeys a command; false: leave. Throws Error for what cannot be done; the
  // conversation is then as it was.
  bool take(const std::string& line) {
    const std::string_view text = trimmed(line);
    if (text.empty()) {
      return true;
    }
    if (text.starts_with("//")) {
      answer(std::string(text.substr(1)));
      return true;
    }
    if (!text.starts_with('/')) {
      answer(line);
      return true;
    }
    const size_t blank = text.find_first_of(" \t");
    const std::string_view rest =
        blank == std::string_view::npos ? std::string_view() : trimmed(text.substr(blank));
    return obey(text.substr(0, blank), std::string(rest));
  }

 private:
  bool obey(std::string_view command, const std::string& rest) {
    if (command == "/quit" || command == "/exit") {
      return false;
    }
    if (command == "/help") {
      out_.write(kHelp);
    } else if (command == "/reset") {
      messages_.clear();
      images_.clear();
    } else if (command == "/system") {
      system_ = rest;
    } else if (command == "/think") {
      RequestArguments changed = arguments_;
      changed.think = rest;
      Request probe;
      set_answer_options(changed, probe);
      arguments_ = std::move(changed);
    } else if (command == "/image") {
      add_image(rest);
    } else if (command == "/save") {
      save(rest);
    } else {
      throw Error(
          ErrorCode::bad_request,
          str_cat("no command ", command, "; /help lists them, // begins a message with /"));
    }
    return true;
  }

  void add_image(const std::string& file) {
    if (!std::filesystem::is_regular_file(file)) {
      throw Error(ErrorCode::bad_request,
                  str_cat("/image ", file, ": no such file; give the path of a picture"));
    }
    images_.push_back(file);
  }

  void save(const std::string& path) {
    if (path.empty()) {
      throw Error(ErrorCode::bad_request, "/save needs the name of a file");
    }
    Json messages = Json::array();
    for (const Message& message : conversation()) {
      messages.items().push_back(message_json(message));
    }
    Json json = Json::object();
    json.set("messages", std::move(messages));
    OutputFile file(path);
    file.write(io::dump_compact(json) + "\n");
    file.commit();
  }

  std::vector<Message> conversation() const {
    std::vector<Message> all;
    if (!system_.empty()) {
      all.push_back(text_message(Role::system, system_));
    }
    all.insert(all.end(), messages_.begin(), messages_.end());
    return all;
  }

  void answer(const std::string& text) {
    Request request;
    Message question = text_message(Role::user, text, images_);
    request.messages = conversation();
    request.messages.push_back(question);
    set_answer_options(arguments_, request);
    request.cancel = &interrupt_flag();

    AnswerPrinter printer(out_);
    ProgressBar bar(is_quiet_);
    Events events;
    events.on_notice = [&](std::string_view line) {
      bar.clear();
      log_line(LogLevel::warning, line);
    };
    events.on_progress = [&](std::string_view stage, int64_t done, int64_t total) {
      bar.update(stage, done, total);
    };
    if (!is_json_) {
      events.on_delta = [&](int64_t, const AnswerDelta& delta) {
        bar.clear();
        printer.print(delta);
        if (out_.is_closed()) {
          interrupt_flag().store(true);
        }
      };
    }
    const Result result = engine_.generate(request, events);
    bar.clear();
    const Choice& choice = result.choices.front();
    if (is_json_) {
      out_.write(io::dump_compact(result_json(engine_, request, result)) + "\n");
    } else {
      printer.finish();
      if (choice.finish_reason == FinishReason::cancelled) {
        out_.write(str_cat(out_.faint(), "(stopped)", out_.plain(), "\n"));
      } else if (choice.finish_reason == FinishReason::length) {
        out_.write(
            str_cat(out_.faint(), "(cut at ", choice.ids.size(), " tokens)", out_.plain(), "\n"));
      }
    }
    Message reply = text_message(Role::assistant, choice.answer.content);
    reply.reasoning = choice.answer.reasoning;
    messages_.push_back(std::move(question));
    messages_.push_back(std::move(reply));
    images_.clear();
  }

  bool is_json_;
  bool is_quiet_;
  RequestArguments arguments_;
  Engine& engine_;
  Output& out_;
  std::string system_;
  std::vector<Message> messages_;    // without the system message
  std::vector<std::string> images_;  // of the next message
};

int run(const Arguments& a) {
  Request probe;
  set_answer_options(a.request, probe);
  EngineOptions options = engine_options(a.model);
  options.prefix_cache_bytes = kPrefixCacheBytes;
  options.picture_cache_bytes = kPictureCacheBytes;
  ProgressBar bar(a.model.is_quiet);
  Events events;
  events.on_progress = [&](std::string_view stage, int64_t done, int64_t total) {
    bar.update(stage, done, total);
  };
  const std::unique_ptr<Engine> engine = Engine::open(options, events);
  bar.clear();
  Output out;
  LineEditor editor("> ", a.has_no_history ? "" : state_file("chat_history"));
  if (editor.is_terminal() && !a.model.is_quiet) {
    out.write(str_cat(out.faint(), engine->model_folder(), "; /help lists the commands",
                      out.plain(), "\n"));
  }
  Chat chat(a, *engine, out);
  std::string line;
  while (!out.is_closed()) {
    const LineEnd end = editor.read(line);
    if (end == LineEnd::interrupted) {
      continue;
    }
    if (end == LineEnd::closed) {
      break;
    }
    try {
      if (!chat.take(line)) {
        break;
      }
    } catch (const Error& error) {
      // A wrong message ends on the terminal the line, not the conversation.
      if (!editor.is_terminal() || error.code() == ErrorCode::out_of_memory) {
        throw;
      }
      print_error(error.what());
    }
    if (interrupt_flag().load() && !editor.is_terminal()) {
      return kInterrupted;
    }
    interrupt_flag().store(false);
    install_signal_handlers();
  }
  if (editor.is_terminal()) {
    out.write("\n");
  }
  return 0;
}

}  // namespace

void add_chat_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("chat", "talk with a model on the terminal");
  const auto arguments = std::make_shared<Arguments>();
  add_model_options(*command, arguments->model);
  command->add_option("--system", arguments->request.system, "system message");
  add_answer_options(*command, arguments->request);
  command->add_flag("--no-history", arguments->has_no_history,
                    "neither read nor write the history of typed lines");
  command->footer(str_cat(
      "Examples:\n"
      "  tessera chat --model DIR --think low\n"
      "  printf '/image photo.png\\nWhat is this?\\n' | tessera chat --json\n"
      "In the chat:\n",
      kHelp, "From a pipe every line is a message; --json prints one JSON value per answer."));
  command->callback([arguments, &status] { status = run(*arguments); });
}

}  // namespace tessera
