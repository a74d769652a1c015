// The page in a browser: what its script builds, how it is used, whether it fits a phone. Skipped
// where there is neither chromium-headless-shell nor chromium.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>

#include "io/json.h"
#include "trace/diff_html.h"
#include "trace/diff_html_page_test.h"

extern char** environ;

namespace tessera::trace {
namespace {

constexpr int64_t kMostSeconds = 120;

// Path of a program in PATH; empty if it is not there.
std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string folders = path == nullptr ? "" : path;
  while (!folders.empty()) {
    const size_t end = std::min(folders.find(':'), folders.size());
    const std::string candidate = folders.substr(0, end) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
    folders.erase(0, end + 1);
  }
  return "";
}

std::string browser() {
  const std::string shell = find_program("chromium-headless-shell");
  return shell.empty() ? find_program("chromium") : shell;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Runs a program with its streams in files; false when it fails or takes too long.
bool run(std::vector<std::string> arguments, const std::string& out, const std::string& err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), flags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), flags, 0600);
  std::vector<char*> argv;
  for (std::string& argument : arguments) {
    argv.push_back(argument.data());
  }
  argv.push_back(nullptr);
  pid_t process = -1;
  const int failed = ::posix_spawn(&process, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    return false;
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(kMostSeconds);
  int status = 0;
  while (::waitpid(process, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      ::kill(process, SIGKILL);
      ::waitpid(process, &status, 0);
      return false;
    }
    ::poll(nullptr, 0, 20);
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct View {
  int width = 1280, height = 900;
  bool is_dark = false;
};

class DiffHtmlBrowserTest : public testing::Test {
 protected:
  void SetUp() override {
    if (browser().empty()) {
      GTEST_SKIP() << "no browser: apt-get install chromium-headless-shell";
    }
  }

  std::string page() const {
    return diff_html(sample_.report, *sample_.reference, *sample_.ours, sample_.stages);
  }

  // The document after its scripts have run, as markup; messages_ has what the console said.
  std::string document(const std::string& page, const View& view = {}) {
    const std::string file = folder_ / "page.html";
    std::ofstream(file, std::ios::binary) << page;
    std::vector<std::string> arguments = {browser(),
                                          "--headless",
                                          "--no-sandbox",  // as root
                                          "--disable-gpu",
                                          "--enable-logging=stderr",
                                          "--hide-scrollbars",
                                          "--virtual-time-budget=5000",
                                          "--user-data-dir=" + (folder_ / "profile"),
                                          str_cat("--window-size=", view.width, ",", view.height)};
    if (view.is_dark) {
      arguments.push_back("--blink-settings=preferredColorScheme=0");
    }
    arguments.insert(arguments.end(), {"--dump-dom", "file://" + file});
    EXPECT_TRUE(run(arguments, folder_ / "out", folder_ / "err")) << read_file(folder_ / "err");
    messages_ = "";
    std::ifstream err(folder_ / "err");
    for (std::string line; std::getline(err, line);) {
      messages_ += line.find("CONSOLE") == std::string::npos ? "" : line + "\n";
    }
    return read_file(folder_ / "out");
  }

  // What `probe` returns, which runs in the page behind its script. The policy would forbid it, so
  // it is taken out here.
  io::Json probe(const std::string& probe, const View& view = {}) {
    std::string text = page();
    const size_t policy = text.find("<meta http-equiv=\"Content-Security-Policy\"");
    text.erase(policy, text.find('>', policy) + 1 - policy);
    text.insert(text.rfind("</body>"),
                "<script type=\"module\">\n"
                "const $ = (s) => document.querySelector(s);\n"
                "const $$ = (s) => [...document.querySelectorAll(s)];\n"
                "const later = () => new Promise((done) => setTimeout(done, 50));\n"
                "const key = (key) => document.activeElement.dispatchEvent(\n"
                "  new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));\n"
                "const result = await (async () => {" +
                    probe +
                    "})();\n"
                    "document.body.replaceChildren();\n"
                    "document.body.textContent = 'probe:' + btoa(JSON.stringify(result));\n"
                    "</script>");
    const std::string out = document(text, view);
    const size_t at = out.find("probe:");
    EXPECT_NE(at, std::string::npos) << messages_;
    return at == std::string::npos ? io::Json() : decoded(out.substr(at + 6));
  }

  static io::Json decoded(const std::string& base64) {
    const std::string alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    uint32_t bits = 0;
    int count = 0;
    for (const char c : base64) {
      const size_t value = alphabet.find(c);
      if (value == std::string::npos) {
        break;
      }
      bits = bits << 6 | static_cast<uint32_t>(value);
      count += 6;
      if (count >= 8) {
        count -= 8;
        text.push_back(static_cast<char>(bits >> count & 0xffU));
      }
    }
    return io::parse_json(text, "probe");
  }

  SamplePage sample_;
  TemporaryFolder folder_;
  std::string messages_;
};

int64_t count_of(std::string_view text, std::string_view what) {
  int64_t count = 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

TEST_F(DiffHtmlBrowserTest, ScriptRunsUnderItsPolicyAndShowsEveryTap) {
  const std::string out = document(page());
  EXPECT_EQ(messages_, "");
  EXPECT_EQ(count_of(out, "data-tap=\""), 11);
  EXPECT_NE(out.find("first divergence: outside the tolerance"), std::string::npos);
  EXPECT_NE(out.find("padding by &lt;whole&gt; lines"), std::string::npos);
  EXPECT_NE(out.find("not equal (5)"), std::string::npos);
  EXPECT_NE(out.find("all (11)"), std::string::npos);
  EXPECT_EQ(count_of(out, "<canvas"), 1);
  EXPECT_EQ(count_of(out, "<img"), 0);
  EXPECT_EQ(out.find("<title>pwned"), std::string::npos);
}

TEST_F(DiffHtmlBrowserTest, PolicyStopsWhatSomebodyPutsIn) {
  std::string text = page();
  text.insert(text.rfind("</body>"),
              "<script>document.title = 'pwned';</script>"
              "<img src=x onerror=\"document.title = 'pwned'\">"
              "<p id=\"inked\" style=\"color: red\" onclick=\"1\">x</p>");
  const std::string out = document(text);
  EXPECT_EQ(out.find("<title>pwned"), std::string::npos);
  EXPECT_NE(messages_.find("Content Security Policy"), std::string::npos) << messages_;
  EXPECT_EQ(count_of(out, "data-tap=\""), 11);
}

TEST_F(DiffHtmlBrowserTest, HostileNamesAreText) {
  const io::Json result = probe(R"(
    location.hash = '#tap-10';
    await later();
    return {title: $('#details h2').textContent, images: $$('img').length,
            scripts: $$('script').length, page: document.title.startsWith('diverged: ')};)");
  EXPECT_EQ(result.find("title")->text(),
            "</script><img src=x onerror=\"document.title='pwned'\">'&amp;<!--\\u{202e}cod.exe");
  EXPECT_EQ(result.find("images")->as_int64(), 0);
  EXPECT_EQ(result.find("scripts")->as_int64(), 3);  // data, own, probe
  EXPECT_EQ(result.find("page")->as_boolean(), true);
}

TEST_F(DiffHtmlBrowserTest, KeysAndClicksSelect) {
  const io::Json result = probe(R"(
    const shown = () => $('#details h2').textContent;
    const steps = [shown()];
    const step = () => steps.push(shown());
    $('[aria-current="true"]').focus();
    key('ArrowRight'); step();
    key('ArrowLeft'); step();
    key('ArrowDown'); step();
    key('ArrowUp'); step();
    key('End'); step();
    key('Home'); step();
    key('ArrowLeft'); step();
    $('[data-tap="9"]').click(); step();
    const focus = document.activeElement.id;
    $('#details .links a').click(); await later(); step();
    history.back(); await later(); step();
    return {steps, focus,
            tabbable: $$('#timeline button[tabindex="0"]').map((b) => b.dataset.tap),
            current: $$('[aria-current="true"]').map((b) => b.dataset.tap),
            said: $('#announcement').textContent};)");
  const std::vector<std::string> expected = {
      "image0.aligner",
      "c0.embed",
      "image0.aligner",
      "c0.embed",
      "image0.pixels",
      "</script><img src=x onerror=\"document.title='pwned'\">'&amp;<!--\\u{202e}cod.exe",
      "ids",
      "ids",
      "c0.layers.1",
      "c0.layers.1.topk",
      "c0.layers.1"};
  std::vector<std::string> steps;
  for (const io::Json& step : result.find("steps")->items()) {
    steps.push_back(step.text());
  }
  EXPECT_EQ(steps, expected);
  EXPECT_EQ(result.find("focus")->text(), "details");
  EXPECT_EQ(io::dump_compact(*result.find("tabbable")), "[\"9\"]");
  EXPECT_EQ(io::dump_compact(*result.find("current")), "[\"9\"]");
  EXPECT_EQ(result.find("said")->text(),
            "c0.layers.1: NaN or infinite on one side, as something before it");
}

TEST_F(DiffHtmlBrowserTest, TableFiltersAndSorts) {
  const io::Json result = probe(R"(
    const names = () => $$('#rows a').map((a) => a.textContent).join(' ');
    const type = (text) => {
      $('#filter').value = text;
      $('#filter').dispatchEvent(new Event('input', {bubbles: true}));
    };
    const out = {changed: names()};
    $('input[value="all"]').click();
    out.all = $$('#rows tr').length;
    type('LAYERS topk'); out.found = names();
    type('nothing like it'); out.none = $('#more').textContent;
    type('image0');
    $$('#columns button')[1].click(); out.byName = names();
    $$('#columns button')[1].click(); out.byNameDown = names();
    $$('#columns button')[3].click(); out.byRms = names().split(' ')[0];
    out.sorted = $$('#columns th').map((th) => th.getAttribute('aria-sort')).indexOf('descending');
    return out;)");
  EXPECT_EQ(result.find("changed")->text(),
            "image0.aligner c0.embed c0.layers.0.topk c0.layers.0 c0.layers.1");
  EXPECT_EQ(result.find("all")->as_int64(), 11);
  EXPECT_EQ(result.find("found")->text(), "c0.layers.0.topk c0.layers.1.topk");
  EXPECT_EQ(result.find("none")->text(), "No tap is like this.");
  EXPECT_EQ(result.find("byName")->text(),
            "image0.aligner image0.grid image0.patches image0.pixels");
  EXPECT_EQ(result.find("byNameDown")->text(),
            "image0.pixels image0.patches image0.grid image0.aligner");
  EXPECT_EQ(result.find("byRms")->text(), "image0.aligner");
  EXPECT_EQ(result.find("sorted")->as_int64(), 3);
}

// Cell (0,3) of the map is far off, cell (1,0) a little, the others lie on the bare picture.
TEST_F(DiffHtmlBrowserTest, MapIsDrawnOverThePicture) {
  const std::string look = R"(
    const canvas = $('#details canvas');
    const at = (row, column) => [...canvas.getContext('2d').getImageData(
      (column + 0.3) * canvas.width / 5, (row + 0.3) * canvas.height / 3, 1, 1).data].slice(0, 3);
    const slider = $('.slider input');
    const set = (value) => {
      slider.value = value;
      slider.dispatchEvent(new Event('input', {bubbles: true}));
    };
    set(100);
    const over = at(0, 3), less = at(1, 0), beyond = at(0, 4);
    set(0);
    const bare = at(0, 3), same = at(2, 2);
    set(100);
    const words = [$('.readout').textContent];
    canvas.focus();
    key('ArrowRight'); key('ArrowRight'); key('ArrowDown');
    words.push($('.readout').textContent);
    return {over, less, beyond, bare, same, sameOver: at(2, 2), words,
            ratio: canvas.width / canvas.height, label: canvas.getAttribute('aria-label')};)";
  const io::Json result = probe(look);
  const auto channel = [&](const char* name, size_t i) {
    return *result.find(name)->items()[i].as_int64();
  };
  EXPECT_GT(channel("over", 0), channel("over", 2) + 80);  // red
  EXPECT_NE(io::dump_compact(*result.find("over")), io::dump_compact(*result.find("bare")));
  EXPECT_EQ(io::dump_compact(*result.find("same")), io::dump_compact(*result.find("sameOver")));
  EXPECT_EQ(io::dump_compact(*result.find("words")),
            "[\"worst: line 0, column 3: 0.25 (allowed 0.008)\","
            "\"line 1, column 1: 0 (allowed 0.008)\"]");
  // 36 x 24 pixels are 9 of 10 patch columns and all 6 rows.
  EXPECT_NEAR(*result.find("ratio")->as_double(), 40.0 / 24, 0.02);
  EXPECT_NE(result.find("label")->text().find("line 0, column 3"), std::string::npos);
}

TEST_F(DiffHtmlBrowserTest, FitsAPhoneAndEveryWidth) {
  for (const int width : {360, 768, 1280, 2000}) {
    for (const bool is_dark : {false, true}) {
      const io::Json result = probe(R"(
        const wide = $$('main *, header *').filter((e) => !e.closest('.scroll, .hidden, details') &&
          e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 80));
        const cell = $('#timeline button').getBoundingClientRect();
        return {page: document.documentElement.scrollWidth - innerWidth, wide, inner: innerWidth,
                cell: Math.min(cell.width, cell.height),
                paper: getComputedStyle(document.body).backgroundColor};)",
                                    {.width = width, .is_dark = is_dark});
      EXPECT_LE(*result.find("page")->as_int64(), 0) << width;
      EXPECT_EQ(io::dump_compact(*result.find("wide")), "[]") << width;
      EXPECT_EQ(result.find("inner")->as_int64(), width);
      EXPECT_GE(*result.find("cell")->as_double(), width == 360 ? 24 : 20) << width;
      EXPECT_EQ(result.find("paper")->text(), is_dark ? "rgb(19, 22, 25)" : "rgb(246, 246, 243)");
    }
  }
}

