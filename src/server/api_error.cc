#include "server/api_error.h"

#include <array>

#include "base/error.h"
#include "base/str_cat.h"
#include "io/json.h"
#include "server/api_wire.h"

namespace tessera::server {
namespace {

using io::Json;

constexpr std::string_view kInvalid = "invalid_request_error";
// In the order of the enumerators.
constexpr std::array<ApiFaultForm, kApiFaults> kForms = {{
    {400, kInvalid, ""},
    {400, kInvalid, "unsupported"},
    {400, kInvalid, "image_unavailable"},
    {401, kInvalid, "invalid_api_key"},
    {404, kInvalid, "unknown_url"},
    {404, kInvalid, "model_not_found"},
    {405, kInvalid, "method_not_allowed"},
    {408, kInvalid, "request_timeout"},
    {413, kInvalid, "request_too_large"},
    {415, kInvalid, "unsupported_media_type"},
    {429, "rate_limit_error", "rate_limit_exceeded"},
    {500, "server_error", "internal_error"},
    {503, "server_error", "service_unavailable"},
    {400, kInvalid, "context_length_exceeded"},
}};

Json text_or_null(std::string_view text) {
  return text.empty() ? Json() : Json::string(std::string(text));
}

ApiError internal_error(const FailurePlace& place) {
  return {ApiFault::internal, str_cat("the server failed at the stage '", place.stage,
                                      "'; its log tells more under request ", place.request_id)};
}

ApiError of_engine(const Error& error, const FailurePlace& place) {
  switch (error.code()) {
    case ErrorCode::bad_request:
      return error_of_body(error.what());
    case ErrorCode::context_exceeded:
      return {ApiFault::context_exceeded, error.what(), std::string(place.prompt_field)};
    case ErrorCode::far_side:
      return {ApiFault::far_side, error.what()};
    case ErrorCode::queue_full: {
      ApiError answer(place.is_draining ? ApiFault::draining : ApiFault::queue_full, error.what());
      answer.retry_after_s = place.retry_after_s;
      return answer;
    }
    case ErrorCode::unsupported:
      return {ApiFault::unsupported, error.what()};
    case ErrorCode::cancelled:
      return {ApiFault::draining, "the request was cancelled by the server; send it again"};
    case ErrorCode::bad_file:
    case ErrorCode::io:
    case ErrorCode::out_of_memory:
      break;
  }
  return internal_error(place);
}

bool is_path(std::string_view text) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.[]";
  return text.find_first_not_of(kLetters) == std::string_view::npos;
}

// "messages[0].role" of "messages[0].role: unknown role"; "messages" of "'messages' is missing".
std::string_view path_of(std::string_view message) {
  const bool is_name = message.starts_with('\'');
  const size_t begin = is_name ? 1 : 0;
  const size_t end = message.find(is_name ? "' is " : ": ", begin);
  if (end == std::string_view::npos) {
    return {};
  }
  const std::string_view path = message.substr(begin, end - begin);
  return is_path(path) ? path : std::string_view();
}

}  // namespace

const ApiFaultForm& form_of(ApiFault fault) { return kForms[static_cast<size_t>(fault)]; }

ApiError::ApiError(ApiFault fault, std::string message, std::string param)
    : fault_(fault), message_(std::move(message)), param_(std::move(param)) {}

void refuse(const std::string& param, std::string_view what) {
  throw ApiError(ApiFault::invalid_request, str_cat(param, ": ", what), param);
}

std::string error_body(std::string_view message, std::string_view type, std::string_view param,
                       std::string_view code) {
  Json inner = Json::object();
  inner.set("message", Json::string(std::string(message)));
  inner.set("type", Json::string(std::string(type)));
  inner.set("param", text_or_null(param));
  inner.set("code", text_or_null(code));
  return wire_text(Json::object({{"error", std::move(inner)}}));
}

std::string error_body(const ApiError& error) {
  const ApiFaultForm& form = form_of(error.fault());
  return error_body(error.message(), form.type, error.param(), form.code);
}

ApiError api_error_of(const std::exception& error, const FailurePlace& place) {
  if (const auto* known = dynamic_cast<const ApiError*>(&error)) {
    return *known;
  }
  if (const auto* known = dynamic_cast<const Error*>(&error)) {
    return of_engine(*known, place);
  }
  return internal_error(place);
}

ApiError error_of_body(std::string_view message) {
  constexpr std::string_view kBody = "request";
  std::string_view text = message;
  if (text.starts_with(kBody)) {
    const std::string_view rest = text.substr(kBody.size());
    if (rest.starts_with(".")) {
      text = rest.substr(1);
    } else if (rest.starts_with(": ")) {
      text = rest.substr(2);
    }
  }
  // Only what stands inside the body is one of its fields.
  const bool is_inside = text.size() < message.size();
  return {ApiFault::invalid_request, std::string(text),
          std::string(is_inside ? path_of(text) : std::string_view())};
}

}  // namespace tessera::server
