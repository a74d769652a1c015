#include "trace_run.h"

#include <filesystem>
#include <limits>
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "base/str_cat.h"
#include "interrupt.h"
#include "io/json.h"
#include "number_option.h"
#include "output.h"
#include "runtime/engine.h"
#include "trace/reader.h"
#include "trace/sinks.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// Relative picture paths of a replayed request: the trace's folder, its parent, then --image-root.
void find_pictures(Request& request, const TraceArguments& a) {
  const fs::path folder = fs::path(a.replay.substr(0, a.replay.find(','))).parent_path();
  const std::vector<fs::path> roots = {folder, folder / "..", fs::path(a.image_root)};
  const auto resolve = [&](ImageSource& source) {
    for (const fs::path& root : roots) {
      std::error_code ignored;
      if (source.kind == ImageSource::Kind::url && fs::exists(root / source.value, ignored)) {
        source.value = fs::absolute(root / source.value).string();
        return;
      }
    }
  };
  for (std::vector<Message>* list : {&request.messages, &request.context}) {
    for (Message& message : *list) {
      for (ContentBlock& block : message.content) {
        resolve(block.image);
        for (ContentBlock& inner : block.content) {
          resolve(inner.image);
        }
      }
    }
  }
  for (ImageSource& source : request.raw_images) {
    resolve(source);
  }
}

// The request that a trace records, call for call, with its tokens fed and in its precision.
Request replayed_request(const trace::TraceFile& recorded, TraceArguments& a) {
  const trace::TraceInfo& info = recorded.info();
  if (info.request.is_null() || info.calls.empty()) {
    throw Error(ErrorCode::bad_file,
                str_cat(a.replay, ": records no request (`case` and `calls` in its metadata)"));
  }
  InputCase input = parse_input_case(io::dump_compact(info.request), "");
  Request request = std::move(input.request);
  request.is_thinking = request.is_thinking.value_or(false);
  request.sampling.temperature = 0;
  for (const trace::TraceCall& call : info.calls) {
    request.calls.push_back({call.start, call.rows});
  }
  for (const int64_t token : info.tokens) {
    if (token < 0 || token > std::numeric_limits<int32_t>::max()) {
      throw Error(ErrorCode::bad_file,
                  str_cat(a.replay, ": recorded token ", token, " is no token id"));
    }
    request.fed_ids.push_back(static_cast<int32_t>(token));
  }
  if (a.activations.empty()) {
    a.activations = info.activations;
  }
  if (info.index_keys == "reference") {
    a.model.reference.push_back("index-slot");
  }
  a.model.reference.push_back("image-token");
  find_pictures(request, a);
  return request;
}

io::Json case_of(const TraceArguments& a) {
  io::Json content = io::Json::array();
  for (const std::string& image : a.request.images) {
    io::Json url = io::Json::object();
    url.set("url", io::Json::string(fs::absolute(image).string()));
    io::Json block = io::Json::object();
    block.set("type", io::Json::string("image_url"));
    block.set("image_url", std::move(url));
    content.items().push_back(std::move(block));
  }
  if (!a.request.prompt.empty()) {
    io::Json block = io::Json::object();
    block.set("type", io::Json::string("text"));
    block.set("text", io::Json::string(a.request.prompt));
    content.items().push_back(std::move(block));
  }
  io::Json messages = io::Json::array();
  const auto add = [&](const char* role, io::Json value) {
    io::Json message = io::Json::object();
    message.set("role", io::Json::string(role));
    message.set("content", std::move(value));
    messages.items().push_back(std::move(message));
  };
  if (!a.request.system.empty()) {
    add("system", io::Json::string(a.request.system));
  }
  add("user", std::move(content));
  io::Json json = io::Json::object();
  json.set("messages", std::move(messages));
  return json;
}

