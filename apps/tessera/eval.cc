// tessera eval: a question set with recorded answers, checked item by item.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/str_cat.h"
#include "commands.h"
#include "interrupt.h"
#include "io/json.h"
#include "number_option.h"
#include "output.h"
#include "request_options.h"
#include "runtime/engine.h"

namespace tessera {
namespace {

using io::Json;

// The rule of the check: docs/numerics.md, evaluation.
constexpr double kSafeMargin = 0.2;  // logit gap below which another rounding may flip an answer
constexpr double kMeanLogprobLimit = 0.03;
constexpr double kMaxLogprobLimit = 0.25;  // sums per item

struct Arguments {
  ModelArguments model;
  std::string file;
  double min_accuracy = 0;
};

// One line of the set.
struct Item {
  std::string id, type, lang;
  Request request;
  std::vector<std::string> accepted;  // right answers
  std::vector<int32_t> prompt_ids;
  std::vector<int32_t> answer_ids;      // recorded
  std::vector<double> answer_logprobs;  // recorded
  double margin = 0;
};

struct Outcome {
  std::string answer;
  std::vector<int32_t> ids;
  std::vector<double> logprobs;  // of the recorded ids
  bool is_correct = false;
  bool has_equal_prompt = false;
  bool has_recorded_answer = false;
  double logprob_difference = 0;
};

const Json& require(const Json& item, std::string_view key, const std::string& where) {
  const Json* value = item.find(key);
  if (value == nullptr) {
    throw Error(ErrorCode::bad_file, str_cat(where, ": key '", key, "' is missing"));
  }
  return *value;
}

std::vector<int32_t> ids_of(const Json& item, std::string_view key, const std::string& where) {
  std::vector<int32_t> ids;
  for (const Json& id : require(item, key, where).items()) {
    const std::optional<int64_t> value = id.as_int64();
    if (!value.has_value() || *value < 0 || *value > std::numeric_limits<int32_t>::max()) {
      throw Error(ErrorCode::bad_file,
                  str_cat(where, ": ", key, " has ", io::dump_compact(id), ", expected token ids"));
    }
    ids.push_back(static_cast<int32_t>(*value));
  }
  return ids;
}

Item parse_item(const Json& json, const std::string& where, const std::string& root) {
  Item item;
  item.id = require(json, "id", where).text();
  item.type = require(json, "type", where).text();
  item.lang = require(json, "lang", where).text();
  item.request = parse_input_case(io::dump_compact(json), root).request;
  item.accepted.push_back(require(json, "expected", where).text());
  for (const Json& other : require(json, "alternatives", where).items()) {
    item.accepted.push_back(other.text());
  }
  item.prompt_ids = ids_of(json, "prompt_ids", where);
  item.answer_ids = ids_of(json, "model_answer_ids", where);
  for (const Json& value : require(json, "model_answer_logprobs", where).items()) {
    item.answer_logprobs.push_back(value.as_double().value_or(0));
  }
  item.margin = require(json, "model_min_margin", where).as_double().value_or(0);
  if (item.answer_ids.empty() || item.answer_ids.size() != item.answer_logprobs.size()) {
    throw Error(
        ErrorCode::bad_file,
        str_cat(where,
                ": model_answer_ids and model_answer_logprobs must be as long and not empty"));
  }
  return item;
}

std::vector<Item> read_items(const std::string& path) {
  const MappedFile file(path);
  std::string_view rest(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  const std::string root = std::filesystem::path(path).parent_path().string();
  std::vector<Item> items;
  for (int number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (!line.empty()) {
      const std::string where = str_cat(path, ":", number);
      items.push_back(parse_item(io::parse_json(line, where), where, root));
    }
  }
  if (items.empty()) {
    throw Error(ErrorCode::bad_file, str_cat(path, ": no items"));
  }
  return items;
}

Outcome evaluate(Engine& engine, const Item& item) {
  Outcome o;
  Request request = item.request;
  request.sampling.temperature = 0;
  request.cancel = &interrupt_flag();
  const Result result = engine.generate(request);
  o.answer = result.choices.front().text;
  o.ids = result.choices.front().ids;
  o.is_correct =
      std::find(item.accepted.begin(), item.accepted.end(), o.answer) != item.accepted.end();
  o.has_equal_prompt = result.prompt_ids == item.prompt_ids;
  o.has_recorded_answer = o.ids == item.answer_ids;
  request.scored_ids = item.answer_ids;
  o.logprobs = engine.generate(request).scored_logprobs;
  double ours = 0, recorded = 0;
  for (size_t i = 0; i < o.logprobs.size(); ++i) {
    ours += o.logprobs[i];
    recorded += item.answer_logprobs[i];
  }
  o.logprob_difference = std::fabs(ours - recorded);
  return o;
}

struct Share {
  int64_t correct = 0;
  int64_t items = 0;
};

struct Summary {
  int64_t items = 0, correct = 0, prompt_ids_equal = 0, matched = 0, safe = 0, safe_matched = 0;
  std::map<std::string, Share> by_type, by_lang;
  double mean_difference = 0, max_difference = 0;

  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(items); }
  bool passes(double min_accuracy) const {
    return prompt_ids_equal == items && safe_matched == safe &&
           mean_difference <= kMeanLogprobLimit && max_difference <= kMaxLogprobLimit &&
           accuracy() >= min_accuracy;
  }
};

Summary summarise(const std::vector<Item>& items, const std::vector<Outcome>& outcomes) {
  Summary s;
  s.items = static_cast<int64_t>(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const Outcome& o = outcomes[i];
    s.correct += o.is_correct ? 1 : 0;
    s.prompt_ids_equal += o.has_equal_prompt ? 1 : 0;
    s.matched += o.has_recorded_answer ? 1 : 0;
    if (items[i].margin >= kSafeMargin) {
      ++s.safe;
      s.safe_matched += o.has_recorded_answer ? 1 : 0;
    }
    for (Share* share : {&s.by_type[items[i].type], &s.by_lang[items[i].lang]}) {
      share->correct += o.is_correct ? 1 : 0;
      ++share->items;
    }
    s.mean_difference += o.logprob_difference / static_cast<double>(items.size());
    s.max_difference = std::max(s.max_difference, o.logprob_difference);
  }
  return s;
}

Json shares_json(const std::map<std::string, Share>& shares) {
  Json json = Json::object();
  for (const auto& [name, share] : shares) {
    Json entry = Json::object();
    entry.set("correct", Json::number(share.correct));
    entry.set("items", Json::number(share.items));
    json.set(name, std::move(entry));
  }
  return json;
}

std::string to_json(const std::vector<Item>& items, const std::vector<Outcome>& outcomes,
                    const Summary& s) {
  Json results = Json::array();
  for (size_t i = 0; i < items.size(); ++i) {
    Json ids = Json::array(), logprobs = Json::array();
    for (const int32_t id : outcomes[i].ids) {
      ids.items().push_back(Json::number(int64_t{id}));
    }
    for (const double value : outcomes[i].logprobs) {
      logprobs.items().push_back(Json::number(value));
    }
    Json result = Json::object();
    result.set("id", Json::string(items[i].id));
    result.set("answer", Json::string(outcomes[i].answer));
    result.set("ids", std::move(ids));
    result.set("forced_logprobs", std::move(logprobs));
    results.items().push_back(std::move(result));
  }
  Json logprob = Json::object();
  logprob.set("mean_abs", Json::number(s.mean_difference));
  logprob.set("max_abs", Json::number(s.max_difference));
  Json json = Json::object();
  json.set("items", Json::number(s.items));
  json.set("correct", Json::number(s.correct));
  json.set("prompt_ids_equal", Json::number(s.prompt_ids_equal));
  json.set("matched_recorded", Json::number(s.matched));
  json.set("matched_above_margin", Json::number(s.safe_matched));
  json.set("by_type", shares_json(s.by_type));
  json.set("by_lang", shares_json(s.by_lang));
  json.set("logprob", std::move(logprob));
  json.set("results", std::move(results));
  return io::dump_compact(json) + "\n";
}

std::string shares_text(const std::map<std::string, Share>& shares) {
  std::string out;
  for (const auto& [name, share] : shares) {
    out += str_cat("  ", name, std::string(name.size() < 24 ? 24 - name.size() : 1, ' '),
                   share.correct, " of ", share.items, "\n");
  }
  return out;
}

std::string to_text(const std::vector<Item>& items, const std::vector<Outcome>& outcomes,
                    const Summary& s, bool passes) {
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!outcomes[i].has_recorded_answer || !outcomes[i].has_equal_prompt) {
      out += str_cat(items[i].id, ": answer '", escape_controls(outcomes[i].answer),
                     "' differs from the record (margin ", items[i].margin, ")\n");
    }
  }
  out += str_cat("correct                   ", s.correct, " of ", s.items, "\n",
                 shares_text(s.by_type), shares_text(s.by_lang));
  out += str_cat("prompt ids equal          ", s.prompt_ids_equal, " of ", s.items, "\n");
  out += str_cat("recorded answer           ", s.matched, " of ", s.items,
                 ", with margin >= ", kSafeMargin, ": ", s.safe_matched, " of ", s.safe, "\n");
  out +=
      str_cat("log-probability differs   mean ", s.mean_difference, " (limit ", kMeanLogprobLimit,
              "), most ", s.max_difference, " (limit ", kMaxLogprobLimit, ")\n");
  return out + (passes ? "passed\n" : "failed\n");
}

