// The tolerant parser: runs the table of completion_stages.h.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "io/json.h"
#include "models/deepseek_v41/completion.h"
#include "models/deepseek_v41/completion_matcher.h"
#include "models/deepseek_v41/completion_stages.h"

namespace tessera::deepseek_v41 {
namespace {

const StageInfo& stage_info(Stage stage) { return kStageInfo[static_cast<size_t>(stage)]; }

// `text` inside a JSON string, as Python's json.dumps escapes it.
std::string json_escaped(std::string_view text) {
  const std::string string = io::dump_python(io::Json::string(std::string(text)));
  return string.substr(1, string.size() - 2);
}

void check_stop_strings(const std::vector<std::string>& stop) {
  constexpr size_t kMaxBytes = size_t{1} << 20;  // of all; the matcher needs some 30 times as much
  size_t bytes = 0;
  for (const std::string& text : stop) {
    if (text.empty() || !is_valid_utf8(text)) {
      throw Error(ErrorCode::bad_request, str_cat("stop string ", quoted(text),
                                                  ": expected text of UTF-8 that is not empty"));
    }
    if (text.size() > kMaxBytes - bytes) {
      throw Error(ErrorCode::bad_request, str_cat("stop strings: more than ", kMaxBytes,
                                                  " bytes together; give shorter ones"));
    }
    bytes += text.size();
  }
}

std::vector<PatternSet> pattern_sets(const CompletionOptions& options) {
  std::vector<PatternSet> sets(kStages);
  for (size_t i = 0; i < std::size(kRules); ++i) {
    const Rule& rule = kRules[i];
    if (rule.tag != kTag || options.parses_calls) {
      sets[static_cast<size_t>(rule.stage)].add(rule.tag, PatternSet::Kind::tag,
                                                static_cast<int32_t>(i),
                                                rule.newlines == Newlines::taken);
    }
  }
  for (size_t stage = 0; stage < kStages; ++stage) {
    for (size_t i = 0; kStageInfo[stage].has_stops && i < options.stop.size(); ++i) {
      sets[stage].add(options.stop[i], PatternSet::Kind::stop, static_cast<int32_t>(i), false);
    }
    sets[stage].link();
  }
  return sets;
}

}  // namespace

// The text from begin_ on is neither given out nor dropped, that up to scanned_ is matched.
struct CompletionParser::State {
  explicit State(CompletionOptions options);

  void push(std::string_view text, std::vector<AnswerDelta>& deltas);
  void finish(std::vector<AnswerDelta>& deltas);

  bool is_finished() const { return stage_ == Stage::finished; }
  const std::string& stop_string() const {
    static const std::string nothing;
    return stop_.has_value() && is_finished() ? options_.stop[static_cast<size_t>(stop_->index)]
                                              : nothing;
  }
  int64_t calls() const { return calls_; }

 private:
  // A stop string that has appeared.
  struct Stop {
    size_t begin;
    int32_t index;
  };

  void step();
  void find_stop();
  void take_stop();
  void take_tag(const Rule& rule);
  void enter(Stage stage);
  void act(const Rule& rule);
  void give_out_before(size_t end);
  void other_text(std::string_view text);
  void emit(AnswerDelta::Kind kind, std::string_view text);