TEST_F(DiffHtmlBrowserTest, TwentyThousandTapsOpen) {
  for (int64_t i = 0; i < 20'000; ++i) {
    sample_.add(str_cat("c", 1 + i / 300, ".layers.", i % 300 / 30, ".attn.tap", i % 30),
                i % 3 == 0 ? TapStatus::over : TapStatus::equal, {"c0.layers.0"});
  }
  sample_.report.first = &sample_.report.taps[4];
  const io::Json result = probe(R"(
    const cells = $$('[data-tap]').length;
    location.hash = '#tap-20010';
    await later();
    return {parts: $$('.part').length, cells, rows: $$('#rows tr').length,
            title: $('#details h2').textContent,
            opened: $('[data-tap="20010"]').closest('details').open};)");
  EXPECT_EQ(result.find("parts")->as_int64(), 71);
  EXPECT_LT(*result.find("cells")->as_int64(), 4000);
  EXPECT_EQ(result.find("rows")->as_int64(), 200);
  EXPECT_EQ(result.find("title")->text(), "c67.layers.6.attn.tap19");
  EXPECT_EQ(result.find("opened")->as_boolean(), true);
  EXPECT_EQ(messages_, "");
}

TEST_F(DiffHtmlBrowserTest, AnEqualReportIsQuiet) {
  sample_.report.taps.resize(4);
  sample_.report.first = nullptr;
  sample_.report.verdict = DiffVerdict::equal;
  const std::string out = document(page());
  EXPECT_EQ(messages_, "");
  EXPECT_EQ(count_of(out, "data-tap=\""), 4);
  EXPECT_EQ(
      count_of(out, "<section id=\"hints\" class=\"card\" aria-labelledby=\"hints-title\" hidden"),
      1);
  sample_.report.taps.clear();
  document(page());
  EXPECT_EQ(messages_, "");
}

}  // namespace
}  // namespace tessera::trace
