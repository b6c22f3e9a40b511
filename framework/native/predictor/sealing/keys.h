// Keys of sealed exports: where they come from. A source is a file, `env:NAME` (an environment variable),
// `command:WORDS` (what a program prints), bytes, or a function of the caller's.
#pragma once
#include <functional>
#include <string>

#include "predictor/sealing/wiped.h"

namespace paddock::sealing {

// A key as its source gives it, with what the source is called in messages, which never holds a key.
struct GivenKey {
  std::string told;
  SecretText bytes;
};

using KeySource = std::function<GivenKey()>;

KeySource key_of_text(const std::string& source);
KeySource key_of_bytes(const void* bytes, size_t count);
// Writes a key of up to `room` bytes and their count; anything but 0 is a failure.
using KeyFunction = int (*)(void* context, void* key, size_t room, size_t* count);
KeySource key_of_function(KeyFunction function, void* context);

// What an export is opened with; empty where there is none.
struct OpeningKeys {
  KeySource decrypt;
  KeySource verify;  // of a public key, PEM; with it only what its owner signed is opened
};

// The 32 bytes of a key for encryption: as they are, in hexadecimal or in Base64. Throws FileError for all else.
SecretText secret_of(const KeySource& source);
// The 32 bytes of Ed25519's public key in PEM.
std::string public_key_of(const KeySource& source);

}  // namespace paddock::sealing
