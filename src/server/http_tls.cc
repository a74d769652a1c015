#include "server/http_tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#include <cstring>

#include "base/error.h"
#include "base/str_cat.h"

namespace tessera::server {
namespace {

std::string tls_reason() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (ERR_SYSTEM_ERROR(code)) {
    return std::string(std::strerror(static_cast<int>(ERR_GET_REASON(code))));
  }
  const char* const text = ERR_reason_error_string(code);
  return text != nullptr ? text : "unknown reason";
}

[[noreturn]] void fail(const std::string& path, std::string_view what) {
  throw Error(ErrorCode::bad_file, str_cat(path, ": ", what, ": ", tls_reason()));
}

// The server speaks HTTP/1.1 only; a client that offers nothing it knows goes on without a choice.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* chosen_size,
                    const unsigned char* offered, unsigned int offered_size, void*) {
  constexpr std::array<unsigned char, 9> kHttp11 = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  unsigned char* out = nullptr;
  if (SSL_select_next_proto(&out, chosen_size, kHttp11.data(), kHttp11.size(), offered,
                            offered_size) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *chosen = out;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

TlsIdentity::TlsIdentity(const std::string& certificate_path, const std::string& key_path)
    : context_(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free) {
  ERR_clear_error();
  SSL_CTX* const context = context_.get();
  if (context == nullptr) {
    throw Error(ErrorCode::out_of_memory, "no memory for TLS");
  }
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_alpn_select_cb(context, &choose_protocol, nullptr);
  if (SSL_CTX_use_certificate_chain_file(context, certificate_path.c_str()) != 1) {
    fail(certificate_path, "no certificate can be read");
  }
  if (SSL_CTX_use_PrivateKey_file(context, key_path.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context) != 1) {
    fail(key_path, str_cat("no key for the certificate ", certificate_path, " can be read"));
  }
}

}  // namespace tessera::server
