#include "models/deepseek_v41/conversion.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/output_file.h"
#include "base/str_cat.h"
#include "models/deepseek_v41/catalogue.h"
#include "models/encode_matrix.h"

namespace tessera::deepseek_v41 {
namespace {

constexpr int64_t kPieceBytes = int64_t{16} << 20;  // copied at a time
constexpr int64_t kChunkValues = int64_t{1} << 18;  // rounded at a time by one thread
constexpr int64_t kTablePieceRows = int64_t{1} << 14;

std::string_view table_format_text(StoredFormat format) {
  return format == StoredFormat::fp8_e8m0 ? "fp8 1x32"
         : format == StoredFormat::mxfp4  ? "mxfp4"
                                          : "bf16";
}

// body(first row, rows, values [rows, inputs]) for pieces of the weight, whole tiles each, on all
// threads. False from any body: an infinite value or NaN was found.
template <typename Body>
bool for_row_pieces(ThreadPool& threads, const Weight& weight, const Body& body) {
  constexpr int64_t kUnit = 256;  // a multiple of every tile
  const int64_t rows = std::max<int64_t>(1, kChunkValues / weight.inputs / kUnit) * kUnit;
  std::vector<std::vector<float>> values(static_cast<size_t>(threads.threads()));
  std::atomic<bool> is_fine = true;
  threads.parallel_for((weight.outputs + rows - 1) / rows, [&](int64_t piece, int thread) {
    const int64_t first = piece * rows;
    const int64_t count = std::min(rows, weight.outputs - first);
    std::vector<float>& buffer = values[static_cast<size_t>(thread)];
    buffer.resize(static_cast<size_t>(count * weight.inputs));
    dequantize_rows(weight, first, count, buffer.data());
    const bool is_finite =
        std::all_of(buffer.begin(), buffer.end(), [](float v) { return std::isfinite(v); });
    if (is_finite) {
      body(first, count, buffer.data());
    } else {
      is_fine = false;
    }
  });
  return is_fine;
}

float largest_magnitude(ThreadPool& threads, const Weight& weight, bool& is_fine) {
  std::atomic<uint32_t> largest = 0;  // bits of a float that is not negative: ordered like it
  is_fine = for_row_pieces(threads, weight, [&](int64_t, int64_t count, const float* values) {
    float own = 0;
    for (int64_t i = 0; i < count * weight.inputs; ++i) {
      own = std::max(own, std::fabs(values[i]));
    }
    uint32_t seen = largest;
    const uint32_t bits = std::bit_cast<uint32_t>(own);
    while (bits > seen && !largest.compare_exchange_weak(seen, bits)) {
    }
  });
  return std::bit_cast<float>(largest.load());
}

}  // namespace

// Walks the model and notes for every tensor what becomes of it.
class Conversion::Planner : public TensorBinder {
 public:
  Planner(const io::Checkpoint& from, const Config& config, const ConversionTarget& target,
          const InputScales& input_scales)
      : source(from, config.quantization, Nvfp4Activations::e4m3),
        from_(from),
        target_(target),
        input_scales_(input_scales) {
    for (const io::SafetensorsFile& file : from.files()) {
      const std::string& path = file.file().path();
      file_numbers_[path.substr(path.rfind('/') + 1)] = file_numbers_.size();
    }
    items.resize(file_numbers_.size());
  }

  const std::byte* raw(const std::string& name, DType dtype, const Shape& shape) override {
    const std::byte* data = source.raw(name, dtype, shape);
    if (data != nullptr) {
      add(name, {.name = name, .tensors = {{name, dtype, shape}}});
    }
    return data;
  }

  Linear matrix(const std::string& name, int64_t outputs, int64_t inputs, MatrixUse use) override {
    const Linear layer = source.matrix(name, outputs, inputs, use);
    std::vector<TensorSpec> stored = source.tensors_of(name);
    if (stored.empty()) {
      return layer;  // a finding, reported by finish()
    }
    Item item = {.name = name, .source = layer};
    const std::optional<MatrixFormat> wanted = wanted_format(use);
    const bool is_kept =
        !wanted.has_value() || source.format_of(stored[0].name) == format_text(*wanted);
    if (is_kept) {
      item.tensors = std::move(stored);
    } else {
      item.format = wanted;
      item.tensors = stored_tensors(*wanted, name, outputs, inputs);
      item.input_scale = wanted->format == StoredFormat::nvfp4 ? input_scale_of(name) : 1.0f;
    }
    add(name + ".weight", std::move(item));
    return layer;
  }

