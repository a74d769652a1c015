#include "runtime/engine.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <mutex>

#include "base/error.h"
#include "base/log.h"
#include "base/stopwatch.h"
#include "base/str_cat.h"
#include "io/config_view.h"
#include "io/json.h"
#include "io/sha256.h"
#include "models/deepseek_v41/input_ranges.h"
#include "models/deepseek_v41/model.h"
#include "models/deepseek_v41/prompt.h"
#include "runtime/engine_residency.h"
#include "runtime/generation.h"
#include "runtime/scheduler.h"
#include "runtime/working_memory.h"

namespace tessera {
namespace {

constexpr int64_t kMostStated = int64_t{1} << 24;  // of a number in generation_config.json

using Clock = std::chrono::steady_clock;

}  // namespace

struct Engine::State {
  State(const EngineOptions& o, std::unique_ptr<const deepseek_v41::Model> m)
      : options(o),
        model(std::move(m)),
        threads(o.threads > 0 ? o.threads : available_threads()),
        ctx{.threads = threads, .scratch = arena, .isa = active_isa(), .trace = {}},
        context(context_of(o, model->network.config)),
        sequences(sequences_of(o)),
        pools(model->network.config, pool_tokens(o, model->network.config)),
        prefixes(model->network.config, pools, o.reference_index_slot ? 0 : o.prefix_cache_bytes),
        picture_cache(o.picture_cache_bytes),
        encoder(model->tokenizer, static_cast<int32_t>(model->network.config.image_token)) {}

  EngineOptions options;
  std::unique_ptr<const deepseek_v41::Model> model;
  std::unique_ptr<Residency> residency;  // of the model's files; may be nullptr
  std::optional<deepseek_v41::InputRanges> input_ranges;
  ThreadPool threads;
  Arena arena;
  ExecContext ctx;
  int64_t context;
  int64_t sequences;  // at the same time, the prompt that answers fork from included
  deepseek_v41::CachePools pools;
  PrefixCache prefixes;
  PictureCache picture_cache;
  deepseek_v41::PromptEncoder encoder;
  EngineBuffers buffers;
  GenerationDefaults defaults;
  double load_ms = 0;
  ModelMutex computing;
  mutable std::mutex starting;
  std::unique_ptr<Scheduler> scheduler;  // since the first submit(); goes before all the others

  // That requests come to fill.
  int64_t cache_bytes() const {
    return pools.bytes() + options.prefix_cache_bytes + options.picture_cache_bytes;
  }
  // The scheduler, made at the first call.
  Scheduler& serving();

  PromptContext prompt_context() const {
    return {.options = options, .model = *model, .encoder = encoder, .defaults = defaults};
  }
};

namespace {

// generation_config.json is optional (the release has none); its key default_thinking ("off",
// "low", "high", "max" or 1..100) is ours.
GenerationDefaults read_defaults(const std::string& folder) {
  GenerationDefaults d;
  const std::string path = folder + "/generation_config.json";
  if (!std::filesystem::exists(path)) {
    return d;
  }
  const io::Json json = io::read_json_file(path);
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::bad_file, str_cat(path, ": ", what));
  };
  if (!json.is_object()) {
    refuse("expected a JSON object");
  }
  const io::ConfigView v(json, path);
  d.temperature = v.boolean_or("do_sample", true) ? v.number_or("temperature", 1.0) : 0.0;
  d.top_p = v.number_or("top_p", 0.95);
  d.top_k = v.integer_or("top_k", 0, kMostStated, 0);
  d.repetition_penalty = v.number_or("repetition_penalty", 1.0);
  d.max_tokens = v.integer_or("max_new_tokens", 1, kMostStated, d.max_tokens);
  // Read even when do_sample switches it off, so that a wrong value is noticed.
  const double stated = v.number_or("temperature", 1.0);
  if (!(stated >= 0 && stated <= 100)) {
    refuse(str_cat("temperature is ", stated, ", expected 0 to 100"));
  }
  if (!(d.top_p >= 0 && d.top_p <= 1)) {
    refuse(str_cat("top_p is ", d.top_p, ", expected 0 to 1"));
  }
  if (!(d.repetition_penalty >= 0.01 && d.repetition_penalty <= 100)) {
    refuse(str_cat("repetition_penalty is ", d.repetition_penalty, ", expected 0.01 to 100"));
  }
  const std::string thinking = v.text_or("default_thinking", "high");
  d.is_thinking = thinking != "off";
  if (d.is_thinking) {
    const std::optional<int> effort = parse_effort_level(thinking);
    if (!effort.has_value()) {
      refuse(str_cat("default_thinking is '", thinking,
                     "', expected off, low, high, max or a number from 1 to 100"));
    }
    d.effort = *effort;
  }
  return d;
}

