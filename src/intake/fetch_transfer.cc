#include "intake/fetch_transfer.h"

#include <curl/curl.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "intake/content_decoder.h"
#include "intake/http_head.h"
#include "intake/socket_address.h"

namespace tessera::intake {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kMaxHeaderBytes = int64_t{64} << 10;  // of all heads of one request
constexpr milliseconds kCancelCheck{20};  // no event tells of a cancellation, so it is looked for

[[noreturn]] void throw_no_memory() {
  throw Error(ErrorCode::out_of_memory, "no memory to fetch a picture");
}

void start_curl() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (code != CURLE_OK) {
    throw_no_memory();
  }
}

template <typename T, auto Free>
struct Freed {
  void operator()(T* object) const { Free(object); }
};
using EasyHandle = std::unique_ptr<CURL, Freed<CURL, curl_easy_cleanup>>;
using MultiHandle = std::unique_ptr<CURLM, Freed<CURLM, curl_multi_cleanup>>;
using TextList = std::unique_ptr<curl_slist, Freed<curl_slist, curl_slist_free_all>>;

// What libcurl is told to end a request for, besides its own reasons.
enum class Stop {
  none,
  redirect,
  status,
  too_large,
  long_head,
  coding,   // of a kind that was not asked for
  corrupt,  // compressed bytes
  address,
  late,
  no_memory,
};

// "host:port:address,[address]", as CURLOPT_RESOLVE has it.
std::string pinned_entry(const Transfer& transfer) {
  std::string entry = str_cat(transfer.url.host, ":", transfer.url.port);
  char separator = ':';
  for (const IpAddress& address : transfer.addresses) {
    const std::string text = to_text(address);
    entry += separator;
    entry += address.family == IpFamily::v6 ? str_cat("[", text, "]") : text;
    separator = ',';
  }
  return entry;
}

// `transfer` outlives it.
class Exchange {
 public:
  explicit Exchange(const Transfer& transfer)
      : transfer_(transfer), rules_(transfer.rules), easy_(curl_easy_init()) {
    if (easy_ == nullptr) {
      throw_no_memory();
    }
    set_target();
    set_limits();
    set_callbacks();
  }

  TransferResult run() {
    const CURLcode code = perform();
    switch (stop_) {
      case Stop::none:
        return code == CURLE_OK ? finish() : refuse(code);
      case Stop::redirect:
        return head_.location.empty()
                   ? TransferResult(refuse(FetchFault::bad_response, "redirects to no address"))
                   : TransferResult(Redirect{std::move(head_.location)});
      case Stop::status:
        return refuse_status();
      case Stop::too_large:
        return FetchRefusal{FetchFault::too_large,
                            str_cat("the answer of host ", host(), " has more than ",
                                    rules_.max_bytes, " bytes; send a smaller picture")};
      case Stop::long_head:
        return refuse(FetchFault::bad_response,
                      str_cat("sent more than ", kMaxHeaderBytes, " bytes of HTTP headers"));
      case Stop::coding:
        return refuse(FetchFault::bad_response, "sent an encoding that was not asked for");
      case Stop::corrupt:
        return refuse(FetchFault::bad_response, "sent compressed data that is damaged");
      case Stop::address:
        return FetchRefusal{FetchFault::blocked,
                            str_cat("the connection to host ", host(),
                                    " led to an address that was not checked; send the picture "
                                    "itself as base64")};
      case Stop::late:
        return refuse_late();
      case Stop::no_memory:
        throw_no_memory();
    }
    TESSERA_UNREACHABLE();
  }

 private:
  template <typename T>
  void set(CURLoption option, T value) {
    const CURLcode code = curl_easy_setopt(easy_.get(), option, value);
    if (code == CURLE_OUT_OF_MEMORY) {
      throw_no_memory();
    }
    TESSERA_CHECK(code == CURLE_OK);
  }

  void set_target() {
    set(CURLOPT_URL, transfer_.url.text.c_str());
    set(CURLOPT_HTTPGET, 1L);
    set(CURLOPT_USERAGENT, rules_.user_agent.c_str());
    set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
    set(CURLOPT_ACCEPT_ENCODING, "gzip, deflate");
    set(CURLOPT_HTTP_CONTENT_DECODING, 0L);
    if (!rules_.ca_file.empty()) {
      set(CURLOPT_CAINFO, rules_.ca_file.c_str());
    }
    if (transfer_.url.address.has_value()) {
      return;  // libcurl looks nothing up
    }
    pinned_.reset(curl_slist_append(nullptr, pinned_entry(transfer_).c_str()));
    if (pinned_ == nullptr) {
      throw_no_memory();
    }
    set(CURLOPT_RESOLVE, pinned_.get());
  }

