#include "server/error_response.h"

#include "base/str_cat.h"

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
  std::string code = str_cat("http_", status);
  for (int fault = 0; fault < kApiFaults; ++fault) {  // the code that the application has for it
    const ApiFaultForm& form = form_of(static_cast<ApiFault>(fault));
    if (form.status == status && status != 400) {
      code = form.code;
      break;
    }
  }
  return error_body(message, status >= 500 ? "server_error" : "invalid_request_error", "", code);
}

}  // namespace tessera::server
