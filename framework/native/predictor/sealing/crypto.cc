// The few functions of libcrypto that are needed, found by their names.
#include "predictor/sealing/crypto.h"

#include <dlfcn.h>

#include "core/error.h"

struct engine_st;
struct evp_cipher_st;
struct evp_md_ctx_st;
struct evp_md_st;
struct evp_pkey_ctx_st;
struct evp_pkey_st;

namespace paddock::sealing {
namespace {

constexpr const char* kLibraries[] = {"libcrypto.so.3", "libcrypto.3.dylib"};
constexpr int kEd25519 = 1087, kSetTag = 0x11;  // EVP_PKEY_ED25519, EVP_CTRL_AEAD_SET_TAG
constexpr int kTag = 16;

struct Functions {
#define PADDOCK_CRYPTO(name, result, arguments) result(*name) arguments = nullptr;
#include "predictor/sealing/crypto_functions.inc"
#undef PADDOCK_CRYPTO
};

void* opened_library() {
  for (const char* name : kLibraries)
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  const char* why = dlerror();
  fail(ErrorKind::kNotSupported, "sealed exports need OpenSSL 3: its ", kLibraries[0], " cannot be loaded (",
       why ? why : "no reason is known", "); install it, such as with: apt install libssl3");
}

// Loaded once and never unloaded: its threads and exit handlers may be in use. A failure is tried again.
const Functions& crypto() {
  static const Functions functions = [] {
    void* library = opened_library();
    Functions found;
#define PADDOCK_CRYPTO(name, result, arguments)                              \
  found.name = reinterpret_cast<result(*) arguments>(dlsym(library, #name)); \
  if (!found.name)                                                           \
    fail(ErrorKind::kNotSupported, "sealed exports need OpenSSL 3: its ", kLibraries[0], " has no ", #name);
#include "predictor/sealing/crypto_functions.inc"
#undef PADDOCK_CRYPTO
    return found;
  }();
  return functions;
}

const unsigned char* raw(std::string_view bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }

[[noreturn]] void failed(const char* what) {
  crypto().ERR_clear_error();
  fail(ErrorKind::kInternal, "libcrypto failed to ", what);
}

Digest hmac(std::string_view key, std::string_view bytes) {
  Digest made;
  if (!crypto().HMAC(crypto().EVP_sha256(), key.data(), static_cast<int>(key.size()), raw(bytes), bytes.size(),
                     reinterpret_cast<unsigned char*>(made.data()), nullptr))
    failed("derive a key");
  return made;
}

std::string_view view(const Digest& digest) { return {digest.data(), digest.size()}; }

}  // namespace

void expect_crypto() { crypto(); }

Digest sha256(std::string_view bytes) {
  Digest made;
  if (crypto().EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(made.data()), nullptr,
                          crypto().EVP_sha256(), nullptr) != 1)
    failed("compute a digest");
  return made;
}

SecretText hkdf_sha256(std::string_view secret, std::string_view salt, std::string_view info, size_t bytes) {
  Digest root = hmac(salt, secret), block{};
  std::string made, text;
  made.reserve(bytes + block.size());
  text.reserve(block.size() + info.size() + 1);
  for (char number = 1; made.size() < bytes; ++number) {
    text.assign(made.empty() ? std::string_view() : view(block)).append(info).push_back(number);
    block = hmac(view(root), text);
    made.append(view(block));
  }
  wipe(root.data(), root.size());
  wipe(block.data(), block.size());
  wipe(text.data(), text.size());
  made.resize(bytes);
  return SecretText(std::move(made));
}

bool is_signed(std::string_view message, std::string_view signature, std::string_view key) {
  const Functions& c = crypto();
  const std::unique_ptr<evp_pkey_st, void (*)(evp_pkey_st*)> signer(
      c.EVP_PKEY_new_raw_public_key(kEd25519, nullptr, raw(key), key.size()), c.EVP_PKEY_free);
  const std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context(c.EVP_MD_CTX_new(), c.EVP_MD_CTX_free);
  if (!signer || !context || c.EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, signer.get()) != 1)
    failed("read a public key");
  const bool fits =
      c.EVP_DigestVerify(context.get(), raw(signature), signature.size(), raw(message), message.size()) == 1;
  c.ERR_clear_error();
  return fits;
}

void Opener::Free::operator()(evp_cipher_ctx_st* context) const { crypto().EVP_CIPHER_CTX_free(context); }

Opener::Opener(std::string_view key) : context_(crypto().EVP_CIPHER_CTX_new()) {
  const Functions& c = crypto();
  if (!context_ || c.EVP_DecryptInit_ex(context_.get(), c.EVP_aes_256_gcm(), nullptr, raw(key), nullptr) != 1)
    failed("take a key of AES-256-GCM");
}

bool Opener::open(std::string_view nonce, std::string_view about, std::string_view sealed, char* place) {
  const Functions& c = crypto();
  const auto bytes = static_cast<int>(sealed.size()) - kTag;
  auto* tag = const_cast<unsigned char*>(raw(sealed)) + bytes;  // is read alone
  auto* to = reinterpret_cast<unsigned char*>(place);
  auto* context = context_.get();
  int done = 0;
  const bool whole = c.EVP_DecryptInit_ex(context, nullptr, nullptr, nullptr, raw(nonce)) == 1 &&
                     c.EVP_DecryptUpdate(context, nullptr, &done, raw(about), static_cast<int>(about.size())) == 1 &&
                     (bytes == 0 || c.EVP_DecryptUpdate(context, to, &done, raw(sealed), bytes) == 1) &&
                     c.EVP_CIPHER_CTX_ctrl(context, kSetTag, kTag, tag) == 1 &&
                     c.EVP_DecryptFinal_ex(context, to + bytes, &done) == 1;
  if (!whole) {
    c.ERR_clear_error();
    wipe(place, static_cast<size_t>(bytes));
  }
  return whole;
}

}  // namespace paddock::sealing
