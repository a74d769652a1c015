// Fetches by https, from a server whose certificate is made here.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <memory>

#include "base/str_cat.h"
#include "intake/fetch.h"
#include "tests/support/fetched.h"
#include "tests/support/scripted_http_server.h"
#include "tests/support/temp_folder.h"

namespace tessera::intake {
namespace {

using test::fetched;
using test::ScriptedHttpServer;
using test::ScriptedResolver;
using test::verdict;
using Connection = ScriptedHttpServer::Connection;

void add_extension(X509* certificate, int id, const char* value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, id, value);
  ASSERT_NE(extension, nullptr);
  EXPECT_EQ(X509_add_ext(certificate, extension, -1), 1);
  X509_EXTENSION_free(extension);
}

// A key, and a certificate for pictures.test that signs itself.
class Identity {
 public:
  explicit Identity(long valid_seconds)
      : key_(EVP_EC_gen("P-256"), &EVP_PKEY_free), certificate_(X509_new(), &X509_free) {
    X509* const x509 = certificate_.get();
    X509_set_version(x509, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
    X509_gmtime_adj(X509_getm_notBefore(x509), -24 * 3600);
    X509_gmtime_adj(X509_getm_notAfter(x509), valid_seconds);
    X509_set_pubkey(x509, key_.get());
    X509_NAME* const name = X509_get_subject_name(x509);
    const auto* text = reinterpret_cast<const unsigned char*>("tessera test");
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0);
    X509_set_issuer_name(x509, name);
    add_extension(x509, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(x509, NID_subject_alt_name, "DNS:pictures.test");
    EXPECT_GT(X509_sign(x509, key_.get(), EVP_sha256()), 0);
  }

  void use_in(SSL_CTX* context) const {
    EXPECT_EQ(SSL_CTX_use_certificate(context, certificate_.get()), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey(context, key_.get()), 1);
  }

  std::string pem() const {
    const std::unique_ptr<BIO, decltype(&BIO_free)> memory(BIO_new(BIO_s_mem()), &BIO_free);
    EXPECT_EQ(PEM_write_bio_X509(memory.get(), certificate_.get()), 1);
    char* text = nullptr;
    const long size = BIO_get_mem_data(memory.get(), &text);
    return std::string(text, static_cast<size_t>(size));
  }

 private:
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_;
  std::unique_ptr<X509, decltype(&X509_free)> certificate_;
};

class FetchTls : public testing::Test {
 protected:
  explicit FetchTls(long valid_seconds = 24 * 3600) : identity_(valid_seconds) {
    identity_.use_in(context_.get());
    rules_.ca_file = folder_.write("ca.pem", identity_.pem());
  }

  std::string fetched_from(std::string_view host, std::string_view path) {
    return fetched(str_cat("https://", host, ":", server_.port(), path), rules_, resolver_);
  }

  void answer(Connection& client) {
    if (client.path() == "/to-http") {
      client.answer("302 Found", str_cat("Location: ", plain_.url("/"), "\r\n"), "");
    } else if (client.path() == "/to-https") {
      client.answer("302 Found", "Location: /picture\r\n", "");
    } else {
      client.answer("200 OK", "", "picture");
    }
  }

  const Identity identity_;
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{SSL_CTX_new(TLS_server_method()),
                                                                   &SSL_CTX_free};
  const test::TempFolder folder_;
  FetchRules rules_ = test::local_rules();
  ScriptedResolver resolver_{{{"pictures.test", {{"127.0.0.1"}}}, {"other.test", {{"127.0.0.1"}}}}};
  ScriptedHttpServer plain_{[](Connection& client) { client.answer("200 OK", "", "plain"); }};
  ScriptedHttpServer server_{[this](Connection& client) { answer(client); }, context_.get()};
};

class FetchTlsExpired : public FetchTls {
 protected:
  FetchTlsExpired() : FetchTls(-3600) {}
};

TEST_F(FetchTls, APictureArrivesFromATrustedHost) {
  EXPECT_EQ(fetched_from("pictures.test", "/"), "ok: picture");
  EXPECT_EQ(fetched_from("pictures.test", "/to-https"), "ok: picture");
}

TEST_F(FetchTls, CertificatesForOtherNamesAreNotTrusted) {
  for (const std::string_view host : {"other.test", "127.0.0.1"}) {
    EXPECT_EQ(fetched_from(host, "/"),
              str_cat("unreachable: host '", host, ":", server_.port(),
                      "' has no certificate that is trusted for it; try again later, or send the "
                      "picture itself as base64"));
  }
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(FetchTls, UnknownIssuersAreNotTrusted) {
  rules_.ca_file.clear();
  EXPECT_EQ(verdict(fetched_from("pictures.test", "/")), "unreachable");
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(FetchTlsExpired, ExpiredCertificatesAreNotTrusted) {
  EXPECT_EQ(verdict(fetched_from("pictures.test", "/")), "unreachable");
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(FetchTls, AMissingFileOfCertificatesTrustsNobody) {
  rules_.ca_file = folder_ / "missing.pem";
  const std::string refusal = fetched_from("pictures.test", "/");
  EXPECT_EQ(verdict(refusal), "unreachable");
  EXPECT_NE(refusal.find("certificates of this machine cannot be read"), std::string::npos);
}

TEST_F(FetchTls, OldVersionsOfTlsAreNotSpoken) {
  SSL_CTX_set_min_proto_version(context_.get(), TLS1_1_VERSION);
  SSL_CTX_set_max_proto_version(context_.get(), TLS1_1_VERSION);
  EXPECT_EQ(verdict(fetched_from("pictures.test", "/")), "unreachable");
}

TEST_F(FetchTls, HttpsDoesNotLeadToHttp) {
  EXPECT_EQ(fetched_from("pictures.test", "/to-http"),
            str_cat("blocked: after 1 redirect: host 'pictures.test:", server_.port(),
                    "' redirects from https to http, which is not followed; give the URL of the "
                    "picture"));
  EXPECT_EQ(plain_.connections(), 0);
}

}  // namespace
}  // namespace tessera::intake
