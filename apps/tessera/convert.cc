// tessera convert: a checkpoint with its matrices in another format, file by file.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/str_cat.h"
#include "base/thread_pool.h"
#include "calibrate.h"
#include "checkpoint_folder.h"
#include "commands.h"
#include "interrupt.h"
#include "io/json.h"
#include "io/sha256.h"
#include "models/deepseek_v41/config.h"
#include "models/deepseek_v41/conversion.h"
#include "number_option.h"
#include "output.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using deepseek_v41::Conversion;
using deepseek_v41::ConversionTarget;
using deepseek_v41::InputScales;
using io::Json;

constexpr const char* kJournal = "conversion.json";  // while the folder is not complete
constexpr const char* kCopied[] = {"tokenizer.json", "tokenizer_config.json",
                                   "generation_config.json"};
constexpr int64_t kSlackBytes = int64_t{1} << 20;

struct Options {
  std::string model;
  std::string to;
  std::string out;
  std::string calibration;
  int threads = 0;
  bool starts_again = false;
  bool is_quiet = false;
};

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::bad_request, what); }

// What has been done, in OUT/conversion.json: the source's files, the target, the input scales, and
// the SHA-256 of every file that is complete. A second run goes on from there.
class Journal {
 public:
  Journal(const Options& options, const io::Checkpoint& from)
      : path_(options.out + "/" + kJournal) {
    Json source = Json::object();
    for (const io::SafetensorsFile& file : from.files()) {
      const fs::path path = file.file().path();
      const auto time = fs::last_write_time(path).time_since_epoch().count();
      source.set(path.filename().string(),
                 Json::string(str_cat(file.file().bytes().size(), " bytes, ", time)));
    }
    started_ = Json::object();
    started_.set("to", Json::string(options.to));
    started_.set("source", std::move(source));
    if (!options.starts_again && fs::exists(path_)) {
      read(options);
    }
  }

  bool has_input_scales() const { return !input_scales_.empty(); }
  const InputScales& input_scales() const { return input_scales_; }
  void set_input_scales(InputScales scales) { input_scales_ = std::move(scales); }

  // The SHA-256 of a file that an earlier run completed and that still has its size.
  std::optional<std::string> finished(const fs::path& file, int64_t bytes) const {
    const Json* sum = files_.find(file.filename().string());
    std::error_code error;
    const uintmax_t size = fs::file_size(file, error);
    const bool is_there = sum != nullptr && !error && size == static_cast<uintmax_t>(bytes);
    return is_there ? std::optional(sum->text()) : std::nullopt;
  }

  void finish(const std::string& file, const std::string& sha256) {
    files_.set(file, Json::string(sha256));
    write();
  }

  void write() const {
    Json json = started_;
    Json scales = Json::object();
    for (const auto& [name, scale] : input_scales_) {
      scales.set(name, Json::number(static_cast<double>(scale)));
    }
    json.set("input_scales", std::move(scales));
    json.set("files", files_);
    write_whole_file(path_, io::dump_compact(json) + "\n");
  }

  void remove() const { fs::remove(path_); }

 private:
  void read(const Options& options) {
    const Json json = io::read_json_file(path_);
    for (const char* key : {"to", "source"}) {
      const Json* found = json.find(key);
      if (found == nullptr || io::dump_compact(*found) != io::dump_compact(*started_.find(key))) {
        refuse(str_cat(options.out, " holds an unfinished conversion of ",
                       std::string_view(key) == "to" ? "the same model to another format"
                                                     : "another checkpoint",
                       "; go on with that one, or start again with --force"));
      }
    }
    if (const Json* files = json.find("files")) {
      files_ = *files;
    }
    if (const Json* scales = json.find("input_scales")) {
      for (const auto& [name, scale] : scales->members()) {
        input_scales_[name] = static_cast<float>(scale.as_double().value_or(0));
      }
    }
  }

  std::string path_;
  Json started_;
  Json files_ = Json::object();
  InputScales input_scales_;
};

void check_folders(const Options& options) {
  std::error_code ignored;
  const fs::path out = options.out;
  if (!fs::exists(out, ignored)) {
    return;
  }
  if (!fs::is_directory(out, ignored)) {
    refuse(str_cat(options.out, " is no folder; choose another -o DIR"));
  }
  if (is_same_folder(out, options.model)) {
    refuse(str_cat(options.out, " is the checkpoint itself; choose another -o DIR"));
  }
  const bool is_resumable = fs::exists(out / kJournal, ignored);
  if (!fs::is_empty(out) && !is_resumable && !options.starts_again) {
    refuse(str_cat(options.out,
                   " is not empty; choose another -o DIR, or replace the checkpoint in it with "
                   "--force"));
  }
}

std::string sha256_of(const std::string& path) {
  constexpr size_t kPiece = size_t{16} << 20;
  const MappedFile file(path);
  io::Sha256 sum;
  for (size_t done = 0; done < file.bytes().size(); done += kPiece) {
    const auto piece = file.bytes().subspan(done, std::min(kPiece, file.bytes().size() - done));
    sum.update(piece);
    release_pages(piece);
  }
  return sum.hex();
}

