// tessera inspect: every tensor of a checkpoint accounted for, without reading its data.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/str_cat.h"
#include "commands.h"
#include "inspect_checksums.h"
#include "io/json.h"
#include "models/deepseek_v41/catalogue.h"
#include "models/deepseek_v41/inventory.h"
#include "models/deepseek_v41/model.h"
#include "output.h"
#include "runtime/engine.h"
#include "text_columns.h"

namespace tessera {
namespace {

using deepseek_v41::Config;
using deepseek_v41::InventoryItem;
using io::Json;

struct Options {
  std::string model;
  bool checks_sums = false;
  bool is_quiet = false;
  bool is_json = false;
};

struct Sum {
  int64_t tensors = 0;
  int64_t bytes = 0;
  void add(int64_t more) {
    ++tensors;
    bytes += more;
  }
};

struct Component {
  Sum sum;
  std::map<std::string, Sum> formats;
};

struct Skipped {
  Sum sum;
  std::vector<std::string_view> components;  // in the order of their first tensor
};

struct Report {
  std::string folder;
  const Config& config;
  int64_t files = 0;
  int64_t file_bytes = 0;
  std::vector<InventoryItem> items;
  Sum all = {};
  Sum bound = {};
  Sum skipped = {};
  std::map<std::string_view, Component> components = {};
  std::map<std::string, Sum> formats = {};
  std::map<std::string_view, Skipped> reasons = {};
  std::optional<ChecksumResult> checksums = {};
};

Report make_report(const deepseek_v41::Model& model) {
  const Config& config = model.network.config;
  Report r{.folder = model.checkpoint.folder(),
           .config = config,
           .items = take_inventory(model.checkpoint, config)};
  for (const io::SafetensorsFile& file : model.checkpoint.files()) {
    ++r.files;
    r.file_bytes += static_cast<int64_t>(file.file().bytes().size());
  }
  for (const InventoryItem& item : r.items) {
    r.all.add(item.bytes);
    Component& component = r.components[item.component];
    component.sum.add(item.bytes);
    component.formats[item.format].add(item.bytes);
    r.formats[item.format].add(item.bytes);
    if (item.skipped_because.empty()) {
      r.bound.add(item.bytes);
      continue;
    }
    r.skipped.add(item.bytes);
    Skipped& skipped = r.reasons[item.skipped_because];
    skipped.sum.add(item.bytes);
    if (std::find(skipped.components.begin(), skipped.components.end(), item.component) ==
        skipped.components.end()) {
      skipped.components.push_back(item.component);
    }
  }
  return r;
}

std::string_view published(const Report& r) {
  return deepseek_v41::published_name(r.all.tensors, r.all.bytes);
}

Json to_json(const Sum& sum) {
  Json json = Json::object();
  json.set("tensors", Json::number(sum.tensors));
  json.set("bytes", Json::number(sum.bytes));
  return json;
}

Json to_json(const std::map<std::string, Sum>& formats) {
  Json json = Json::object();
  for (const auto& [name, sum] : formats) {
    json.set(name, to_json(sum));
  }
  return json;
}

std::string to_json(const Report& r) {
  Json skipped = Json::array();
  for (const InventoryItem& item : r.items) {
    if (!item.skipped_because.empty()) {
      Json entry = Json::object();
      entry.set("name", Json::string(std::string(item.name)));
      entry.set("reason", Json::string(std::string(item.skipped_because)));
      entry.set("bytes", Json::number(item.bytes));
      skipped.items().push_back(std::move(entry));
    }
  }
  Json components = Json::object();
  for (const std::string_view name : deepseek_v41::component_names()) {
    if (const auto found = r.components.find(name); found != r.components.end()) {
      Json entry = to_json(found->second.sum);
      entry.set("formats", to_json(found->second.formats));
      components.set(std::string(name), std::move(entry));
    }
  }
  Json json = Json::object();
  json.set("model", Json::string(r.folder));
  json.set("files", Json::number(r.files));
  json.set("file_bytes", Json::number(r.file_bytes));
  json.set("tensors", Json::number(r.all.tensors));
  json.set("bytes", Json::number(r.all.bytes));
  json.set("bound", Json::number(r.bound.tensors));
  json.set("skipped", std::move(skipped));
  json.set("components", std::move(components));
  json.set("formats", to_json(r.formats));
  json.set("published", Json::string(std::string(published(r))));
  if (r.checksums.has_value()) {
    json.set("checksums_equal", Json::number(r.checksums->files));
  }
  return io::dump_compact(json) + "\n";
}

// "510,286,023,000"
std::string grouped(int64_t number) {
  std::string text = str_cat(number);
  for (size_t at = text.size(); at > 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

std::string row(std::string_view name, const Sum& sum, std::string_view rest) {
  std::string line = left(name, 18) + right(grouped(sum.tensors), 8) +
                     right(grouped(sum.bytes), 18) + right(size_text(sum.bytes), 13);
  if (!rest.empty()) {
    line += str_cat("  ", rest);
  }
  return line + "\n";
}

std::string amount(const Sum& sum) {
  return str_cat(grouped(sum.tensors), " tensors, ", grouped(sum.bytes), " bytes (",
                 size_text(sum.bytes), ")");
}

std::string model_text(const Config& c) {
  std::string text = str_cat("deepseek_v41: ", c.layers, " layers of ", c.experts, " experts");
  for (size_t i = 0; i < c.engram.layers.size(); ++i) {
    text += str_cat(i == 0 ? ", Engram at " : " and ", c.engram.layers[i]);
  }
  text += c.vision.layers > 0 ? str_cat(", vision tower of ", c.vision.layers, " layers")
                              : std::string(", no vision tower");
  return text + (c.dspark.stages > 0 ? str_cat(", ", c.dspark.stages, " draft stages")
                                     : std::string(", no draft stages"));
}

std::string verdict(const Report& r) {
  if (r.skipped.tensors == 0) {
    return str_cat("every tensor is accounted for: all ", grouped(r.all.tensors),
                   " are computed with\n");
  }
  return str_cat("every tensor is accounted for: ", grouped(r.bound.tensors),
                 " are computed with, ", grouped(r.skipped.tensors),
                 " are skipped as said above\n");
}

std::string to_text(const Report& r) {
  std::string text = str_cat("folder    ", r.folder, "\nmodel     ", model_text(r.config),
                             "\nfiles     ", r.files, " with ", grouped(r.file_bytes),
                             " bytes, headers included\ntotal     ", amount(r.all), "\n");
  if (!published(r).empty()) {
    text +=
        str_cat("release   number of tensors and bytes equal the published ", published(r), "\n");
  }
  if (r.checksums.has_value()) {
    text += str_cat("checksums SHA-256 of ", r.checksums->files, " of ", r.files,
                    " files equal; known from ", r.checksums->source, "\n");
  }
  text += "\n" + left("component", 18) + right("tensors", 8) + right("bytes", 18) +
          right("size", 13) + "  stored as\n";
  for (const std::string_view name : deepseek_v41::component_names()) {
    const auto found = r.components.find(name);
    if (found == r.components.end()) {
      continue;
    }
    std::string formats;
    for (const auto& [format, sum] : found->second.formats) {
      formats += (formats.empty() ? "" : ", ") + format;
    }
    text += row(name, found->second.sum, formats);
  }
  text += row("total", r.all, "") + "\n" + left("stored as", 18) + right("tensors", 8) +
          right("bytes", 18) + right("size", 13) + "\n";
  for (const auto& [format, sum] : r.formats) {
    text += row(format, sum, "");
  }
  text += str_cat("\nbound     ", amount(r.bound), "\n");
  for (const auto& [reason, skipped] : r.reasons) {
    text += str_cat("skipped   ", amount(skipped.sum), "\n          ");
    for (size_t i = 0; i < skipped.components.size(); ++i) {
      text += str_cat(i == 0 ? "" : ", ", skipped.components[i]);
    }
    text += str_cat(": ", reason, "\n");
  }
  return text + "\n" + verdict(r);
}

void run(const Options& options) {
  const std::unique_ptr<const deepseek_v41::Model> model =
      deepseek_v41::Model::load(resolve_model(options.model), {});
  Report report = make_report(*model);
  if (options.checks_sums) {
    report.checksums = verify_checksums(model->checkpoint, options.is_quiet);
  }
  Output out;
  if (options.is_json) {
    out.write(to_json(report));
  } else {
    out.write_foreign(to_text(report));
  }
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("inspect", "account for every tensor of a checkpoint, without reading it");
  const auto options = std::make_shared<Options>();
  command
      ->add_option("--model,MODEL", options->model,
                   "checkpoint folder, or org/name in the local Hugging Face cache (default: demo "
                   "model)")
      ->type_name("DIR");
  command->add_flag("--checksums", options->checks_sums,
                    "also read all weights and compare their SHA-256 with SHA256SUMS or with what "
                    "the download tool noted");
  command->add_flag("--quiet", options->is_quiet, "no progress on the terminal");
  command->add_flag("--json", options->is_json, "print one JSON value");
  command->footer(
      "Examples:\n"
      "  tessera inspect\n"
      "  tessera inspect deepseek-ai/DeepSeek-V4.1-Flash\n"
      "  tessera inspect DIR --checksums\n"
      "  tessera inspect DIR --json");
  command->callback([options] { run(*options); });
}

}  // namespace tessera