// A cache that cannot hold a single state or picture is a mistake.
void check_cache_sizes(const EngineOptions& options, const deepseek_v41::Config& config,
                       deepseek_v41::CachePools& pools) {
  const int64_t state = deepseek_v41::SequenceState(config, pools).bytes();
  if (options.prefix_cache_bytes > 0 && options.prefix_cache_bytes < state) {
    throw Error(ErrorCode::bad_request,
                str_cat("prefix_cache_bytes is ", options.prefix_cache_bytes,
                        ", a state of this model has at least ", state, "; give more, or 0"));
  }
  const int64_t picture =
      config.vision.max_tokens * config.hidden * static_cast<int64_t>(sizeof(bf16));
  if (options.picture_cache_bytes > 0 && options.picture_cache_bytes < picture) {
    throw Error(ErrorCode::bad_request,
                str_cat("picture_cache_bytes is ", options.picture_cache_bytes,
                        ", the largest picture of this model has ", picture, "; give more, or 0"));
  }
}

}  // namespace

std::unique_ptr<Engine> Engine::open(const EngineOptions& options, const Events& events) {
  const Clock::time_point start = Clock::now();
  check_options(options);
  if (active_isa() == IsaLevel::reference) {
    log_line(LogLevel::warning,
             "this processor lacks AVX2 and FMA (or TESSERA_FORCE_ISA=reference is set): the slow "
             "reference kernels are used");
  }
  if (events.on_progress) {
    events.on_progress("load", 0, 1);
  }
  const std::string folder = options.model;
  const deepseek_v41::Parity parity = {
      .reference_index_slot = options.reference_index_slot,
      .index_scores =
          options.fp32_index_scores ? IndexScoreRounding::fp32 : IndexScoreRounding::bf16,
      .nvfp4_activations = options.nvfp4_e4m3_activations
                               ? deepseek_v41::Nvfp4Activations::e4m3
                               : deepseek_v41::Nvfp4Activations::calibrated};
  auto state = std::make_unique<State>(options, deepseek_v41::Model::load(folder, parity));
  if (state->model->network.config.vision.layers > 0) {
    check_picture_limits(state->model->network.config.vision, folder);
  }
  check_cache_sizes(options, state->model->network.config, state->pools);
  state->residency = open_residency(
      options, *state->model, std::min(options.step_rows, state->context), state->cache_bytes());
  state->ctx.residency = state->residency.get();
  state->defaults = read_defaults(folder);
  if (options.counts_experts) {
    const deepseek_v41::Config& config = state->model->network.config;
    step_buffers(config, 1, 1, state->buffers.step).count_experts(config);
  }
  if (options.measures_inputs) {
    state->input_ranges.emplace(state->model->network.weights);
    state->ctx.observer = &*state->input_ranges;
  }
  state->load_ms = ms_since(start);
  if (events.on_progress) {
    events.on_progress("load", 1, 1);
  }
  return std::unique_ptr<Engine>(new Engine(std::move(state)));
}

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

std::vector<PicturePlan> Engine::plan_pictures(const std::vector<ImageSource>& pictures,
                                               bool has_preview) const {
  return tessera::plan_pictures(state_->prompt_context(), pictures, has_preview);
}

const GenerationDefaults& Engine::defaults() const { return state_->defaults; }
const std::string& Engine::model_folder() const { return state_->options.model; }
double Engine::load_ms() const { return state_->load_ms; }
int Engine::threads() const { return state_->threads.threads(); }
int64_t Engine::context() const { return state_->context; }

std::string Engine::decode(const std::vector<int32_t>& ids) const {
  return state_->model->tokenizer.decode(ids);
}

std::string Engine::config_sha256() const {
  const MappedFile file(state_->options.model + "/config.json");
  return io::sha256_hex(file.bytes());
}

std::string_view Engine::token_bytes(int32_t id) const {
  return state_->model->tokenizer.token_bytes(id);
}

Result Engine::generate(const Request& request, const Events& events) {
  State& s = *state_;
  const ModelMutex::Lock computing(s.computing);
  Generation generation({.prompt = s.prompt_context(),
                         .context = s.context,
                         .ctx = s.ctx,
                         .pools = s.pools,
                         .prefixes = s.prefixes,
                         .picture_cache = s.picture_cache,
                         .buffers = s.buffers},
                        request, events);
  return generation.run();
}