  void set_limits() {
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_PROXY, "");
    set(CURLOPT_NOPROXY, "*");
    set(CURLOPT_NETRC, long{CURL_NETRC_IGNORED});
    set(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    set(CURLOPT_SSL_VERIFYPEER, 1L);
    set(CURLOPT_SSL_VERIFYHOST, 2L);
    set(CURLOPT_SSLVERSION, long{CURL_SSLVERSION_TLSv1_2});
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT_MS,
        static_cast<long>(std::clamp<int64_t>(rules_.connect_timeout.count(), 1, 1'000'000'000)));
  }

  void set_callbacks() {
    set(CURLOPT_HEADERFUNCTION, &Exchange::on_header);
    set(CURLOPT_HEADERDATA, this);
    set(CURLOPT_WRITEFUNCTION, &Exchange::on_body);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &Exchange::on_progress);
    set(CURLOPT_XFERINFODATA, this);
    set(CURLOPT_OPENSOCKETFUNCTION, &Exchange::on_socket);
    set(CURLOPT_OPENSOCKETDATA, this);
  }

  CURLcode perform() {
    const MultiHandle multi(curl_multi_init());
    if (multi == nullptr || curl_multi_add_handle(multi.get(), easy_.get()) != CURLM_OK) {
      throw_no_memory();
    }
    const std::optional<CURLcode> code = drive(multi.get());
    curl_multi_remove_handle(multi.get(), easy_.get());
    if (!code.has_value()) {
      throw_no_memory();
    }
    return *code;
  }

  // Nothing if there is no memory.
  std::optional<CURLcode> drive(CURLM* multi) {
    for (int running = 1;;) {
      if (curl_multi_perform(multi, &running) != CURLM_OK) {
        return std::nullopt;
      }
      if (running == 0) {
        break;
      }
      if (transfer_.deadline.is_over()) {
        stop_ = Stop::late;
        return CURLE_ABORTED_BY_CALLBACK;
      }
      const auto now = Deadline::Clock::now();
      const auto left = std::chrono::ceil<milliseconds>(
          std::min(transfer_.deadline.at, now + kCancelCheck) - now);
      if (curl_multi_poll(multi, nullptr, 0, std::max(0, static_cast<int>(left.count())),
                          nullptr) != CURLM_OK) {
        return std::nullopt;
      }
    }
    int messages = 0;
    const CURLMsg* message = curl_multi_info_read(multi, &messages);
    return message == nullptr ? std::nullopt : std::optional(message->data.result);
  }

  std::string host() const { return host_text(transfer_.url); }

  long status() const {
    long status = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    return status;
  }

  // The callbacks run inside of libcurl and may not throw. A size other than that given, or a
  // result other than 0 of on_progress(), ends the request.

  static size_t on_header(char* data, size_t /*one*/, size_t size, void* self) noexcept {
    Exchange& exchange = *static_cast<Exchange*>(self);
    try {
      exchange.take_header({data, size});
    } catch (const std::bad_alloc&) {
      exchange.stop_ = Stop::no_memory;
    }
    return exchange.stop_ == Stop::none ? size : 0;
  }

  static size_t on_body(char* data, size_t /*one*/, size_t size, void* self) noexcept {
    Exchange& exchange = *static_cast<Exchange*>(self);
    try {
      exchange.take_body({data, size});
    } catch (const std::bad_alloc&) {
      exchange.stop_ = Stop::no_memory;
    }
    return exchange.stop_ == Stop::none ? size : 0;
  }

  // `received` counts the body before decompression.
  static int on_progress(void* self, curl_off_t /*total*/, curl_off_t received,
                         curl_off_t /*total*/, curl_off_t /*sent*/) noexcept {
    Exchange& exchange = *static_cast<Exchange*>(self);
    if (exchange.stop_ == Stop::none && received > exchange.rules_.max_bytes) {
      exchange.stop_ = Stop::too_large;
    }
    return exchange.stop_ == Stop::none ? 0 : 1;
  }

  // The second look at the address, where nothing comes between it and the connection.
  static curl_socket_t on_socket(void* self, curlsocktype /*purpose*/,
                                 curl_sockaddr* address) noexcept {
    Exchange& exchange = *static_cast<Exchange*>(self);
    const std::optional<Endpoint> endpoint = endpoint_of(&address->addr, address->addrlen);
    if (!endpoint.has_value() || endpoint->port != exchange.transfer_.url.port ||
        std::ranges::count(exchange.transfer_.addresses, endpoint->address) == 0) {
      exchange.stop_ = Stop::address;
      return CURL_SOCKET_BAD;
    }
    return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  }

  // One line of a head, or of the trailer of a chunked body.
  void take_header(std::string_view line) {
    header_bytes_ += static_cast<int64_t>(line.size());
    if (header_bytes_ > kMaxHeaderBytes) {
      stop_ = Stop::long_head;
      return;
    }
    if (body_.has_value()) {
      return;  // a trailer
    }
    if (line.find_first_not_of("\r\n") == std::string_view::npos) {
      take_end_of_head();
    } else {
      head_.add(line);
    }
  }

  void take_end_of_head() {
    const long code = status();
    if (code < 200) {  // the head of the answer is still to come
      head_ = {};
      return;
    }
    if (code == 301 || code == 302 || code == 303 || code == 307 || code == 308) {
      stop_ = Stop::redirect;
    } else if (code != 200 && code != 203) {
      stop_ = Stop::status;
    } else if (head_.content_length > rules_.max_bytes) {
      stop_ = Stop::too_large;
    } else if (!head_.coding.has_value()) {
      stop_ = Stop::coding;
    } else {
      body_.emplace(*head_.coding, rules_.max_bytes);
      body_->expect(head_.content_length);
    }
  }

  void take_body(std::string_view data) {
    if (!body_.has_value()) {
      stop_ = Stop::status;  // of an answer that has no body
      return;
    }
    switch (body_->push(data)) {
      case ContentDecoder::Status::ok:
        return;
      case ContentDecoder::Status::corrupt:
        stop_ = Stop::corrupt;
        return;
      case ContentDecoder::Status::too_large:
        stop_ = Stop::too_large;
        return;
    }
  }

  TransferResult finish() {
    if (!body_.has_value()) {
      return refuse_status();
    }
    if (!body_->is_whole()) {
      return refuse(FetchFault::bad_response, "sent compressed data that is cut short");
    }
    std::vector<std::byte> bytes = body_->take();
    if (bytes.empty()) {
      return refuse(FetchFault::bad_response, "sent no bytes");
    }
    return bytes;
  }

  FetchRefusal refuse(FetchFault fault, std::string_view what) const {
    return {fault, str_cat("host ", host(), " ", what,
                           "; try again later, or send the picture itself as base64")};
  }

  FetchRefusal refuse_status() const {
    const long code = status();
    const std::string what = str_cat("answers with HTTP status ", code);
    const bool has_no_time = code == 408 || code == 425 || code == 429;
    if (code >= 400 && code < 500 && !has_no_time) {
      return {FetchFault::denied, str_cat("host ", host(), " ", what,
                                          "; give the URL of a picture that anybody may read")};
    }
    return refuse(code >= 400 ? FetchFault::far_error : FetchFault::bad_response, what);
  }

  FetchRefusal refuse_late() const {
    const std::atomic<bool>* cancel = transfer_.deadline.cancel;
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
      return {FetchFault::cancelled, "nobody waits for the picture any more"};
    }
    return refuse(FetchFault::timed_out, "has not sent the whole answer in time");
  }

