// Requests as a connection reads them: the same bytes mean the same however they arrive.
#include <string>

#include "base/str_cat.h"
#include "fuzz/target.h"
#include "server/http_parser.h"

namespace tessera::server {
namespace {

constexpr int64_t kHeadBytes = 512;
constexpr int64_t kBodyBytes = 256;

void check_message(const HttpRefusal& refusal) {
  TESSERA_CHECK(refusal.status >= 400 && refusal.status < 500);
  TESSERA_CHECK(refusal.message.find('\n') == std::string::npos);
  TESSERA_CHECK(is_valid_utf8(refusal.message));
}

// Reads requests until one is refused; "refused" and what was read before. Gets `piece_bytes` of
// `bytes` at a time.
class Reader {
 public:
  explicit Reader(size_t piece_bytes) : piece_bytes_(piece_bytes) {}

  std::string read_all(std::string_view bytes) {
    while (!is_refused_ && !bytes.empty()) {
      input_ += bytes.substr(0, piece_bytes_);
      bytes.remove_prefix(std::min(piece_bytes_, bytes.size()));
      while (!is_refused_ && advance()) {
      }
    }
    return out_;
  }

 private:
  // False when more bytes are needed.
  bool advance() {
    if (!parser_.has_value()) {
      const int64_t head_bytes = scanner_.scan(input_);
      if (scanner_.is_bad() || (head_bytes == 0 ? std::ssize(input_) : head_bytes) > kHeadBytes) {
        refuse({400, "head"});
      } else if (head_bytes > 0) {
        begin(static_cast<size_t>(head_bytes));
        return true;
      }
      return false;
    }
    std::optional<HttpRefusal> refusal;
    if (!parser_->is_done()) {
      const int64_t taken = parser_->read_body(input_, kBodyBytes, kHeadBytes, refusal);
      input_.erase(0, static_cast<size_t>(taken));
    }
    if (refusal.has_value()) {
      refuse(*refusal);
      return false;
    }
    if (!parser_->is_done()) {
      return false;
    }
    out_ += str_cat("body ", parser_->take_body(), "\n");
    parser_.reset();
    scanner_ = {};
    return true;
  }

  void begin(size_t head_bytes) {
    parser_.emplace();
    std::optional<HttpRefusal> refusal = parser_->read_head({input_.data(), head_bytes});
    input_.erase(0, head_bytes);
    RequestTarget target;
    const RequestRules rules{.allowed_origins = {"https://page.example"}, .body_bytes = kBodyBytes};
    if (!refusal.has_value()) {
      refusal = check_head(parser_->head(), rules, "127.0.0.1", target);
    }
    cors_fields(parser_->head(), rules);
    TESSERA_CHECK(!request_id(parser_->head().fields).empty());
    if (refusal.has_value()) {
      refuse(*refusal);
      return;
    }
    TESSERA_CHECK(is_valid_utf8(target.path) && (target.path[0] == '/' || target.path == "*"));
    out_ += str_cat(parser_->head().method, " ", target.path, "?", target.query, "\n");
  }

  void refuse(const HttpRefusal& refusal) {
    check_message(refusal);
    is_refused_ = true;
    out_ += "refused";
  }

  const size_t piece_bytes_;
  std::string input_;
  std::string out_;
  HeadScanner scanner_;
  std::optional<RequestParser> parser_;
  bool is_refused_ = false;
};

}  // namespace
}  // namespace tessera::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string whole = tessera::server::Reader(std::max<size_t>(size, 1)).read_all(bytes);
  for (const size_t piece_bytes : {size_t{1}, size_t{3}, size_t{64}}) {
    TESSERA_CHECK(tessera::server::Reader(piece_bytes).read_all(bytes) == whole);
  }
  return 0;
}