  EngramTable engram_table(const std::string& name, int64_t rows, int64_t width) override {
    const EngramTable table = source.engram_table(name, rows, width);
    std::vector<TensorSpec> stored = source.tensors_of(name);
    if (stored.empty()) {
      return table;
    }
    Item item = {.name = name, .table = table};
    if (source.format_of(stored[0].name) == table_format_text(target_.engram_tables)) {
      item.tensors = std::move(stored);
    } else {
      item.format = MatrixFormat{target_.engram_tables, 32};
      item.tensors = engram_tensors(target_.engram_tables, name, rows, width);
    }
    add(name + ".weight", std::move(item));
    return table;
  }

  CheckpointBinder source;
  std::vector<std::vector<Item>> items;  // by file

 private:
  std::optional<MatrixFormat> wanted_format(MatrixUse use) const {
    const Quantization wanted = {target_.projections, target_.experts, target_.draft_experts, {}};
    return declared_format(wanted, use);
  }

  float input_scale_of(const std::string& name) const {
    const auto found = input_scales_.find(name);
    if (found == input_scales_.end()) {
      throw Error(ErrorCode::bad_request, str_cat("NVFP4 needs an input scale for ", name,
                                                  "; calibrate with --calibrate FILE"));
    }
    return found->second;
  }

  void add(const std::string& tensor, Item item) {
    items[file_numbers_.at(from_.file_name(tensor))].push_back(std::move(item));
  }

  const io::Checkpoint& from_;
  const ConversionTarget& target_;
  const InputScales& input_scales_;
  std::map<std::string, size_t, std::less<>> file_numbers_;
};

Conversion::Conversion(const io::Checkpoint& from, const Config& config,
                       const ConversionTarget& target, const InputScales& input_scales)
    : from_(from) {
  Planner planner(from, config, target, input_scales);
  bind_weights(planner, config);
  planner.source.finish();
  items_ = std::move(planner.items);
  std::vector<CheckpointShard> shards(items_.size());
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string& path = from.files()[i].file().path();
    shards[i].file_name = path.substr(path.rfind('/') + 1);
    for (const Item& item : items_[i]) {
      shards[i].tensors.insert(shards[i].tensors.end(), item.tensors.begin(), item.tensors.end());
    }
  }
  layout_ = lay_out(std::move(shards));
}

// One file, tensor by tensor, each at its place.
class Conversion::ShardWriter {
 public:
  ShardWriter(Conversion& conversion, ThreadPool& threads, const CheckpointShard& shard,
              const std::string& folder, const std::function<void(int64_t)>& on_progress)
      : conversion_(conversion),
        threads_(threads),
        file_(folder + "/" + shard.file_name),
        on_progress_(on_progress) {
    file_.write(shard.start());
    int64_t at = shard.data_begin();
    for (const TensorSpec& tensor : shard.tensors) {
      places_[tensor.name] = at;
      at += tensor.bytes();
    }
  }

  void write(const Item& item) {
    if (!item.format.has_value()) {
      for (const TensorSpec& tensor : item.tensors) {
        copy(tensor);
      }
    } else if (item.table.has_value()) {
      round_table(item);
    } else if (!cast_matrix(item)) {
      round_matrix(item);
    }
  }

  void commit() { file_.commit(); }

 private:
  void put(const TensorSpec& tensor, int64_t offset, std::span<const std::byte> bytes) {
    file_.write_at(places_.at(tensor.name) + offset, bytes);
    on_progress_(static_cast<int64_t>(bytes.size()));
  }

  void put(const TensorSpec& tensor, float value) {
    put(tensor, 0, std::as_bytes(std::span(&value, 1)));
  }

  void copy(const TensorSpec& tensor) {
    const TensorView view = conversion_.from_.view(tensor.name);
    copy_bytes(tensor, {view.data, static_cast<size_t>(view.bytes())});
    ++conversion_.sums_.copied_tensors;
  }

  void copy_bytes(const TensorSpec& tensor, std::span<const std::byte> bytes) {
    for (size_t done = 0; done < bytes.size(); done += kPieceBytes) {
      const std::span<const std::byte> piece =
          bytes.subspan(done, std::min<size_t>(kPieceBytes, bytes.size() - done));
      put(tensor, static_cast<int64_t>(done), piece);
      release_pages(piece);
    }
  }

