// Errors as responses.
#pragma once

#include <string>
#include <string_view>

#include "server/api_error.h"
#include "server/http_message.h"

namespace tessera::server {

HttpResponse error_response(const ApiError& error);

// HttpOptions::error_body: what the transport refuses, in the same form.
std::string transport_error_body(int status, std::string_view message);

}  // namespace tessera::server
