// tessera synth: a checkpoint of a configuration, with generated weights.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/data_folder.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "checkpoint_folder.h"
#include "commands.h"
#include "interrupt.h"
#include "io/json.h"
#include "models/deepseek_v41/catalogue.h"
#include "models/deepseek_v41/config.h"
#include "models/deepseek_v41/config_excerpt.h"
#include "models/deepseek_v41/model.h"
#include "models/deepseek_v41/synthetic_checkpoint.h"
#include "number_option.h"
#include "output.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kConfig = "config.json";
// Copied from the tokenizer's folder; those behind the first may be missing.
constexpr const char* kCopied[] = {kTokenizer, "tokenizer_config.json", "generation_config.json"};
constexpr int64_t kSlackBytes = int64_t{1} << 20;  // folder entries and the like

struct Options {
  std::string config;
  std::string layers;
  std::optional<int64_t> experts;
  std::optional<int64_t> engram_vocab;
  std::optional<uint64_t> seed;
  std::string tokenizer;
  std::string out;
  int threads = 0;
  bool replaces = false;
  bool is_quiet = false;
};

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::bad_request, what); }

std::string config_path(const Options& options) {
  return options.config.empty()
             ? find_data(data_places(), "configs/deepseek_v41_flash.json", "--config FILE")
             : options.config;
}

std::string tokenizer_folder(const Options& options, const std::string& config) {
  if (!options.tokenizer.empty()) {
    return options.tokenizer;
  }
  const fs::path beside = fs::path(config).parent_path();
  std::error_code ignored;
  if (!fs::is_regular_file(beside / kTokenizer, ignored)) {
    refuse(str_cat("no ", kTokenizer, " beside ", config,
                   ", and a model needs one; name a folder that has it with --tokenizer DIR"));
  }
  return beside.empty() ? "." : beside.string();
}

// Weights and index of a checkpoint, and what this command writes besides.
bool is_checkpoint_file(const std::string& name) {
  const bool is_shard = name.starts_with("model-") && name.find("-of-") != std::string::npos;
  const bool is_weights =
      name == "model.safetensors" || (is_shard && name.ends_with(".safetensors"));
  return is_weights || name == kIndex || name == kConfig ||
         std::find(std::begin(kCopied), std::end(kCopied), name) != std::end(kCopied);
}

std::vector<fs::path> checkpoint_files(const std::string& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.is_directory() && is_checkpoint_file(entry.path().filename().string())) {
      files.push_back(entry.path());
    }
  }
  return files;
}

// The folder that the checkpoint goes into. What was put into it is removed again unless finish()
// was called.
class OutputFolder {
 public:
  OutputFolder(const Options& options, const std::string& config, const std::string& tokenizer)
      : path_(options.out) {
    std::error_code ignored;
    exists_ = fs::exists(path_, ignored);
    if (!exists_) {
      return;
    }
    if (!fs::is_directory(path_, ignored)) {
      refuse(str_cat(path_, " is no folder; choose another -o DIR"));
    }
    if (is_same_folder(path_, fs::path(config).parent_path()) || is_same_folder(path_, tokenizer)) {
      refuse(str_cat(path_,
                     " holds the configuration or the tokenizer that this model is made of; "
                     "choose another -o DIR"));
    }
    if (!fs::is_empty(path_) && !options.replaces) {
      refuse(str_cat(path_,
                     " is not empty; choose another -o DIR, or replace the checkpoint in it "
                     "with --force"));
    }
  }
  ~OutputFolder() {
    if (is_open_) {
      std::error_code ignored;
      for (const fs::path& file : is_finished_ ? std::vector<fs::path>() : written()) {
        fs::remove(file, ignored);
      }
      if (!is_finished_ && !exists_) {
        fs::remove(path_, ignored);
      }
    }
  }
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  // Bytes of the checkpoint that is there, which open() removes.
  int64_t reusable_bytes() const {
    int64_t bytes = 0;
    for (const fs::path& file : exists_ ? checkpoint_files(path_) : std::vector<fs::path>()) {
      bytes += fs::is_symlink(file) ? 0 : static_cast<int64_t>(fs::file_size(file));
    }
    return bytes;
  }

  // Removes the checkpoint that was there, or makes the folder.
  void open() {
    std::error_code error;
    if (!exists_) {
      fs::create_directory(path_, error);
      if (error) {
        refuse(str_cat(path_, ": cannot make this folder: ", error.message()));
      }
    }
    is_open_ = true;
    for (const fs::path& file : checkpoint_files(path_)) {
      fs::remove(file);
    }
  }

  void finish() { is_finished_ = true; }
  const std::string& path() const { return path_; }

 private:
  std::vector<fs::path> written() const noexcept {
    try {
      return checkpoint_files(path_);
    } catch (const fs::filesystem_error&) {
      return {};
    }
  }

