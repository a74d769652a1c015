#include "plan_report.h"

#include <algorithm>
#include <cmath>

#include "base/str_cat.h"
#include "text_columns.h"

namespace tessera {
namespace {

using deepseek_v41::Config;
using io::Json;

std::string giga(double value) { return decimal_text(value * 1e-9, value < 9.95e9 ? 2 : 1); }

// "512 us", "85.1 ms", "3.42 s", "75.0 s", "12.3 min"
std::string time_text(double seconds) {
  if (seconds < 0.9995) {
    return seconds < 1e-3 ? str_cat(decimal_text(seconds * 1e6, 0), " us")
                          : str_cat(decimal_text(seconds * 1e3, seconds < 0.01 ? 2 : 0), " ms");
  }
  return seconds < 300 ? str_cat(decimal_text(seconds, seconds < 10 ? 2 : 1), " s")
                       : str_cat(decimal_text(seconds / 60, 1), " min");
}

std::string rate_text(double per_second) {
  return decimal_text(per_second, per_second < 1 ? 3 : per_second < 100 ? 2 : 0);
}

std::string speed_text(const KernelSpeed& speed) {
  std::string rates;
  std::string rows;
  for (const KernelSpeed::Point& point : speed.points) {
    rates += str_cat(rates.empty() ? "" : " / ", decimal_text(point.flops_per_second * 1e-9, 0));
    rows += str_cat(rows.empty() ? "" : " / ", point.rows);
  }
  return str_cat(rates, " GFLOP/s at ", rows, " rows");
}

std::string model_lines(const PlanReport& r) {
  const Config& c = r.cost.config();
  std::string text = str_cat("model     ", r.model, "\n          ", c.layers, " layers of ",
                             c.experts, " experts, ", c.active_experts, " active");
  if (!c.engram.layers.empty()) {
    text += str_cat(", ", c.engram.layers.size(), " Engram tables");
  }
  text += c.vision.layers > 0 ? str_cat(", vision tower of ", c.vision.layers, " layers")
                              : std::string(", no vision tower");
  return str_cat(text, ", ", size_text(r.cost.stored_bytes()), "\n");
}

std::string machine_lines(const Machine& m) {
  const auto line = [](std::string_view name, const std::string& value, const std::string& source) {
    return str_cat("          ", left(name, 18), left(value, 28), source, "\n");
  };
  std::string text = str_cat("machine   ", m.name, "\n");
  text += line("threads", str_cat(m.threads.value), m.threads.source);
  text +=
      line("memory", size_text(static_cast<int64_t>(m.memory_bytes.value)), m.memory_bytes.source);
  text += line("memory reads", str_cat(giga(m.memory_bandwidth.value), " GB/s"),
               m.memory_bandwidth.source);
  if (m.disk_bandwidth.is_known()) {
    text += line("disk, in order", str_cat(giga(m.disk_bandwidth.value), " GB/s"),
                 m.disk_bandwidth.source);
  }
  if (m.disk_reads_per_second.is_known()) {
    text +=
        line("disk, at random", str_cat(decimal_text(m.disk_reads_per_second.value, 0), " reads/s"),
             m.disk_reads_per_second.source);
  }
  text += str_cat("          ", left("kernels", 18), m.kernels_source, "\n");
  for (int i = 0; i < kKernels; ++i) {
    const Kernel kernel = static_cast<Kernel>(i);
    text +=
        str_cat("            ", left(kernel_name(kernel), 20), speed_text(m.speed(kernel)), "\n");
  }
  return text;
}

std::string placement_lines(const MachinePlan& plan) {
  std::string text = str_cat("\n", left("component", 18), right("bytes", 16), right("size", 13),
                             right("in memory", 13), "  where\n");
  for (const Placement& p : plan.placements) {
    std::string where = str_cat(p.where);
    if (p.where == "memory and disk") {
      where += str_cat(" (", decimal_text(100 * p.share(), 1), " % in memory)");
    }
    text +=
        str_cat(left(p.component, 18), right(str_cat(p.bytes), 16), right(size_text(p.bytes), 13),
                right(size_text(p.memory_bytes), 13), "  ", where, ": ", p.why, "\n");
  }
  text += "\nworking memory\n" + plan.working_memory.text();
  const auto fits = [](int64_t tokens) {
    return tokens > 0 ? str_cat(tokens, " tokens") : std::string("none");
  };
  text += str_cat("context   ", plan.context,
                  " tokens; largest beside what every token reads: ", fits(plan.most_context),
                  "; beside all experts too: ", fits(plan.most_context_all), "\n");
  return text;
}

// What a step reads, computes and waits for.
std::string reasoning(const StepTime& time) {
  std::string text = str_cat("          reads ", giga(time.bytes), " GB");
  if (time.disk_bytes > 0 || time.disk_reads > 0) {
    text += str_cat(" (", giga(time.disk_bytes), " GB and ", decimal_text(time.disk_reads, 0),
                    " places of it from disk)");
  }
  text += str_cat(", computes ", giga(time.flops), " GFLOP\n          kernels ",
                  time_text(time.product_seconds), " + memory bandwidth ",
                  time_text(time.memory_seconds), " + attention ",
                  time_text(time.attention_seconds), " + disk ", time_text(time.disk_seconds),
                  " = ", time_text(time.seconds()), "; what binds: ", time.limit(), "\n");
  return text;
}

std::string token_bytes_line(const PlanReport& r) {
  const deepseek_v41::StepWork work = r.cost.decode(r.plan.prompt_tokens);
  std::string text = "a token reads";
  for (const std::string_view name : {"attention", "shared_experts", "experts", "head", "engram",
                                      "routers", "hyper_connections"}) {
    text +=
        str_cat(name == "attention" ? " " : ", ", name, " ", giga(work.matrix_bytes(name)), " GB");
  }
  return str_cat(text, ", caches ", giga(work.cache_bytes), " GB, ",
                 decimal_text(work.table_rows, 0), " table rows\n");
}

std::string prediction_lines(const PlanReport& r) {
  const MachinePlan& plan = r.plan;
  std::string text = str_cat("\n", token_bytes_line(r));
  for (const DecodePrediction& d : plan.decode) {
    text +=
        str_cat("answer    ", rate_text(d.tokens_per_second()), " tokens/s at token ", d.position,
                d.sequences > 1 ? str_cat(", ", d.sequences, " requests together") : std::string(),
                "\n", reasoning(d.time));
  }
  text += str_cat("text      ", time_text(plan.prompt.seconds()), " to the first token of ",
                  plan.prompt_tokens, " tokens, in steps of ", r.step_rows, "\n",
                  reasoning(plan.prompt));
  if (plan.picture_tokens > 0) {
    text +=
        str_cat("picture   ", time_text(plan.picture.seconds() + plan.picture_prompt.seconds()),
                " to the first token with a picture of ", plan.picture_tokens, " tokens (",
                plan.picture_patches, " patches) before the text\n          tower and aligner: ",
                time_text(plan.picture.seconds()), " for ", giga(plan.picture.flops),
                " GFLOP, of this attention ", time_text(plan.picture.attention_seconds),
                "; then the prompt:\n", reasoning(plan.picture_prompt));
  }
  if (r.machine.disk_bandwidth.is_known()) {
    text += str_cat("first     ", time_text(plan.load_bytes / r.machine.disk_bandwidth.value),
                    " more until weights that stay in memory are there: ", giga(plan.load_bytes),
                    " GB from disk\n");
  }
  return text +
         "assumed   every expert is picked as often as any other; nothing overlaps with the disk; "
         "norms and\n          other small operations, and opening and resizing pictures, are left "
         "out\n";
}

Json to_json(const Figure& figure) {
  Json json = Json::object();
  json.set("value", figure.is_known() ? Json::number(figure.value) : Json());
  json.set("source", Json::string(figure.source));
  return json;
}

Json to_json(const Machine& m) {
  Json json = Json::object();
  json.set("name", Json::string(m.name));
  json.set("threads", to_json(m.threads));
  json.set("memory_bytes", to_json(m.memory_bytes));
  json.set("memory_bandwidth", to_json(m.memory_bandwidth));
  json.set("disk_bandwidth", to_json(m.disk_bandwidth));
  json.set("disk_reads_per_second", to_json(m.disk_reads_per_second));
  Json kernels = Json::object();
  kernels.set("source", Json::string(m.kernels_source));
  Json& gflops = kernels.set("gflops", Json::object());
  for (int i = 0; i < kKernels; ++i) {
    const Kernel kernel = static_cast<Kernel>(i);
    Json& speeds = gflops.set(std::string(kernel_name(kernel)), Json::object());
    for (const KernelSpeed::Point& point : m.speed(kernel).points) {
      speeds.set(str_cat(point.rows), Json::number(point.flops_per_second * 1e-9));
    }
  }
  json.set("kernels", std::move(kernels));
  return json;
}

Json to_json(const StepTime& time) {
  Json json = Json::object();
  json.set("seconds", Json::number(time.seconds()));
  json.set("limit", Json::string(std::string(time.limit())));
  json.set("kernel_seconds", Json::number(time.product_seconds));
  json.set("memory_seconds", Json::number(time.memory_seconds));
  json.set("attention_seconds", Json::number(time.attention_seconds));
  json.set("disk_seconds", Json::number(time.disk_seconds));
  json.set("bytes", Json::number(time.bytes));
  json.set("disk_bytes", Json::number(time.disk_bytes));
  json.set("disk_reads", Json::number(time.disk_reads));
  json.set("flops", Json::number(time.flops));
  return json;
}

Json placements_json(const MachinePlan& plan) {
  Json list = Json::array();
  for (const Placement& p : plan.placements) {
    Json item = Json::object();
    item.set("component", Json::string(std::string(p.component)));
    item.set("bytes", Json::number(p.bytes));
    item.set("memory_bytes", Json::number(p.memory_bytes));
    item.set("where", Json::string(std::string(p.where)));
    item.set("why", Json::string(std::string(p.why)));
    list.items().push_back(std::move(item));
  }
  return list;
}

Json decode_json(const MachinePlan& plan) {
  Json list = Json::array();
  for (const DecodePrediction& d : plan.decode) {
    Json item = Json::object();
    item.set("position", Json::number(d.position));
    item.set("requests", Json::number(d.sequences));
    item.set("tokens_per_second", Json::number(d.tokens_per_second()));
    item.set("step", to_json(d.time));
    list.items().push_back(std::move(item));
  }
  return list;
}

}  // namespace

std::string plan_text(const PlanReport& report) {
  return str_cat(model_lines(report), machine_lines(report.machine), placement_lines(report.plan),
                 prediction_lines(report));
}

Json plan_json(const PlanReport& report) {
  const MachinePlan& plan = report.plan;
  Json json = Json::object();
  json.set("model", Json::string(report.model));
  json.set("bytes", Json::number(report.cost.stored_bytes()));
  json.set("machine", to_json(report.machine));
  json.set("placements", placements_json(plan));
  json.set("working_memory_bytes", Json::number(plan.working_memory.bytes()));
  json.set("context", Json::number(plan.context));
  json.set("most_context", Json::number(plan.most_context));
  json.set("most_context_with_experts", Json::number(plan.most_context_all));
  json.set("answer", decode_json(plan));
  Json text = to_json(plan.prompt);
  text.set("tokens", Json::number(plan.prompt_tokens));
  json.set("text", std::move(text));
  if (plan.picture_tokens > 0) {
    Json picture = Json::object();
    picture.set("tokens", Json::number(plan.picture_tokens));
    picture.set("patches", Json::number(plan.picture_patches));
    picture.set("seconds", Json::number(plan.picture.seconds() + plan.picture_prompt.seconds()));
    picture.set("tower", to_json(plan.picture));
    picture.set("prompt", to_json(plan.picture_prompt));
    json.set("picture", std::move(picture));
  }
  json.set("load_bytes", Json::number(plan.load_bytes));
  return json;
}

}  // namespace tessera