// All files of weights. Returns the lines of SHA256SUMS.
std::string write_weights(const Options& options, Conversion& conversion, Journal& journal) {
  ThreadPool threads(options.threads == 0 ? available_threads() : options.threads);
  ProgressBar bar(options.is_quiet);
  int64_t done = 0;
  const auto on_progress = [&](int64_t bytes) {
    if (interrupt_flag().load()) {
      throw Error(ErrorCode::cancelled,
                  str_cat("interrupted; the same command goes on where ", options.out, " ends"));
    }
    done += bytes;
    bar.update("converting", done, conversion.layout().data_bytes);
  };
  std::string sums;
  for (size_t i = 0; i < conversion.layout().shards.size(); ++i) {
    const CheckpointShard& shard = conversion.layout().shards[i];
    const std::string path = options.out + "/" + shard.file_name;
    std::optional<std::string> sum = journal.finished(path, shard.file_bytes());
    if (sum.has_value()) {
      on_progress(shard.data_bytes);
    } else {
      conversion.write_shard(threads, i, options.out, on_progress);
      sum = sha256_of(path);
      journal.finish(shard.file_name, *sum);
    }
    sums += str_cat(*sum, "  ", shard.file_name, "\n");
  }
  return sums;
}

void write_other_files(const Options& options, const Json& config, const ConversionTarget& target,
                       const std::string& sums) {
  const auto write = [&](std::string_view name, std::string_view text) {
    write_whole_file(str_cat(options.out, "/", name), text);
  };
  std::error_code ignored;
  for (const char* name : kCopied) {
    const std::string from = str_cat(options.model, "/", name);
    if (fs::exists(from, ignored)) {
      write(name, read_whole_file(from));
    }
  }
  if (target.name == "nvfp4") {
    write("hf_quant_config.json",
          R"({"producer": {"name": "tessera"}, "quantization": {"quant_algo": "MIXED_PRECISION", )"
          R"("moe_quant_algo": "NVFP4", "group_size": 16, "kv_cache_quant_algo": null}})"
          "\n");
  } else {
    fs::remove(fs::path(options.out) / "hf_quant_config.json", ignored);
  }
  write("SHA256SUMS", sums);
  write("config.json", io::dump_python(converted_config(config, target)) + "\n");
}

void run(const Options& options) {
  if (options.threads < 0 || options.threads > 1024) {
    refuse(str_cat("--threads ", options.threads, ": expected 1 to 1024, or 0 for all"));
  }
  const std::optional<ConversionTarget> target = deepseek_v41::conversion_target(options.to);
  if (!target.has_value()) {
    refuse(str_cat("--to ", options.to, ": expected bf16, fp8, mxfp4 or nvfp4"));
  }
  check_folders(options);
  const std::string config_path = options.model + "/config.json";
  const Json json = io::read_json_file(config_path);
  deepseek_v41::Config config = deepseek_v41::parse_config(json, config_path);
  read_hf_quant_config(options.model, config.quantization);
  converted_config(json, *target);  // refuses what it cannot declare, before any work
  const io::Checkpoint from(options.model);
  Journal journal(options, from);
  if (target->name == "nvfp4" && !journal.has_input_scales()) {
    journal.set_input_scales(calibrate_input_scales({.model = options.model,
                                                     .prompts = options.calibration,
                                                     .threads = options.threads,
                                                     .is_quiet = options.is_quiet}));
  }
  Conversion conversion(from, config, *target, journal.input_scales());
  int64_t reusable = 0;
  std::error_code ignored;
  for (const CheckpointShard& shard : conversion.layout().shards) {
    const uintmax_t bytes = fs::file_size(fs::path(options.out) / shard.file_name, ignored);
    reusable += ignored ? 0 : static_cast<int64_t>(bytes);
  }
  require_space(options.out, conversion.layout().file_bytes() + kSlackBytes, reusable,
                "free some space or choose another -o DIR");
  fs::create_directories(options.out);
  fs::remove(fs::path(options.out) / "model.safetensors.index.json", ignored);
  journal.write();
  const std::string sums = write_weights(options, conversion, journal);
  write_other_files(options, json, *target, sums);
  write_whole_file(options.out + "/model.safetensors.index.json", conversion.layout().index);
  journal.remove();
  const deepseek_v41::ConversionSums& done = conversion.sums();
  Output().write_foreign(str_cat("wrote ", options.out, ": ", conversion.layout().tensors,
                                 " tensors, ", conversion.layout().data_bytes, " bytes; ",
                                 done.rounded_matrices, " matrices rounded to ", target->name, ", ",
                                 done.cast_matrices, " cast without loss, ", done.copied_tensors,
                                 " tensors copied\n"));
}

}  // namespace

void add_convert_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("convert", "rewrite a checkpoint with its matrices in another format");
  const auto options = std::make_shared<Options>();
  command->add_option("model", options->model, "folder of the checkpoint")
      ->type_name("DIR")
      ->required();
  command
      ->add_option("--to", options->to,
                   "bf16 (everything), fp8 (experts too), mxfp4 (the release's formats) or nvfp4 "
                   "(NVIDIA's variant)")
      ->type_name("FORMAT")
      ->required();
  command->add_option("-o,--output", options->out, "folder to write")->type_name("DIR")->required();
  command
      ->add_option("--calibrate", options->calibration,
                   "nvfp4: requests to measure the experts' inputs on, as for `run --input`")
      ->type_name("FILE");
  command->add_flag("--force", options->starts_again,
                    "replace the checkpoint that is there, or start an unfinished one again");
  add_number_option(*command, "--threads", options->threads,
                    "threads (default: what this process may use)");
  command->add_flag("--quiet", options->is_quiet, "no progress on the terminal");
  command->footer(
      "Tower, aligner, norms, router, compressor, embedding and heads are copied byte for byte, "
      "and\n"
      "so is every matrix that has the wanted format already. An interrupted conversion goes on\n"
      "with the same command. SHA256SUMS is written for `tessera inspect --checksums`.\n"
      "Examples:\n"
      "  tessera convert DeepSeek-V4.1-Flash --to bf16 -o bf16\n"
      "  tessera convert models/demo --to nvfp4 --calibrate requests.json -o demo-nvfp4");
  command->callback([options] { run(*options); });
}

}  // namespace tessera
