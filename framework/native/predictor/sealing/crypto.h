// SHA-256, HKDF, Ed25519 and AES-256-GCM by OpenSSL's libcrypto 3, which is loaded when the first sealed export is
// opened: neither the build nor a program that opens none needs it.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "predictor/sealing/wiped.h"

struct evp_cipher_ctx_st;

namespace paddock::sealing {

using Digest = std::array<char, 32>;

// Throws Error of kind kNotSupported where libcrypto is not on this machine.
void expect_crypto();

Digest sha256(std::string_view bytes);
// RFC 5869; at most 255 * 32 bytes.
SecretText hkdf_sha256(std::string_view secret, std::string_view salt, std::string_view info, size_t bytes);
// RFC 8032; `key` has 32 bytes.
bool is_signed(std::string_view message, std::string_view signature, std::string_view key);

// One thread's way to open segments of AES-256-GCM (NIST SP 800-38D) with one key.
class Opener {
 public:
  explicit Opener(std::string_view key);
  // `sealed`: the bytes with their tag of 16 behind them, `place`: where the bytes go. False, and zeros there, where
  // they are not what was encrypted with this nonce of 12 bytes and these authenticated data.
  bool open(std::string_view nonce, std::string_view about, std::string_view sealed, char* place);

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  std::unique_ptr<evp_cipher_ctx_st, Free> context_;
};

}  // namespace paddock::sealing