  std::string path_;
  bool exists_ = false;
  bool is_open_ = false;
  bool is_finished_ = false;
};

void write_files(const Options& options, const std::string& folder, const std::string& config,
                 const std::string& tokenizer, const CheckpointLayout& layout) {
  ThreadPool threads(options.threads == 0 ? available_threads() : options.threads);
  ProgressBar bar(options.is_quiet);
  const auto on_progress = [&](int64_t done, int64_t total) {
    if (interrupt_flag().load()) {
      throw Error(ErrorCode::cancelled,
                  str_cat("interrupted; the files written to ", folder, " have been removed"));
    }
    bar.update("writing weights", done, total);
  };
  deepseek_v41::write_synthetic_files(
      threads, layout,
      {.folder = folder, .seed = options.seed.value_or(1), .on_progress = on_progress});
  bar.clear();
  std::error_code ignored;
  for (const char* name : kCopied) {
    const std::string from = str_cat(tokenizer, "/", name);
    if (fs::exists(from, ignored)) {
      write_whole_file(str_cat(folder, "/", name), read_whole_file(from));
    }
  }
  write_whole_file(str_cat(folder, "/", kConfig), config);
}

void run(const Options& options) {
  if (options.threads < 0 || options.threads > 1024) {
    refuse(str_cat("--threads ", options.threads, ": expected 1 to 1024, or 0 for all"));
  }
  const std::string path = config_path(options);
  deepseek_v41::ConfigExcerpt excerpt;
  excerpt.experts = options.experts;
  excerpt.engram_vocab = options.engram_vocab;
  if (!options.layers.empty()) {
    excerpt.layers = deepseek_v41::parse_layer_list(options.layers);
  }
  const io::Json json = deepseek_v41::excerpt_config(io::read_json_file(path), path, excerpt);
  const deepseek_v41::Config config = deepseek_v41::parse_config(json, path);
  const std::string tokenizer = tokenizer_folder(options, path);
  // Only to refuse one that does not go with the model.
  deepseek_v41::load_tokenizer(str_cat(tokenizer, "/", kTokenizer), config);
  const CheckpointLayout layout =
      deepseek_v41::released_layout(deepseek_v41::tensor_catalogue(config));
  OutputFolder folder(options, path, tokenizer);
  require_space(folder.path(), layout.file_bytes() + kSlackBytes, folder.reusable_bytes(),
                "free some space, choose another -o DIR, or make the model smaller with "
                "--keep-layers, --experts and --engram-vocab");
  folder.open();
  write_files(options, folder.path(), io::dump_python(json) + "\n", tokenizer, layout);
  folder.finish();
  Output().write_foreign(str_cat("wrote ", folder.path(), ": ", layout.tensors, " tensors, ",
                                 layout.data_bytes, " bytes in ", layout.shards.size(),
                                 " files of weights, seed ", options.seed.value_or(1), "\n"));
}

}  // namespace

void add_synth_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "synth", "write a checkpoint of any size with generated weights, the same on every machine");
  const auto options = std::make_shared<Options>();
  command
      ->add_option("--config", options->config,
                   "config.json of a DeepSeek-V4.1 model (default: DeepSeek-V4.1-Flash)")
      ->type_name("FILE");
  command
      ->add_option("--keep-layers", options->layers,
                   "layers of it to keep, numbered anew: 1,2,20,24 or 0-7,20 (default: all)")
      ->type_name("LIST");
  add_number_option(*command, "--experts", options->experts, "routed experts of every layer");
  add_number_option(*command, "--engram-vocab", options->engram_vocab,
                    "size of the Engram tables: each of their columns has a few more rows");
  add_number_option(*command, "--seed", options->seed, "seed of the generator (default 1)");
  command
      ->add_option("--tokenizer", options->tokenizer,
                   "folder with tokenizer.json, which is copied (default: that of --config)")
      ->type_name("DIR");
  command->add_option("-o,--output", options->out, "folder to write")->type_name("DIR")->required();
  command->add_flag("--force", options->replaces, "replace the checkpoint that is there");
  add_number_option(*command, "--threads", options->threads,
                    "threads (default: what this process may use)");
  command->add_flag("--quiet", options->is_quiet, "no progress on the terminal");
  command->footer(
      "The weights are random numbers; what such a model answers is noise of full size and speed.\n"
      "Examples:\n"
      "  tessera synth --config DIR/config.json --experts 16 -o small\n"
      "  tessera synth --keep-layers 1,2,20,24 --experts 96 --engram-vocab 150000 \\\n"
      "    --tokenizer DIR -o bench-model");
  command->callback([options] { run(*options); });
}

}  // namespace tessera