  FetchRefusal refuse(CURLcode code) const {
    switch (code) {
      case CURLE_OUT_OF_MEMORY:  // libcurl's word also for a line above its own limit
        return refuse(FetchFault::bad_response, "sent a header line that takes too much memory");
      case CURLE_COULDNT_CONNECT:
        return refuse(FetchFault::unreachable, "accepts no connection");
      case CURLE_OPERATION_TIMEDOUT:
        return refuse(FetchFault::timed_out, "accepts no connection in time");
      case CURLE_PEER_FAILED_VERIFICATION:
        return refuse(FetchFault::unreachable, "has no certificate that is trusted for it");
      case CURLE_SSL_CONNECT_ERROR:
      case CURLE_SSL_CIPHER:
        return refuse(FetchFault::unreachable, "agrees to no TLS connection");
      case CURLE_SSL_CACERT_BADFILE:
        return refuse(FetchFault::unreachable,
                      "cannot be checked, for the certificates of this machine cannot be read");
      case CURLE_PARTIAL_FILE:
        return refuse(FetchFault::bad_response, "sent less than it announced");
      default:
        return refuse(FetchFault::bad_response,
                      str_cat("sent no valid HTTP answer (", curl_easy_strerror(code), ")"));
    }
  }

  const Transfer& transfer_;
  const FetchRules& rules_;
  TextList pinned_;  // outlives easy_, which refers to it
  EasyHandle easy_;
  Stop stop_ = Stop::none;
  int64_t header_bytes_ = 0;
  HttpHead head_;
  std::optional<ContentDecoder> body_;  // of a head that promises one
};

}  // namespace

TransferResult run_transfer(const Transfer& transfer) {
  TESSERA_CHECK(!transfer.addresses.empty());
  start_curl();
  return Exchange(transfer).run();
}

}  // namespace tessera::intake
