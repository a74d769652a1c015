#include "runtime/machine.h"

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "io/config_view.h"
#include "io/json.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, kKernels> kNames = {
    "fp4", "fp8", "bf16", "attention", "index_scores", "picture_attention"};

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::bad_file, str_cat(where, ": ", what));
}

// {"value": 1e9, "source": "words"}
Figure parse_figure(const io::ConfigView& view, std::string_view key) {
  const std::optional<io::ConfigView> figure = view.child(key);
  if (!figure.has_value()) {
    refuse(view.where(), str_cat(quoted(key), " is missing; expected {\"value\", \"source\"}"));
  }
  const Figure read = {figure->number("value"), figure->text("source")};
  if (!(read.value > 0)) {
    refuse(figure->where(), str_cat("'value' is ", read.value, ", expected more than 0"));
  }
  return read;
}

// {"1": 10.5, "240": 80}: rows and 10^9 operations per second of one thread.
KernelSpeed parse_speed(const io::ConfigView& view, std::string_view name, double threads) {
  const std::optional<io::ConfigView> speeds = view.child(name);
  KernelSpeed speed;
  for (const auto& [rows_text, value] :
       speeds.has_value() ? speeds->object().members() : std::vector<io::Json::Member>()) {
    int64_t rows = 0;
    const double gflops = value.as_double().value_or(0);
    const double before = speed.points.empty() ? 0 : speed.points.back().rows;
    if (!parse_number(rows_text, rows) || !(static_cast<double>(rows) > before) || !(gflops > 0)) {
      refuse(view.where(), str_cat(quoted(name), ": ", quoted(rows_text),
                                   ": expected rows, ascending, and a positive number"));
    }
    speed.points.push_back({static_cast<double>(rows), gflops * 1e9 * threads});
  }
  if (speed.points.empty()) {
    refuse(view.where(), str_cat(quoted(name), " is missing; expected {\"ROWS\": GFLOP/s}"));
  }
  return speed;
}

}  // namespace

std::string_view kernel_name(Kernel kernel) { return kNames[static_cast<size_t>(kernel)]; }

double KernelSpeed::seconds(double rows, double flops) const {
  if (!(flops > 0)) {
    return 0;
  }
  // Time of all rows for one operation per row.
  const auto time_at = [](const Point& point) { return point.rows / point.flops_per_second; };
  const double per_row = flops / rows;
  const auto after = std::find_if(points.begin(), points.end(),
                                  [rows](const Point& point) { return point.rows >= rows; });
  if (after == points.begin()) {
    return per_row * time_at(*after);  // fewer rows than were ever measured take as long
  }
  if (after == points.end()) {
    return flops / points.back().flops_per_second;
  }
  const Point& below = *(after - 1);
  const double share = (rows - below.rows) / (after->rows - below.rows);
  return per_row * (time_at(below) + share * (time_at(*after) - time_at(below)));
}

void Machine::scale_threads(double count, const std::string& source) {
  const double factor = count / threads.value;
  for (KernelSpeed& kernel : kernels) {
    for (KernelSpeed::Point& point : kernel.points) {
      point.flops_per_second *= factor;
    }
  }
  threads = {count, source};
}

void Machine::scale_flops(double flops_per_second, const std::string& source) {
  const double factor = flops_per_second / speed(Kernel::bf16).most();
  for (KernelSpeed& kernel : kernels) {
    for (KernelSpeed::Point& point : kernel.points) {
      point.flops_per_second *= factor;
    }
  }
  kernels_source = str_cat(source, " for bf16 with many rows, the other kernels in proportion (",
                           kernels_source, ")");
}

Machine parse_machine(const io::Json& json, const std::string& name) {
  const io::ConfigView view(json, name);
  Machine m;
  m.name = view.text("name");
  m.comment = view.text_or("comment", "");
  m.threads = parse_figure(view, "threads");
  m.memory_bytes = parse_figure(view, "memory_bytes");
  m.memory_bandwidth = parse_figure(view, "memory_bandwidth");
  m.disk_bandwidth = parse_figure(view, "disk_bandwidth");
  m.disk_reads_per_second = parse_figure(view, "disk_reads_per_second");
  const std::optional<io::ConfigView> kernels = view.child("kernels");
  const std::optional<io::ConfigView> speeds =
      kernels.has_value() ? kernels->child("gflops_of_one_thread") : std::nullopt;
  if (!speeds.has_value()) {
    refuse(name, "'kernels' is missing; expected {\"source\", \"gflops_of_one_thread\"}");
  }
  m.kernels_source = kernels->text("source");
  for (int i = 0; i < kKernels; ++i) {
    const Kernel kernel = static_cast<Kernel>(i);
    m.speed(kernel) = parse_speed(*speeds, kernel_name(kernel), m.threads.value);
  }
  for (const std::vector<std::string>& unread :
       {view.unread_keys(), kernels->unread_keys(), speeds->unread_keys()}) {
    if (!unread.empty()) {
      refuse(name, str_cat("key ", unread.front(), " is not known"));
    }
  }
  return m;
}

Machine read_machine(const std::string& path) {
  return parse_machine(io::read_json_file(path), path);
}

}  // namespace tessera
