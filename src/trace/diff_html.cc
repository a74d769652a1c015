#include "trace/diff_html.h"

#include <map>
#include <string_view>

#include "base/check.h"
#include "base/str_cat.h"
#include "trace/diff_html_data.h"
#include "trace/diff_html_text.h"

namespace tessera::trace {

// Embedded at build time, see CMakeLists.txt.
namespace web {
extern const std::string_view page_html;
extern const std::string_view style_css;
extern const std::string_view taps_css;
extern const std::string_view base_js;
extern const std::string_view charts_js;
extern const std::string_view diff_js;
}  // namespace web

namespace {

constexpr size_t kMostLineBytes = 2000;

// Puts the parts in the places of {{name}}; what was put in is not looked at again.
std::string fill(std::string_view page, const std::map<std::string_view, std::string>& parts) {
  std::string out;
  for (size_t at = 0;;) {
    const size_t open = page.find("{{", at);
    out += page.substr(at, open == std::string_view::npos ? open : open - at);
    if (open == std::string_view::npos) {
      return out;
    }
    const size_t close = page.find("}}", open);
    TESSERA_CHECK(close != std::string_view::npos);
    const auto part = parts.find(page.substr(open + 2, close - open - 2));
    TESSERA_CHECK(part != parts.end());
    out += part->second;
    at = close + 2;
  }
}

std::string style() { return str_cat(web::style_css, "\n", web::taps_css); }

std::string script() { return str_cat(web::base_js, "\n", web::charts_js, "\n", web::diff_js); }

std::string policy() {
  return str_cat("default-src 'none'; script-src '", policy_hash(script()), "'; style-src '",
                 policy_hash(style()), "'; img-src data:; base-uri 'none'; form-action 'none'");
}

}  // namespace

std::string diff_html(const DiffReport& report, const TraceFile& reference, const TraceFile& ours,
                      const StageMap& stages, const DiffOptions& options) {
  const std::string_view verdict = diff_verdict_name(report.verdict);
  const std::string line = clean_text(report.line, kMostLineBytes);
  const std::string cause = clean_text(report.cause, kMostLineBytes);
  const bool is_told = line.find(cause) != std::string::npos;  // the line ends with the cause
  return fill(web::page_html,
              {{"policy", policy()},
               {"title", html_text(str_cat(verdict, ": ", clean_text(report.ours, 100)))},
               {"style", style()},
               {"verdict", std::string(verdict)},
               {"line", html_text(line)},
               {"cause", is_told ? "" : html_text(cause)},
               {"data", script_json(page_data(report, reference, ours, stages, options))},
               {"script", script()}});
}

}  // namespace tessera::trace
