// Reading keys.
#include "predictor/sealing/keys.h"

#include <cstdlib>
#include <exception>
#include <memory>
#include <string_view>

#include "predictor/base64.h"
#include "predictor/outside.h"
#include "predictor/sealing/command.h"
#include "predictor/sealing/form.h"

namespace paddock::sealing {
namespace {

using predictor::from_base64;
using predictor::refuse;

constexpr size_t kMostBytes = 1 << 16;  // of a key's file
constexpr int kCommandSeconds = 60;
constexpr const char* kHow = "openssl genpkey -algorithm ed25519 -out owner.pem";
constexpr const char* kPublic = "openssl pkey -in owner.pem -pubout -out owner.pub.pem writes the public one";

std::string_view stripped(std::string_view text) {
  constexpr const char* space = " \t\n\r\v\f";
  const size_t first = text.find_first_not_of(space);
  return first == text.npos ? std::string_view() : text.substr(first, text.find_last_not_of(space) - first + 1);
}

GivenKey of_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (!value || !*value) refuse("key: the environment variable ", name, " is not set, or empty");
  return {"key of the variable " + name, SecretText(value)};
}

GivenKey of_command(const std::string& text) {
  const auto words = words_of(text);
  if (words.empty() || words[0].empty()) refuse("key: `command:` names no program");
  const SecretText printed = output_of(words, kMostBytes, kCommandSeconds);
  return {"key of a command", SecretText(std::string(stripped(printed.text())))};
}

GivenKey of_file(const std::string& path) {
  try {
    return {path, SecretText(predictor::read_key_file(path, static_cast<int64_t>(kMostBytes)))};
  } catch (const predictor::FileError& e) {
    refuse("the key cannot be read: ", e.what());
  }
}

GivenKey of_function(KeyFunction function, void* context) {
  std::string key(kMostBytes, '\0');
  size_t count = 0;
  const auto failed = [&](const auto&... why) {
    wipe(key.data(), key.size());
    refuse("key: the function failed", why...);
  };
  try {
    if (const int status = function(context, key.data(), key.size(), &count)) failed(" with status ", status);
  } catch (const predictor::FileError&) {
    throw;
  } catch (const std::exception& e) {
    failed(": ", e.what());
  } catch (...) {
    failed(": it threw what is no std::exception");
  }
  if (count > key.size()) failed(": it says that it wrote ", count, " bytes; there is room for ", key.size());
  GivenKey given{"key of a function", SecretText(key.substr(0, count))};
  wipe(key.data(), key.size());
  return given;
}

}  // namespace

KeySource key_of_text(const std::string& source) {
  if (source.starts_with("env:")) return [name = source.substr(4)] { return of_variable(name); };
  if (source.starts_with("command:")) return [text = source.substr(8)] { return of_command(text); };
  return [source] { return of_file(source); };
}

KeySource key_of_bytes(const void* bytes, size_t count) {
  auto held = std::make_shared<const SecretText>(std::string(static_cast<const char*>(bytes), count));
  return [held] { return GivenKey{"key", SecretText(held->text())}; };
}

KeySource key_of_function(KeyFunction function, void* context) {
  return [function, context] { return of_function(function, context); };
}

SecretText secret_of(const KeySource& source) {
  GivenKey given = source();
  if (given.bytes.text().size() == kSecretBytes) return std::move(given.bytes);
  const std::string_view text = stripped(given.bytes.text());
  std::string found;
  found.reserve(text.size());
  const bool read = (text.size() == 2 * kSecretBytes && from_hexadecimal(text, true, found)) ||
                    (from_base64(text, found) && found.size() == kSecretBytes);
  SecretText secret(std::move(found));
  if (!read)
    refuse(given.told, ": holds ", given.bytes.text().size(),
           " bytes that are no key; needed are 32 bytes, or them in hexadecimal or Base64: openssl rand -hex 32 > "
           "secret.key");
  return secret;
}

std::string public_key_of(const KeySource& source) {
  constexpr std::string_view begin = "-----BEGIN PUBLIC KEY-----", end = "-----END PUBLIC KEY-----";
  constexpr std::string_view ed25519{"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00", 12};  // RFC 8410
  const GivenKey given = source();
  const std::string_view text = given.bytes.text();
  if (text.find("PRIVATE KEY") != text.npos)
    refuse(given.told, ": is a private key, which only its owner may have; ", kPublic);
  const size_t from = text.find(begin), to = text.find(end);
  std::string der, body;
  if (from != text.npos && to != text.npos && from < to)
    for (const char c : text.substr(from + begin.size(), to - from - begin.size()))
      if (c != '\n' && c != '\r' && c != ' ' && c != '\t') body.push_back(c);
  if (body.empty() || !from_base64(body, der)) refuse(given.told, ": is no public key in PEM; ", kPublic);
  if (der.size() != ed25519.size() + 32 || !der.starts_with(ed25519))
    refuse(given.told, ": is a key of another kind; needed is Ed25519: ", kHow);
  return der.substr(ed25519.size());
}

}  // namespace paddock::sealing
