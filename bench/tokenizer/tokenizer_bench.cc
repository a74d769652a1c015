// tokenizer_bench [--runs N] [--bytes N] [--folder TOKENIZERS] [FILTER]: opening, encoding and
// decoding with the recorded tokenizers, or with those whose name contains FILTER. One thread; the
// figures are medians of the processor time of N runs (5) after one that is not counted, so that
// neighbours on the machine disturb them less. The texts: texts.h.
//
// A line: what, time, speed, share of the limit, the limit's name and speed. Limits, measured in
// the same run: of opening, one pass over the file that checks its UTF-8; of encoding, cutting the
// same text into pieces by the regular expressions alone; of decoding, one copy of the text.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/str_cat.h"
#include "base/text.h"
#include "tests/support/xz.h"
#include "tokenizer/texts.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_json.h"

namespace {

using namespace tessera;

struct Options {
  int runs = 5;
  int64_t bytes = 1'000'000;  // of each text
  std::string folder = TESSERA_TOKENIZERS_DIR;
  std::string filter;
};

constexpr int64_t kMostBytes = 100'000'000;

// False: the arguments make no sense.
bool parse(int count, char** arguments, Options& options) {
  for (int i = 1; i < count; ++i) {
    const std::string_view name = arguments[i];
    if (name.substr(0, 2) != "--") {
      options.filter = name;
      continue;
    }
    if (++i == count) {
      return false;
    }
    const std::string_view value = arguments[i];
    bool is_good = false;
    if (name == "--folder") {
      options.folder = value;
      is_good = true;
    } else if (name == "--runs") {
      is_good = parse_number(value, options.runs) && options.runs >= 1;
    } else if (name == "--bytes") {
      is_good =
          parse_number(value, options.bytes) && options.bytes >= 1 && options.bytes <= kMostBytes;
    }
    if (!is_good) {
      return false;
    }
  }
  return true;
}

double thread_ms() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

template <typename Work>
double median_ms(int runs, const Work& work) {
  std::vector<double> times;
  for (int run = 0; run <= runs; ++run) {
    const double start = thread_ms();
    work();
    times.push_back(thread_ms() - start);
  }
  times.erase(times.begin());
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

double mb_per_s(size_t bytes, double ms) { return static_cast<double>(bytes) / 1e3 / ms; }

struct Line {
  std::string name;
  size_t bytes;       // worked on
  double ms;          // the work
  double limit_ms;    // its limit
  const char* limit;  // name of the limit
  std::string note = "";
};

void print(const Line& line) {
  std::printf("%-28s %8.2f ms %8.1f MB/s, %5.1f %% of %s (%.1f MB/s)%s\n", line.name.c_str(),
              line.ms, mb_per_s(line.bytes, line.ms), 100 * line.limit_ms / line.ms, line.limit,
              mb_per_s(line.bytes, line.limit_ms), line.note.c_str());
  std::fflush(stdout);
}

// ", 4.14 bytes a token"
std::string per(size_t bytes, size_t count, const char* what) {
  char text[64];
  std::snprintf(text, sizeof(text), ", %.2f bytes a %s",
                static_cast<double>(bytes) / static_cast<double>(count), what);
  return text;
}

// Results that nobody reads go here, so that the work is not left out.
volatile size_t sink;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): see above

void bench_text(const std::string& name, const Tokenizer& tokenizer, const PreTokenizer& splitter,
                const bench::BenchText& text, int runs) {
  const size_t bytes = text.text.size();
  std::vector<int32_t> ids;
  const double encoding =
      median_ms(runs, [&] { ids = tokenizer.encode(text.text, AddedTokens::recognise); });
  std::vector<uint32_t> ends;
  const double splitting = median_ms(runs, [&] {
    ends.clear();
    splitter.split(text.text, ends);
  });
  print({str_cat(name, " encode ", text.name), bytes, encoding, splitting, "splitting",
         per(bytes, ids.size(), "token") + per(bytes, ends.size(), "piece")});
  std::string decoded;
  const double decoding = median_ms(runs, [&] { decoded = tokenizer.decode(ids); });
  std::string copy;
  const double copying = median_ms(runs, [&] {
    std::string fresh(decoded);
    sink = fresh.size();
    copy.swap(fresh);
  });
  print({str_cat(name, " decode ", text.name), decoded.size(), decoding, copying, "copying"});
}

void bench_tokenizer(const std::string& name, const std::string& path,
                     const std::vector<bench::BenchText>& texts, int runs) {
  const std::string bytes = test::read_text_file(path);
  const double checking = median_ms(runs, [&] { sink = is_valid_utf8(bytes) ? 1 : 0; });
  const double opening =
      median_ms(runs, [&] { sink = Tokenizer::load(path).added_tokens().size(); });
  const double parsing = median_ms(runs, [&] { sink = io::read_json_file(path).members().size(); });
  print({name + " open", bytes.size(), opening, checking, "checking UTF-8"});
  print({name + " open, its JSON", bytes.size(), parsing, checking, "checking UTF-8"});
  const io::Json root = io::parse_json(bytes, name);
  const Tokenizer tokenizer = Tokenizer::from_json(root, name);
  const PreTokenizer splitter(read_tokenizer_json(root, name).splits, name);
  for (const bench::BenchText& text : texts) {
    bench_text(name, tokenizer, splitter, text, runs);
  }
}

// The recorded file, or its unpacked copy in `scratch`.
std::string plain_file(const std::string& folder, const std::string& name,
                       const std::filesystem::path& scratch) {
  const std::string recorded = str_cat(folder, "/", name, ".tokenizer.json");
  if (std::filesystem::exists(recorded)) {
    return recorded;
  }
  const std::string path = (scratch / (name + ".json")).string();
  std::ofstream(path, std::ios::binary) << test::read_xz_file(recorded + ".xz");
  return path;
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  if (!parse(count, arguments, options)) {
    std::fputs("usage: tokenizer_bench [--runs N] [--bytes N] [--folder TOKENIZERS] [FILTER]\n",
               stderr);
    return 2;
  }
  std::string pattern =
      (std::filesystem::temp_directory_path() / "tokenizer_bench_XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) {
    std::fprintf(stderr, "tokenizer_bench: cannot make the folder %s\n", pattern.c_str());
    return 3;
  }
  int status = 0;
  try {
    const std::vector<bench::BenchText> texts =
        bench::make_bench_texts(static_cast<size_t>(options.bytes));
    bool is_found = false;
    for (const std::string name : {"deepseek_v41", "demo_v41", "qwen3_vl"}) {
      if (name.find(options.filter) != std::string::npos) {
        bench_tokenizer(name, plain_file(options.folder, name, pattern), texts, options.runs);
        is_found = true;
      }
    }
    if (!is_found) {
      std::fprintf(stderr,
                   "tokenizer_bench: no tokenizer matches '%s'; there are: deepseek_v41, demo_v41, "
                   "qwen3_vl\n",
                   options.filter.c_str());
      status = 2;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tokenizer_bench: %s\n", error.what());
    status = 3;
  }
  std::filesystem::remove_all(pattern);
  return status;
}
