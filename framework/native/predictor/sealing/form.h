// What seal.json says; framework/sealing/form.py describes the form.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "predictor/json.h"

namespace paddock::sealing {

inline constexpr const char *kSealName = "seal.json", *kSignatureName = "seal.sig", *kEnding = ".sealed";
inline constexpr std::string_view kMagic{"paddock seal 1\0", 15};
inline constexpr int64_t kTagBytes = 16;
inline constexpr size_t kSecretBytes = 32, kCheckBytes = 8;

struct SealedFile {
  std::string name;
  int64_t size;                      // of the file that was sealed
  std::vector<std::string> digests;  // of a signed export: SHA-256 of each segment as it is stored

  // How many there are; one, of no bytes, of an empty file.
  int64_t segments(int64_t segment) const { return size ? (size - 1) / segment + 1 : 1; }
};

struct SealForm {
  int64_t segment;          // bytes of a segment
  std::string salt, check;  // of an encrypted export, else ""; `check` tells a wrong key from a changed file
  std::string signer;       // the public key of who signed it; "" where nobody did
  std::vector<SealedFile> files;
};

// Checked, whatever it is. Throws FileError for what no seal says.
SealForm form_of(const predictor::Json& data);

// 12 bytes that come once under a key.
std::string nonce(size_t file, int64_t segment);
// What a segment's tag vouches for beside its bytes.
std::string told(size_t number, const SealedFile& file, int64_t segment, int64_t segment_bytes);

std::string hexadecimal(std::string_view bytes);
// Of an even number of digits; `upper`: whether capitals are digits too. False where there is another character.
bool from_hexadecimal(std::string_view text, bool upper, std::string& bytes);

}  // namespace paddock::sealing