// The case of --input as its file has it, so that the trace can be replayed from its folder.
io::Json recorded_case(const TraceArguments& a, const trace::TraceFile* recorded) {
  if (recorded != nullptr) {
    return recorded->info().request;
  }
  if (a.request.input.empty()) {
    return case_of(a);
  }
  if (fs::path(a.request.input).extension() != ".json") {
    return io::Json();
  }
  const io::Json file = io::read_json_file(a.request.input);
  const io::Json* found = &file;
  if (file.is_array() && !a.request.input_case.empty()) {
    size_t index = 0;
    for (const io::Json& item : file.items()) {
      const io::Json* name = item.find("name");
      if ((name != nullptr && name->text() == a.request.input_case) ||
          (parse_number(a.request.input_case, index) && index < file.items().size() &&
           &file.items()[index] == &item)) {
        found = &item;
        break;
      }
    }
  }
  if (!found->is_array()) {
    return *found;
  }
  io::Json json = io::Json::object();  // a bare message list
  json.set("messages", *found);
  return json;
}

}  // namespace

int write_trace(TraceArguments a) {
  if (a.only != "" && a.only != "vision") {
    throw Error(ErrorCode::bad_request, str_cat("--only ", a.only, ": expected vision"));
  }
  std::unique_ptr<trace::TraceFile> recorded;
  Request request;
  if (!a.replay.empty()) {
    if (!a.request.prompt.empty() || !a.request.images.empty() || !a.request.input.empty() ||
        !a.request.system.empty()) {
      throw Error(ErrorCode::bad_request,
                  "--replay repeats the recorded request; leave out PROMPT, --image, --system and "
                  "--input");
    }
    recorded = std::make_unique<trace::TraceFile>(a.replay);
    request = replayed_request(*recorded, a);
  } else {
    request = make_request(a.request);
  }
  if (a.activations.empty()) {
    a.activations = "bf16";
  }
  if (a.activations != "bf16" && a.activations != "f32") {
    throw Error(ErrorCode::bad_request,
                str_cat("--activations ", a.activations, ": expected bf16 or f32"));
  }
  EngineOptions options = engine_options(a.model);
  options.fp32_vision = a.activations == "f32";
  request.stops_after_vision = a.only == "vision";
  request.cancel = &interrupt_flag();
  trace::Writer writer(a.out, {.globs = a.taps, .header_bytes = int64_t{8} << 20});
  std::vector<TraceSink*> sinks = {&writer};
  std::unique_ptr<trace::TraceFile> forced_file;
  std::unique_ptr<trace::Forcer> forcer;
  if (!a.force.empty()) {
    forced_file = std::make_unique<trace::TraceFile>(a.force);
    forcer = std::make_unique<trace::Forcer>(*forced_file, "*");
    sinks.push_back(forcer.get());
  }
  trace::Chain chain(sinks);
  request.sink = &chain;
  ProgressBar bar(a.model.is_quiet);
  Events events;
  events.on_notice = [&](std::string_view line) {
    bar.clear();
    log_line(LogLevel::warning, line);
  };
  events.on_progress = [&](std::string_view stage, int64_t done, int64_t total) {
    bar.update(stage, done, total);
  };
  const std::unique_ptr<Engine> engine = Engine::open(options, events);
  const Result result = engine->generate(request, events);
  bar.clear();
  if (result.is_cancelled || interrupt_flag().load()) {
    return kInterrupted;
  }
  trace::TraceInfo info;
  info.producer = "tessera";
  info.model = engine->config_sha256();
  info.request = recorded_case(a, recorded.get());
  for (const CallPlan& call : result.calls) {
    info.calls.push_back({call.start, call.rows});
  }
  info.tokens.assign(result.call_tokens.begin(), result.call_tokens.end());
  info.activations = a.activations;
  info.index_keys = options.reference_index_slot ? "reference" : "own";
  writer.set_info(info);
  if (!a.force.empty()) {
    writer.set_metadata("forced", a.force);
  }
  writer.commit();
  return 0;
}

}  // namespace tessera
