// Segments are read, checked and decrypted by several threads, each into its own place.
#include "predictor/sealing/opening.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "core/parallel.h"
#include "core/storage.h"
#include "predictor/json.h"
#include "predictor/sealing/crypto.h"
#include "predictor/sealing/form.h"

namespace paddock::sealing {
namespace {

using predictor::FileError;
using predictor::OpenFile;
using predictor::refuse;

constexpr const char* kAgain = "; copy the whole folder again from where you trust it";
constexpr int64_t kWork = 1 << 20;  // bytes that are worth a thread's turn

SealForm read_form(const std::string& path, const std::string& text) {
  try {
    const predictor::JsonDocument document(text);
    return form_of(document.root());
  } catch (const std::invalid_argument& e) {
    refuse(path, ": cannot be read (", e.what(), ")", kAgain);
  } catch (const FileError& e) {
    refuse(path, ": ", e.what());
  }
}

void check_signature(const std::string& folder, const std::string& text, const SealForm& form, const OpeningKeys& keys,
                     const predictor::Limits& limits) {
  const std::string wanted = keys.verify ? public_key_of(keys.verify) : std::string();
  if (form.signer.empty()) {
    if (keys.verify) refuse(folder, ": is not signed, and only what the owner of the key `verify` signed is opened");
    return;
  }
  if (keys.verify && wanted != form.signer)
    refuse(folder, ": is signed by another key, ", hexadecimal(form.signer).substr(0, 16), "..., not by `verify`'s");
  bool fits = false;
  try {
    const std::string path = folder + "/" + kSignatureName;
    fits =
        is_signed(std::string(kMagic) + text, predictor::read_file(path, "text_bytes", limits.text_bytes), form.signer);
  } catch (const FileError&) {
  }
  if (!fits)
    refuse(folder, ": ", kSealName, " and its signature ", kSignatureName, " do not fit, so it was changed", kAgain);
}

// One file, read from its stored form.
class SealedReader {
 public:
  SealedReader(const std::string& folder, const SealForm& form, size_t number, const std::string& key)
      : form_(form),
        number_(number),
        key_(key),
        extra_(key.empty() ? 0 : kTagBytes),
        path_(folder + "/" + form.files[number].name + (key.empty() ? "" : kEnding)) {}

  std::shared_ptr<Wiped> read(const predictor::Limits& limits) const {
    const SealedFile& file = form_.files[number_];
    predictor::check_limit("weight_bytes", limits.weight_bytes, file.size, path_ + ": it has too many bytes");
    const int64_t count = file.segments(form_.segment);
    const OpenFile source(path_, "weight_bytes", INT64_MAX);
    if (source.size() != file.size + count * extra_) refuse(path_, ": is cut, or longer than its seal says", kAgain);
    auto memory = std::make_shared<Wiped>(static_cast<size_t>(file.size));
    const int64_t grain = std::max<int64_t>(1, kWork / form_.segment);
    parallel_for(count, grain, [&](int64_t begin, int64_t end) { take(source, begin, end, memory->data()); });
    return memory;
  }

 private:
  void take(const OpenFile& source, int64_t begin, int64_t end, char* memory) const {
    const SealedFile& file = form_.files[number_];
    const Scratch room(static_cast<size_t>(key_.empty() ? 0 : std::min(form_.segment, file.size) + extra_));
    std::unique_ptr<Opener> opener = key_.empty() ? nullptr : std::make_unique<Opener>(key_);
    for (int64_t k = begin; k < end; ++k) {
      const int64_t at = k * form_.segment, size = std::min(form_.segment, file.size - at);
      char* part = opener ? room.as<char>() : memory + at;
      const std::string_view stored{part, static_cast<size_t>(size + extra_)};
      const bool whole =
          source.read_at(k * (form_.segment + extra_), part, stored.size()) &&
          (file.digests.empty() || is_digest(stored, file.digests[static_cast<size_t>(k)])) &&
          (!opener || opener->open(nonce(number_, k), told(number_, file, k, form_.segment), stored, memory + at));
      if (!whole) refuse(path_, ": was changed (segment ", k, ")", kAgain);
    }
  }

  static bool is_digest(std::string_view bytes, const std::string& wanted) {
    const Digest found = sha256(bytes);
    return std::memcmp(found.data(), wanted.data(), found.size()) == 0;
  }

  const SealForm& form_;
  const size_t number_;
  const std::string& key_;  // "" where it is not encrypted
  const int64_t extra_;
  const std::string path_;
};

// What opens segments.
SecretText segment_key(const std::string& folder, const SealForm& form, const OpeningKeys& keys) {
  if (!keys.decrypt)
    refuse(folder, ": is encrypted; name its key: paddock_options_set_text(options, \"decrypt\", SOURCE)");
  const SecretText secret = secret_of(keys.decrypt);
  const SecretText derived = hkdf_sha256(secret.text(), form.salt, kMagic, kSecretBytes + kCheckBytes);
  if (derived.text().substr(kSecretBytes) != form.check) refuse(folder, ": was encrypted with another key");
  for (const SealedFile& file : form.files)
    if (access((folder + "/" + file.name).c_str(), F_OK) == 0)
      refuse(folder, ": has ", file.name, " beside its encrypted form, which no whole export has", kAgain);
  return SecretText(derived.text().substr(0, kSecretBytes));
}

}  // namespace

bool is_sealed(const std::string& folder) { return access((folder + "/" + kSealName).c_str(), F_OK) == 0; }

OpenedSeal open_sealed(const std::string& folder, const OpeningKeys& keys, const predictor::Limits& limits) {
  const std::string path = folder + "/" + kSealName;
  const std::string text = predictor::read_file(path, "text_bytes", limits.text_bytes);
  const SealForm form = read_form(path, text);
  expect_crypto();
  check_signature(folder, text, form, keys, limits);
  const SecretText key = form.salt.empty() ? SecretText() : segment_key(folder, form, keys);
  OpenedSeal opened;
  opened.signer = form.signer;
  for (size_t number = 0; number < form.files.size(); ++number) {
    const SealedFile& file = form.files[number];
    opened.sizes.emplace(file.name, file.size);
    opened.files.emplace(file.name, SealedReader(folder, form, number, key.text()).read(limits));
  }
  return opened;
}

}  // namespace paddock::sealing
