// Certificate and key of a server that speaks TLS.
#pragma once

#include <memory>
#include <string>

struct ssl_ctx_st;

namespace tessera::server {

class TlsIdentity {
 public:
  // PEM files: a chain that begins with the server's certificate, and its key. Throws
  // Error{bad_file} if they cannot be read or do not fit.
  TlsIdentity(const std::string& certificate_path, const std::string& key_path);

  ssl_ctx_st* context() const { return context_.get(); }

 private:
  std::shared_ptr<ssl_ctx_st> context_;
};

}  // namespace tessera::server
