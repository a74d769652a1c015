#include "server/error_response.h"

#include "base/str_cat.h"
#include "io/json.h"
#include "server/api_wire.h"

namespace tessera::server {

HttpResponse error_response(const ApiError& error) {
  HttpResponse response;
  response.status = error.status();
  response.body = error_body(error);
  if (error.retry_after_s.has_value()) {
    response.headers.push_back({"Retry-After", str_cat(*error.retry_after_s)});
  }
  if (error.fault() == ApiFault::invalid_key) {
    response.headers.push_back({"WWW-Authenticate", "Bearer"});
  }
  return response;
}

std::string transport_error_body(int status, std::string_view message) {
  using io::Json;
  std::string code = str_cat("http_", status);
  for (int fault = 0; fault < kApiFaults; ++fault) {  // the code that the application has for it
    const ApiFaultForm& form = form_of(static_cast<ApiFault>(fault));
    if (form.status == status && status != 400) {
      code = form.code;
      break;
    }
  }
  Json inner = Json::object();
  inner.set("message", Json::string(std::string(message)));
  inner.set("type", Json::string(status >= 500 ? "server_error" : "invalid_request_error"));
  inner.set("param", Json());
  inner.set("code", Json::string(std::move(code)));
  return wire_text(Json::object({{"error", std::move(inner)}}));
}

}  // namespace tessera::server
