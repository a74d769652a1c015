#include "server/http_parser.h"

#include <boost/beast/http/basic_parser.hpp>
#include <limits>

#include "base/str_cat.h"

namespace tessera::server {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using boost::beast::string_view;

std::string_view view_of(string_view text) { return {text.data(), text.size()}; }

// The shortest end of a body in chunks: "0", two line ends. Beast 1.81 asserts that it gets as
// much.
constexpr int64_t kChunkedEndBytes = 5;

constexpr size_t kReserveBytes = size_t{1} << 20;  // of a body that is only announced

}  // namespace

// Keeps the fields of the head; those of a trailer are read and forgotten.
class RequestParser::Parser final : public http::basic_parser<true> {
 public:
  Parser() {
    eager(true);
    header_limit(std::numeric_limits<uint32_t>::max());  // the caller has limits
    body_limit(boost::none);
  }

  // Taken in of `bytes`; asks for more by taking less.
  int64_t take(std::string_view bytes, error_code& code) {
    const size_t taken = put({bytes.data(), bytes.size()}, code);
    if (code == http::error::need_more) {
      code = {};
    }
    return static_cast<int64_t>(taken);
  }

  RequestHead request_head;
  std::string body;

 private:
  void on_request_impl(http::verb, string_view method, string_view target, int version,
                       error_code&) override {
    request_head.method = view_of(method);
    request_head.target = view_of(target);
    request_head.minor_version = version - 10;
  }
  void on_field_impl(http::field, string_view name, string_view value, error_code&) override {
    if (!is_header_done()) {
      request_head.fields.push_back({std::string(view_of(name)), std::string(view_of(value))});
    }
  }
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<uint64_t>& length, error_code&) override {
    body.reserve(std::min(static_cast<size_t>(length.value_or(0)), kReserveBytes));
  }
  size_t on_body_impl(string_view piece, error_code&) override {
    body.append(view_of(piece));
    return piece.size();
  }
  void on_chunk_header_impl(uint64_t, string_view, error_code&) override {}
  size_t on_chunk_body_impl(uint64_t, string_view piece, error_code&) override {
    body.append(view_of(piece));
    return piece.size();
  }
  void on_finish_impl(error_code&) override {}
  void on_response_impl(int, string_view, int, error_code&) override {}
};

RequestParser::RequestParser() : parser_(std::make_unique<Parser>()) {}

RequestParser::~RequestParser() = default;

std::optional<HttpRefusal> RequestParser::read_head(std::string_view bytes) {
  error_code code;
  const int64_t taken = parser_->take(bytes, code);
  if (!code && (!parser_->is_header_done() || taken != std::ssize(bytes))) {
    code = http::error::partial_message;
  }
  if (code) {
    return HttpRefusal{400, str_cat("the head of the request is malformed: ", code.message())};
  }
  RequestHead& head = parser_->request_head;
  head.is_chunked = parser_->chunked();
  head.keeps_alive = parser_->keep_alive();
  if (const auto length = parser_->content_length();
      length.has_value() && !parser_->chunked() &&
      *length <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    head.content_length = static_cast<int64_t>(*length);
  }
  return std::nullopt;
}

const RequestHead& RequestParser::head() const { return parser_->request_head; }

RequestHead RequestParser::take_head() { return std::move(parser_->request_head); }

int64_t RequestParser::read_body(std::string_view bytes, int64_t body_bytes, int64_t line_bytes,
                                 std::optional<HttpRefusal>& refusal) {
  int64_t taken = 0;
  error_code code;
  // A call takes one part at a time in spite of eager() where a part needs more bytes.
  const int64_t least = parser_->chunked() ? kChunkedEndBytes : 1;
  while (!parser_->is_done() && std::ssize(bytes) - taken >= least) {
    const int64_t now = parser_->take(bytes.substr(static_cast<size_t>(taken)), code);
    taken += now;
    if (code || now == 0) {
      break;
    }
  }
  if (code) {
    refusal = HttpRefusal{400, str_cat("the body of the request is malformed: ", code.message())};
  } else if (std::ssize(parser_->body) > body_bytes) {
    refusal = HttpRefusal{413, str_cat("the body has more than ", body_bytes, " bytes")};
  } else if (!parser_->is_done() && std::ssize(bytes) - taken > line_bytes) {
    refusal = HttpRefusal{400, "a line between the chunks of the body is too long"};
  }
  return taken;
}

bool RequestParser::is_done() const { return parser_->is_done(); }

std::string RequestParser::take_body() { return std::move(parser_->body); }

}  // namespace tessera::server
