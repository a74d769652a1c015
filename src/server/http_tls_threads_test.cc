// The server behind TLS, with certificates that are made here.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "base/error.h"
#include "base/str_cat.h"
#include "server/http_test.h"
#include "tests/support/temp_folder.h"

namespace tessera::server {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): the test's own vocabulary

std::string text_of(BIO* memory) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(memory, &text);
  std::string out(text, static_cast<size_t>(size));
  BIO_free(memory);
  return out;
}

struct Identity {
  std::string certificate;
  std::string key;
};

Identity make_identity(const char* name) {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME* const subject = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
  X509_set_issuer_name(certificate, subject);
  EXPECT_GT(X509_sign(certificate, key, EVP_sha256()), 0);
  BIO* const certificate_text = BIO_new(BIO_s_mem());
  BIO* const key_text = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(certificate_text, certificate);
  PEM_write_bio_PrivateKey(key_text, key, nullptr, nullptr, 0, nullptr, nullptr);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return {text_of(certificate_text), text_of(key_text)};
}

class HttpTlsTest : public testing::Test {
 protected:
  void use(const Identity& identity) {
    folder_.write("certificate.pem", identity.certificate);
    folder_.write("key.pem", identity.key);
  }

  HttpOptions options(std::chrono::milliseconds header_timeout) {
    HttpOptions out = local_options();
    out.tls_certificate = folder_ / "certificate.pem";
    out.tls_key = folder_ / "key.pem";
    out.limits.header_timeout = header_timeout;
    return out;
  }

  void serve(std::chrono::milliseconds header_timeout = 10s) {
    server_ = std::make_unique<HttpServer>(options(header_timeout), [this](const auto& exchange) {
      if (exchange->request().path == "/wait") {
        exchange->on_gone([this] { gone_.set(); });
        waiting_ = exchange;
        arrived_.set();
        return;
      }
      exchange->respond({.body = str_cat(exchange->request().body.size())});
    });
  }

  const tessera::test::TempFolder folder_;
  Event gone_;
  Event arrived_;
  std::shared_ptr<Exchange> waiting_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpTlsTest, RequestsAreAnswered) {
  use(make_identity("first"));
  serve();
  Client client(server_->port(), Security::tls);
  EXPECT_EQ(client.certificate_name(), "first");
  EXPECT_EQ(client.get("/").body, "0");
  EXPECT_EQ(client.post("/", std::string(2 << 20, ' ')).body, str_cat(2 << 20));
  EXPECT_TRUE(client.send(get_text("/", "Connection: close\r\n")));
  EXPECT_EQ(client.read().body, "0");
  EXPECT_TRUE(client.is_closed());
}

TEST_F(HttpTlsTest, ClientsThatLeaveAreNoticed) {
  use(make_identity("first"));
  serve();
  for (int i = 1; i <= 20; ++i) {
    Client client(server_->port(), Security::tls);
    EXPECT_TRUE(client.send(get_text("/wait")));
    EXPECT_TRUE(arrived_.wait(i));
    if (i % 2 == 0) {
      waiting_->begin_stream({.body = "piece"});
      EXPECT_NE(client.read_some(), "");
    }
    client.close();
    EXPECT_TRUE(gone_.wait(i));
  }
  waiting_.reset();
  EXPECT_TRUE(holds_soon([this] { return server_->statistics().open_connections == 0; }));
}

TEST_F(HttpTlsTest, PlainClientsAndSilentOnesAreClosed) {
  use(make_identity("first"));
  serve(200ms);
  Client plain(server_->port());
  EXPECT_TRUE(plain.send(get_text("/")));
  EXPECT_TRUE(plain.read_some().find("HTTP") == std::string::npos);
  Client silent(server_->port());
  EXPECT_EQ(silent.read_to_end(), "");
  EXPECT_TRUE(holds_soon([this] { return server_->statistics().open_connections == 0; }));
}

TEST_F(HttpTlsTest, CertificatesAreExchanged) {
  use(make_identity("first"));
  serve();
  Client before(server_->port(), Security::tls);
  EXPECT_EQ(before.get("/").status, 200);
  const Identity second = make_identity("second");
  folder_.write("certificate.pem", second.certificate);  // not the key yet
  EXPECT_THROW(server_->reload_certificate(), Error);
  EXPECT_EQ(Client(server_->port(), Security::tls).certificate_name(), "first");
  use(second);
  server_->reload_certificate();
  EXPECT_EQ(Client(server_->port(), Security::tls).certificate_name(), "second");
  EXPECT_EQ(before.get("/").status, 200);
}

TEST_F(HttpTlsTest, FilesThatDoNotFit) {
  const auto message = [this] {
    try {
      serve();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_file);
      return std::string(error.what());
    }
    return std::string("ok");
  };
  const std::string certificate = folder_ / "certificate.pem";
  EXPECT_EQ(message(),
            str_cat(certificate, ": no certificate can be read: No such file or directory"));
  const Identity first = make_identity("first");
  use({first.certificate, make_identity("second").key});
  EXPECT_EQ(message(), str_cat(folder_ / "key.pem", ": no key for the certificate ", certificate,
                               " can be read: key values mismatch"));
  use({"no PEM", first.key});
  EXPECT_EQ(message(), str_cat(certificate, ": no certificate can be read: no start line"));
}

}  // namespace
}  // namespace tessera::server