int run(const Arguments& a) {
  if (!(a.min_accuracy >= 0 && a.min_accuracy <= 1)) {
    throw Error(ErrorCode::bad_request,
                str_cat("--min-accuracy ", a.min_accuracy, ": expected 0 to 1"));
  }
  const std::vector<Item> items = read_items(a.file);
  const std::unique_ptr<Engine> engine = Engine::open(engine_options(a.model));
  ProgressBar bar(a.model.is_quiet);
  std::vector<Outcome> outcomes;
  for (const Item& item : items) {
    outcomes.push_back(evaluate(*engine, item));
    bar.update("eval", static_cast<int64_t>(outcomes.size()), static_cast<int64_t>(items.size()));
    if (interrupt_flag().load()) {
      return kInterrupted;
    }
  }
  bar.clear();
  const Summary summary = summarise(items, outcomes);
  const bool passes = summary.passes(a.min_accuracy);
  Output out;
  out.write(a.model.is_json ? to_json(items, outcomes, summary)
                            : to_text(items, outcomes, summary, passes));
  return passes ? 0 : 1;
}

}  // namespace

void add_eval_command(CLI::App& app, int& status) {
  CLI::App* command =
      app.add_subcommand("eval", "check a question set against its recorded answers");
  const auto a = std::make_shared<Arguments>();
  command->add_option("FILE", a->file, "JSON lines: messages, expected and recorded answers")
      ->required();
  add_number_option(*command, "--min-accuracy", a->min_accuracy,
                    "smallest share of right answers, 0 to 1");
  add_model_options(*command, a->model);
  command->footer(
      "Examples:\n"
      "  tessera eval models/demo/eval/eval.jsonl\n"
      "  tessera eval --min-accuracy 0.9 --json set.jsonl");
  command->callback([a, &status] { status = run(*a); });
}

}  // namespace tessera