Scheduler& Engine::State::serving() {
  const std::lock_guard lock(starting);
  if (scheduler == nullptr) {
    const int64_t cache_tokens = options.serving.cache_tokens;
    scheduler = std::make_unique<Scheduler>(
        SchedulerContext{.prompt = prompt_context(),
                         .context = context,
                         .cache_tokens = cache_tokens > 0 ? cache_tokens : context,
                         .sequences = sequences,
                         .ctx = ctx,
                         .pools = pools,
                         .prefixes = prefixes,
                         .picture_cache = picture_cache,
                         .buffers = buffers,
                         .model = computing});
  }
  return *scheduler;
}

std::shared_ptr<Ticket> Engine::submit(Request request) {
  State& s = *state_;
  if (s.options.reference_index_slot || s.options.fp32_vision) {
    throw Error(ErrorCode::unsupported,
                "parity switches that make an answer depend on its steps (index-slot, the fp32 "
                "tower) are for requests that run alone; use generate()");
  }
  for (const auto& [id, bias] : request.sampling.logit_bias) {
    const int64_t vocab = s.model->network.config.vocab;
    if (id < 0 || id >= vocab) {
      throw Error(ErrorCode::bad_request,
                  str_cat("logit_bias: token ", id, " is outside the vocabulary of ", vocab));
    }
  }
  return s.serving().submit(std::move(request));
}

void Engine::drain() {
  const std::lock_guard lock(state_->starting);
  if (state_->scheduler != nullptr) {
    state_->scheduler->drain();
  }
}

ServingStatistics Engine::serving_statistics() const {
  const std::lock_guard lock(state_->starting);
  return state_->scheduler == nullptr ? ServingStatistics() : state_->scheduler->statistics();
}

std::optional<ResidencyStatistics> Engine::residency_statistics() const {
  const Residency* residency = state_->residency.get();
  return residency != nullptr ? std::optional(residency->statistics()) : std::nullopt;
}

MemoryPlan Engine::memory_plan() const {
  State& s = *state_;
  Scheduler& scheduler = s.serving();
  const ModelMutex::Lock computing(s.computing);
  scheduler.make_buffers();
  const EngineOptions& o = s.options;
  const int64_t page_bytes = s.pools.bytes();
  const int64_t kept_pages =
      static_cast<int64_t>(deepseek_v41::page_bytes_per_token(s.model->network.config) *
                           static_cast<double>(kept_tokens(o, s.model->network.config)));
  MemoryPlan plan;
  plan.parts = {
      {"cache pages", page_bytes,
       str_cat("compressed keys and values of ", std::max(s.context, o.serving.cache_tokens),
               " tokens, a begun page for each of ", s.sequences,
               " sequences, pages of the prefix cache")},
      {"prefix cache", std::max<int64_t>(o.prefix_cache_bytes - kept_pages, 0),
       "rings and open groups of kept states, at most"},
      {"picture cache", o.picture_cache_bytes, "rows of encoded pictures, at most"},
      {"step", s.buffers.step->bytes(),
       str_cat("fresh rows and logits of ", s.buffers.step->max_rows, " rows")},
      {"picture encoder", s.buffers.vision == nullptr ? 0 : s.buffers.vision->bytes(),
       "activations of the largest picture"},
      {"scratch", s.arena.capacity_bytes(), "of the largest step so far"}};
  if (o.locks_hot_weights) {
    plan.parts.push_back(
        {"locked weights", s.residency->statistics().locked_bytes, "what every step reads"});
  }
  std::stable_sort(plan.parts.begin(), plan.parts.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return plan;
}

std::map<std::string, float, std::less<>> Engine::expert_input_ranges() const {
  TESSERA_CHECK(state_->input_ranges.has_value());
  const ModelMutex::Lock computing(state_->computing);
  return state_->input_ranges->largest();
}

ExpertStatistics Engine::expert_statistics() const {
  State& s = *state_;
  const ModelMutex::Lock computing(s.computing);
  const deepseek_v41::Config& config = s.model->network.config;
  return {
      .layers = config.layers,
      .experts = config.experts,
      .picks = s.buffers.step == nullptr ? std::vector<int64_t>() : s.buffers.step->expert_picks};
}

EncodedPrompt Engine::encode(const Request& request, ImageSpans spans) const {
  const PromptContext context = state_->prompt_context();
  deepseek_v41::Prompt prompt = encode_prompt(context, request);
  EncodedPrompt encoded = to_encoded(prompt);
  if (spans == ImageSpans::expand) {
    PreparedPrompt prepared = prepare_prompt(context, request, std::move(prompt));
    encoded.expanded_ids = std::move(prepared.expanded.ids);
    encoded.types = std::move(prepared.expanded.types);
    for (const deepseek_v41::ImageSpan& span : prepared.expanded.spans) {
      encoded.spans.push_back({span.start, span.length, span.tokens.rows, span.tokens.columns});
    }
  }
  return encoded;
}

}  // namespace tessera
