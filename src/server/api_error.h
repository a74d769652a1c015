// What a client is told when its request fails: HTTP status and error body, as the OpenAI API has
// them. The table of all of them: docs/api.md.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::server {

enum class ApiFault {
  invalid_request,   // 400: body, field, prompt or picture
  unsupported,       // 400: valid, but nothing that this build or model can do
  far_side,          // 400: a host that the request names failed
  invalid_key,       // 401
  unknown_path,      // 404
  unknown_model,     // 404
  wrong_method,      // 405
  timed_out,         // 408: the request did not arrive in time
  body_too_large,    // 413
  wrong_media_type,  // 415
  queue_full,        // 429
  internal,          // 500
  draining,          // 503
  context_exceeded,  // 400: the prompt is longer than the context
};
constexpr int kApiFaults = 14;

struct ApiFaultForm {
  int status = 0;
  std::string_view type;
  std::string_view code;  // empty: null
};
const ApiFaultForm& form_of(ApiFault fault);

class ApiError : public std::exception {
 public:
  // `param`: the field of the body; empty: none.
  ApiError(ApiFault fault, std::string message, std::string param = {});

  const char* what() const noexcept override { return message_.c_str(); }
  ApiFault fault() const { return fault_; }
  int status() const { return form_of(fault_).status; }
  const std::string& message() const { return message_; }
  const std::string& param() const { return param_; }

  std::optional<int64_t> retry_after_s;  // header Retry-After

 private:
  ApiFault fault_;
  std::string message_;
  std::string param_;
};

// Throws ApiError{invalid_request} "PARAM: WHAT".
[[noreturn]] void refuse(const std::string& param, std::string_view what);

// {"error":{"message":...,"type":...,"param":...,"code":...}}; an empty param or code is null.
std::string error_body(std::string_view message, std::string_view type, std::string_view param,
                       std::string_view code);
std::string error_body(const ApiError& error);

// Where a request was when it failed.
struct FailurePlace {
  std::string_view request_id = {};
  std::string_view stage = {};  // "prompt", "generation", ...: named in answers of status 500
  std::string_view prompt_field = "messages";  // what is too long for the context
  bool is_draining = false;
  int64_t retry_after_s = 1;  // for queue_full and draining
};
// The answer to anything that was thrown while a request was served: Error, ApiError and
// others. Faults of the machine say where, not what: that belongs into the log.
ApiError api_error_of(const std::exception& error, const FailurePlace& place);

// An Error{bad_request} about a body of which messages say "request.messages[0].role: ...": the
// path of the field becomes `param`, without "request.".
ApiError error_of_body(std::string_view message);

}  // namespace tessera::server
