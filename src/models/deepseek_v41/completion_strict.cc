// The strict parser. Chat specification 11.1; the reference's parse_message_from_completion_text.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "io/json.h"
#include "models/deepseek_v41/completion.h"
#include "models/deepseek_v41/prompt_writer.h"

namespace tessera::deepseek_v41 {
namespace {

constexpr std::string_view kTagEnd = ">\n";

std::string json_string(std::string_view text) {
  return io::dump_python(io::Json::string(std::string(text)));
}

class StrictParser {
 public:
  explicit StrictParser(std::string_view text) : text_(text) {}

  Answer parse(bool is_thinking);

 private:
  // A tag as far as its name, and where it is next: however often it is looked for, the text is
  // searched once.
  struct Tag {
    std::string_view spelling;
    size_t begin = 0;  // not looked for if before at_
    bool is_known = false;
  };

  size_t find(Tag& tag) const;
  // Text up to the first of these tags, which is taken too, or up to the end (`found` is null).
  std::string_view take_before(std::initializer_list<Tag*> tags, const Tag*& found);
  void check_no_control_token(std::string_view text) const;
  void parse_calls(Answer& answer);
  AnsweredCall parse_call();
  std::string_view parse_name(std::string_view line) const;
  std::string parse_parameter(std::string_view parameter, std::set<std::string_view>& names) const;
  size_t offset(std::string_view part) const {
    return static_cast<size_t>(part.data() - text_.data());
  }
  [[noreturn]] void refuse(size_t at, std::string_view expected) const;

