// Opening a sealed export: all of it is checked before any of it is used, and it is decrypted in memory alone.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "predictor/outside.h"
#include "predictor/sealing/keys.h"
#include "predictor/sealing/wiped.h"

namespace paddock::sealing {

// The files of a sealed export.
struct OpenedSeal {
  std::map<std::string, std::shared_ptr<Wiped>, std::less<>> files;
  std::map<std::string, int64_t, std::less<>> sizes;
  std::string signer;  // the public key that signed them; "" where nobody did
};

bool is_sealed(const std::string& folder);

// Throws FileError where a key is missing or another one, or something was changed, cut, moved or swapped, and Error of
// kind kNotSupported where libcrypto is missing.
OpenedSeal open_sealed(const std::string& folder, const OpeningKeys& keys, const predictor::Limits& limits);

}  // namespace paddock::sealing