  CompletionOptions options_;
  std::vector<PatternSet> sets_;  // [stage]
  Stage stage_ = Stage::answer;
  Matcher matcher_;
  std::string text_;
  size_t begin_ = 0;
  size_t scanned_ = 0;
  std::optional<Stop> stop_;
  bool drops_newlines_ = false;  // nothing but newlines since the stage began
  bool is_blank_ = false;        // this stage has given out its blank
  std::string name_;             // of the call that begins
  int64_t calls_ = 0;
  bool has_parameters_ = false;                 // of the call
  std::vector<AnswerDelta>* deltas_ = nullptr;  // of the current push
  size_t first_delta_ = 0;                      // of this push
};

CompletionParser::State::State(CompletionOptions options)
    : options_(std::move(options)), sets_(pattern_sets(options_)), matcher_(sets_[0]) {
  using Start = CompletionOptions::Start;
  const Start start = options_.start;
  const bool is_reasoning = start == Start::reasoning || start == Start::continued_reasoning;
  enter(start == Start::calls ? Stage::calls : is_reasoning ? Stage::reasoning : Stage::answer);
  drops_newlines_ = start == Start::reasoning || start == Start::answer;
}

void CompletionParser::State::push(std::string_view text, std::vector<AnswerDelta>& deltas) {
  if (is_finished()) {
    return;
  }
  deltas_ = &deltas;
  first_delta_ = deltas.size();
  if (begin_ > text_.size() / 2) {  // moves fewer bytes than it frees
    text_.erase(0, begin_);
    scanned_ -= begin_;
    if (stop_.has_value()) {
      stop_->begin -= begin_;
    }
    begin_ = 0;
  }
  text_ += text;
  while (scanned_ < text_.size() && !is_finished()) {
    step();
  }
  if (!is_finished()) {
    give_out_before(scanned_ - matcher_.held());
  }
}

void CompletionParser::State::finish(std::vector<AnswerDelta>& deltas) {
  if (is_finished()) {
    return;
  }
  deltas_ = &deltas;
  first_delta_ = deltas.size();
  if (stop_.has_value()) {
    take_stop();
    return;
  }
  const std::string_view held = std::string_view(text_).substr(begin_);
  if (stage_ == Stage::key && held.starts_with('"')) {
    // The beginning of kKeyEnd: the key is complete.
    emit(AnswerDelta::Kind::call_arguments, held.size() == 1 ? "\"" : "\": ");
    begin_ = text_.size();
  }
  give_out_before(text_.size());
}

void CompletionParser::State::step() {
  const char byte = text_[scanned_++];
  if (drops_newlines_ && byte == '\n') {
    begin_ = scanned_;
    return;
  }
  drops_newlines_ = false;
  matcher_.step(byte);
  find_stop();
  if (stage_info(stage_).other == Other::misplaced && scanned_ - matcher_.held() > begin_) {
    enter(Stage::calls);
    scanned_ = begin_;  // these few bytes once more
  } else if (matcher_.tag() != PatternSet::kNone) {
    const Rule& rule = kRules[matcher_.tag()];
    const size_t newlines = rule.newlines == Newlines::taken ? matcher_.newlines() : 0;
    const size_t tag_begin = scanned_ - rule.tag.size() - newlines;
    // The fence behind JSON is text of the answer; the other tags are not.
    if (stop_.has_value() && (stop_->begin <= tag_begin || stage_ == Stage::json)) {
      take_stop();
    } else {
      give_out_before(tag_begin);
      take_tag(rule);
    }
  } else if (stop_.has_value() && scanned_ - matcher_.held() >= stop_->begin) {
    take_stop();  // nothing that began before it can follow
  }
}

// Keeps the stop string that begins first, of several the one that ends first.
void CompletionParser::State::find_stop() {
  const int32_t index = matcher_.stop();
  if (index == PatternSet::kNone) {
    return;
  }
  const size_t begin = scanned_ - options_.stop[static_cast<size_t>(index)].size();
  if (!stop_.has_value() || begin < stop_->begin) {
    stop_ = Stop{begin, index};
  }
}

void CompletionParser::State::take_stop() {
  give_out_before(stop_->begin);
  enter(Stage::finished);
}

void CompletionParser::State::take_tag(const Rule& rule) {
  begin_ = scanned_;
  stop_.reset();  // inside the tag
  enter(rule.next);
  act(rule);
}

void CompletionParser::State::enter(Stage stage) {
  stage_ = stage == Stage::answer && options_.is_json ? Stage::before_json : stage;
  matcher_ = Matcher(sets_[static_cast<size_t>(stage_)]);
  is_blank_ = false;
  if (is_finished()) {
    text_.clear();
    begin_ = scanned_ = 0;
  }
}

void CompletionParser::State::act(const Rule& rule) {
  constexpr auto kArguments = AnswerDelta::Kind::call_arguments;
  switch (rule.action) {
    case Action::none:
      return;
    case Action::begin_answer:
      drops_newlines_ = true;
      return;
    case Action::bracket:
      emit(AnswerDelta::Kind::content, rule.tag);
      return;
    case Action::begin_call:
      ++calls_;
      has_parameters_ = false;
      deltas_->push_back({AnswerDelta::Kind::call_name, std::exchange(name_, {}), calls_ - 1});
      return;
    case Action::begin_parameter:
      emit(kArguments, has_parameters_ ? ", " : "{");
      has_parameters_ = true;
      return;
    case Action::quote:
      emit(kArguments, "\"");
      return;
    case Action::end_key:
      emit(kArguments, "\": ");
      return;
    case Action::end_call:
      emit(kArguments, has_parameters_ ? "}" : "{}");
      return;
  }
}

// Text up to `end` is no tag.
void CompletionParser::State::give_out_before(size_t end) {
  if (end > begin_) {
    const size_t begin = std::exchange(begin_, end);
    other_text(std::string_view(text_).substr(begin, end - begin));
  }
}

void CompletionParser::State::other_text(std::string_view text) {
  switch (stage_info(stage_).other) {
    case Other::dropped:
    case Other::misplaced:
      return;
    case Other::reasoning:
      emit(AnswerDelta::Kind::reasoning, text);
      return;
    case Other::content:
      emit(AnswerDelta::Kind::content, text);
      return;
    case Other::blank:
      if (!std::exchange(is_blank_, true)) {
        emit(AnswerDelta::Kind::content, " ");
      }
      return;
    case Other::name:
      name_ += text;
      return;
    case Other::escaped:
      emit(AnswerDelta::Kind::call_arguments, json_escaped(text));
      return;
    case Other::raw:
      emit(AnswerDelta::Kind::call_arguments, text);
      return;
  }
}

// Texts of one kind become one delta of a push.
void CompletionParser::State::emit(AnswerDelta::Kind kind, std::string_view text) {
  const int64_t call = kind == AnswerDelta::Kind::call_arguments ? calls_ - 1 : 0;
  if (deltas_->size() > first_delta_ && deltas_->back().kind == kind &&
      deltas_->back().call == call) {
    deltas_->back().text += text;
  } else {
    deltas_->push_back({kind, std::string(text), call});
  }
}

CompletionParser::CompletionParser(CompletionOptions options) {
  check_stop_strings(options.stop);
  state_ = std::make_unique<State>(std::move(options));
}
CompletionParser::~CompletionParser() = default;
CompletionParser::CompletionParser(CompletionParser&&) noexcept = default;
CompletionParser& CompletionParser::operator=(CompletionParser&&) noexcept = default;

void CompletionParser::push(std::string_view text, std::vector<AnswerDelta>& deltas) {
  state_->push(text, deltas);
}
void CompletionParser::finish(std::vector<AnswerDelta>& deltas) { state_->finish(deltas); }
bool CompletionParser::is_finished() const { return state_->is_finished(); }
const std::string& CompletionParser::stop_string() const { return state_->stop_string(); }
int64_t CompletionParser::calls() const { return state_->calls(); }

}  // namespace tessera::deepseek_v41