  // True where MXFP4 becomes NVFP4 without loss.
  bool cast_matrix(const Item& item) {
    const Weight& weight = item.source.weight;
    const WeightMxfp4* mxfp4 = std::get_if<WeightMxfp4>(&weight.format);
    if (item.format->format != StoredFormat::nvfp4 || mxfp4 == nullptr) {
      return false;
    }
    const std::optional<Nvfp4Cast> cast = nvfp4_cast(weight);
    if (!cast.has_value()) {
      return false;
    }
    const auto [codes, scales] = weight_bytes(weight);
    copy_bytes(item.tensors[0], codes);
    std::vector<std::byte> twice;
    twice.reserve(2 * scales.size());
    for (const std::byte scale : scales) {
      twice.insert(twice.end(), 2,
                   static_cast<std::byte>(cast->scale(std::to_integer<uint8_t>(scale))));
    }
    put(item.tensors[1], 0, twice);
    put(item.tensors[2], cast->global());
    put(item.tensors[3], item.input_scale);
    ++conversion_.sums_.cast_matrices;
    return true;
  }

  void round_matrix(const Item& item) {
    const Weight& weight = item.source.weight;
    const MatrixFormat format = *item.format;
    const bool is_nvfp4 = format.format == StoredFormat::nvfp4;
    bool is_fine = true;
    const float global =
        is_nvfp4 ? nvfp4_global_scale(largest_magnitude(threads_, weight, is_fine)) : 1.0f;
    std::vector<std::byte> codes(
        static_cast<size_t>(encoded_code_bytes(format, weight.outputs, weight.inputs)));
    std::vector<std::byte> scales(
        static_cast<size_t>(encoded_scale_bytes(format, weight.outputs, weight.inputs)));
    is_fine =
        is_fine &&
        for_row_pieces(threads_, weight, [&](int64_t first, int64_t rows, const float* values) {
          encode_rows(format, values, rows, weight.inputs, global,
                      codes.data() + encoded_code_bytes(format, first, weight.inputs),
                      scales.data() + encoded_scale_bytes(format, first, weight.inputs));
        });
    if (!is_fine) {
      throw Error(ErrorCode::bad_file,
                  str_cat(item.name, ".weight has a value that is infinite or no number"));
    }
    put(item.tensors[0], 0, codes);
    if (!scales.empty()) {
      put(item.tensors[1], 0, scales);
    }
    if (is_nvfp4) {
      put(item.tensors[2], global);
      put(item.tensors[3], item.input_scale);
    }
    for (const std::span<const std::byte> bytes : weight_bytes(weight)) {
      release_pages(bytes);
    }
    ++conversion_.sums_.rounded_matrices;
  }

  // Rows on their own, each with its scales.
  void round_table(const Item& item) {
    const EngramTable& table = *item.table;
    const MatrixFormat format = *item.format;
    const int64_t code_bytes = encoded_code_bytes(format, 1, table.width);
    const int64_t scale_bytes = encoded_scale_bytes(format, 1, table.width);
    std::vector<std::byte> codes(static_cast<size_t>(kTablePieceRows * code_bytes));
    std::vector<std::byte> scales(static_cast<size_t>(kTablePieceRows * scale_bytes));
    for (int64_t first = 0; first < table.rows; first += kTablePieceRows) {
      const int64_t rows = std::min(kTablePieceRows, table.rows - first);
      std::atomic<bool> is_fine = true;
      threads_.parallel_for(rows, [&](int64_t row, int) {
        std::vector<bf16> values(static_cast<size_t>(table.width));
        std::vector<float> wide;
        engram_row(table, first + row, values.data());
        for (const bf16 value : values) {
          wide.push_back(to_float(value));
          is_fine = is_fine && std::isfinite(wide.back());
        }
        if (is_fine) {
          encode_rows(format, wide.data(), 1, table.width, 1, codes.data() + row * code_bytes,
                      scales.data() + row * scale_bytes);
        }
      });
      if (!is_fine) {
        throw Error(ErrorCode::bad_file,
                    str_cat(item.name, ".weight has a value that is infinite or no number"));
      }
      put(item.tensors[0], first * code_bytes,
          {codes.data(), static_cast<size_t>(rows * code_bytes)});
      if (scale_bytes > 0) {
        put(item.tensors[1], first * scale_bytes,
            {scales.data(), static_cast<size_t>(rows * scale_bytes)});
      }
      release_pages({table.codes + first * table.code_row_bytes(),
                     static_cast<size_t>(rows * table.code_row_bytes())});
    }
    ++conversion_.sums_.rounded_matrices;
  }

  Conversion& conversion_;
  ThreadPool& threads_;
  OutputFile file_;
  const std::function<void(int64_t)>& on_progress_;
  std::unordered_map<std::string_view, int64_t> places_;  // of tensors in the file
};

void Conversion::write_shard(ThreadPool& threads, size_t shard, const std::string& folder,
                             const std::function<void(int64_t)>& on_progress) {
  ShardWriter writer(*this, threads, layout_.shards[shard], folder, on_progress);
  for (const Item& item : items_[shard]) {
    writer.write(item);
  }
  writer.commit();
}

}  // namespace tessera::deepseek_v41