  std::string_view text_;
  size_t at_ = 0;
  Tag eos_{kEos};
  Tag end_think_{kEndThink};
  Tag calls_{"\n\n<｜DSML｜ calls"};
  Tag end_calls_{"</｜DSML｜ calls>"};
  Tag invoke_{"<｜DSML｜ invoke"};
  Tag end_invoke_{"</｜DSML｜ invoke"};
  Tag parameter_{"<｜DSML｜ parameter"};
  Tag end_parameter_{"/｜DSML｜ parameter"};
};

void StrictParser::refuse(size_t at, std::string_view expected) const {
  const std::string found =
      at == text_.size() ? "the end of the text" : quoted(text_.substr(at), 60);
  throw Error(ErrorCode::bad_request,
              str_cat("completion, byte ", at, ": expected ", expected, ", found ", found));
}

size_t StrictParser::find(Tag& tag) const {
  if (!tag.is_known || tag.begin < at_) {
    tag.begin = text_.find(tag.spelling, at_);
    tag.is_known = true;
  }
  return tag.begin;
}

std::string_view StrictParser::take_before(std::initializer_list<Tag*> tags, const Tag*& found) {
  found = nullptr;
  size_t end = text_.size();
  for (Tag* tag : tags) {
    if (find(*tag) < end) {
      end = tag->begin;
      found = tag;
    }
  }
  const std::string_view before = text_.substr(at_, end - at_);
  at_ = end + (found == nullptr ? 0 : found->spelling.size());
  return before;
}

void StrictParser::check_no_control_token(std::string_view text) const {
  for (const std::string_view token : {kBos, kEos, kThink, kEndThink, kDsml}) {
    const size_t at = text.find(token);
    if (at != std::string_view::npos) {
      refuse(offset(text) + at, str_cat("no ", token, " in reasoning and content"));
    }
  }
}

Answer StrictParser::parse(bool is_thinking) {
  Answer answer;
  const Tag* found = nullptr;
  if (is_thinking) {
    const std::string_view reasoning = take_before({&end_think_, &calls_}, found);
    if (found != &end_think_) {
      refuse(offset(reasoning) + reasoning.size(), "</think> behind the reasoning");
    }
    check_no_control_token(reasoning);
    answer.reasoning = reasoning;
  }
  const std::string_view content = take_before({&eos_, &calls_}, found);
  check_no_control_token(content);
  answer.content = content;
  if (found == &calls_) {
    parse_calls(answer);
    if (text_.substr(at_).starts_with(kEos)) {
      at_ += kEos.size();
    }
  } else if (found == nullptr) {
    refuse(at_, str_cat(kEos, " or a block of calls behind the content"));
  }
  if (at_ < text_.size()) {
    refuse(at_, found == &calls_ ? str_cat("nothing but ", kEos, " behind the block of calls")
                                 : str_cat("nothing behind ", kEos));
  }
  return answer;
}

// Like the reference, takes a text that ends behind the name of a tag or behind a whole line as
// complete, and closes the call.
void StrictParser::parse_calls(Answer& answer) {
  while (at_ < text_.size()) {
    const Tag* found = nullptr;
    const std::string_view between = take_before({&invoke_, &end_calls_}, found);
    if (between != kTagEnd || found == nullptr) {
      refuse(offset(between), "'>', a newline and then an invoke tag or the end of the calls");
    }
    if (found == &end_calls_) {
      return;
    }
    answer.tool_calls.push_back(parse_call());
  }
}

AnsweredCall StrictParser::parse_call() {
  const Tag* found = nullptr;
  const std::string_view name = parse_name(take_before({&parameter_, &end_invoke_}, found));
  std::string arguments = "{";
  std::set<std::string_view> names;
  while (found == &parameter_) {
    const std::string_view parameter = take_before({&end_parameter_}, found);
    arguments += names.empty() ? "" : ", ";
    arguments += parse_parameter(parameter, names);
    const std::string_view between = take_before({&parameter_, &end_invoke_}, found);
    if (between != kTagEnd) {
      refuse(offset(between), "'>', a newline and then a parameter tag or the end of the invoke");
    }
  }
  Answer call;
  append({AnswerDelta::Kind::call_name, std::string(name), 0}, call);
  call.tool_calls[0].arguments = arguments + "}";
  return std::move(call.tool_calls[0]);
}

// From " name="NAME">" and a newline. Blanks before it and a second newline are allowed.
std::string_view StrictParser::parse_name(std::string_view line) const {
  constexpr std::string_view kBegin = "name=\"";
  constexpr std::string_view kEnd = "\">\n";
  std::string_view rest = line.substr(std::min(line.find_first_not_of(" \t\n\v\f\r"), line.size()));
  if (rest.starts_with(kBegin)) {
    rest.remove_prefix(kBegin.size());
    if (rest.ends_with("\n\n")) {
      rest.remove_suffix(1);
    }
    if (rest.ends_with(kEnd)) {
      return rest.substr(0, rest.size() - kEnd.size());
    }
  }
  refuse(offset(line), "the invoke tag's ' name=\"NAME\">' and a newline");
}

// From " name="NAME" string="true">VALUE<". Returns the member of the arguments.
std::string StrictParser::parse_parameter(std::string_view parameter,
                                          std::set<std::string_view>& names) const {
  constexpr std::string_view kBegin = " name=\"";
  constexpr std::string_view kNameEnd = "\" string=\"";
  constexpr std::string_view kTrue = "true\">";
  constexpr std::string_view kFalse = "false\">";
  if (parameter.starts_with(kBegin) && parameter.ends_with('<')) {
    const std::string_view body =
        parameter.substr(kBegin.size(), parameter.size() - kBegin.size() - 1);
    for (size_t end = body.find(kNameEnd); end != std::string_view::npos;
         end = body.find(kNameEnd, end + 1)) {
      const std::string_view rest = body.substr(end + kNameEnd.size());
      if (!rest.starts_with(kTrue) && !rest.starts_with(kFalse)) {
        continue;
      }
      const std::string_view name = body.substr(0, end);
      if (!names.insert(name).second) {
        refuse(offset(name), "a parameter name that the call does not have yet");
      }
      return str_cat(json_string(name), ": ",
                     rest.starts_with(kTrue) ? json_string(rest.substr(kTrue.size()))
                                             : std::string(rest.substr(kFalse.size())));
    }
  }
  refuse(offset(parameter),
         "the parameter tag's ' name=\"NAME\" string=\"true|false\">', a value and its end tag");
}

}  // namespace

Answer parse_completion(std::string_view text, bool is_thinking) {
  if (!is_valid_utf8(text)) {
    throw Error(ErrorCode::bad_request, "completion: expected text of UTF-8, found other bytes");
  }
  return StrictParser(text).parse(is_thinking);
}

}  // namespace tessera::deepseek_v41
