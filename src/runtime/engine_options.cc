// What can be said about options without a model.
#include "base/error.h"
#include "base/str_cat.h"
#include "runtime/engine.h"

namespace tessera {
namespace {

constexpr int64_t kMaxCacheTokens = int64_t{1} << 24;

void check_serving(const ServingLimits& limits) {
  const auto require = [](bool is_fine, const char* name, const auto& found, const char* expected) {
    if (!is_fine) {
      throw Error(ErrorCode::bad_request,
                  str_cat("serving: ", name, " is ", found, ", expected ", expected));
    }
  };
  require(limits.max_running >= 1 && limits.max_running <= 1024, "max_running", limits.max_running,
          "1 to 1024");
  require(limits.max_queued >= 1, "max_queued", limits.max_queued, "at least 1");
  require(limits.cache_tokens >= 0 && limits.cache_tokens <= kMaxCacheTokens, "cache_tokens",
          limits.cache_tokens, "0 to 16777216");
  require(limits.answer_room >= 1, "answer_room", limits.answer_room, "at least 1");
  require(limits.rows_beside_answers >= 1, "rows_beside_answers", limits.rows_beside_answers,
          "at least 1");
  require(limits.encode_share > 0 && limits.encode_share < 1, "encode_share", limits.encode_share,
          "a number between 0 and 1");
  require(limits.prepare_threads >= 1 && limits.prepare_threads <= 64, "prepare_threads",
          limits.prepare_threads, "1 to 64");
}

void check_caches(const EngineOptions& options) {
  const auto require = [](bool is_fine, const char* name, int64_t found, const char* expected) {
    if (!is_fine) {
      throw Error(ErrorCode::bad_request, str_cat(name, " is ", found, ", expected ", expected));
    }
  };
  require(options.step_rows >= 1, "step_rows", options.step_rows, "at least 1");
  require(options.prefix_interval >= 1, "prefix_interval", options.prefix_interval, "at least 1");
  require(options.prefix_cache_bytes >= 0, "prefix_cache_bytes", options.prefix_cache_bytes,
          "0 (nothing is kept) or more");
  require(options.picture_cache_bytes >= 0, "picture_cache_bytes", options.picture_cache_bytes,
          "0 (nothing is kept) or more");
  require(options.resident_limit_bytes >= 0, "resident_limit_bytes", options.resident_limit_bytes,
          "0 (no limit) or more");
}

}  // namespace

void check_options(const EngineOptions& options) {
  if (options.threads < 0 || options.threads > 1024) {
    throw Error(ErrorCode::bad_request,
                str_cat("--threads ", options.threads, ": expected 1 to 1024"));
  }
  check_serving(options.serving);
  check_caches(options);
}

}  // namespace tessera
