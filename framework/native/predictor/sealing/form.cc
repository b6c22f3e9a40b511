// Reading seal.json.
#include "predictor/sealing/form.h"

#include <algorithm>
#include <set>

#include "predictor/outside.h"

namespace paddock::sealing {
namespace {

using predictor::Json;
using predictor::refuse;

constexpr const char *kFormat = "paddock-seal", *kCipher = "AES-256-GCM", *kKdf = "HKDF-SHA256";
constexpr int64_t kVersion = 1, kLeastSegment = 1 << 10, kMostSegment = 1 << 26, kMostBytes = int64_t{1} << 50;
constexpr uint32_t kMostFiles = 1 << 10;

bool is_text(const Json* v, std::string_view wanted) {
  return v && v->is(Json::Kind::kString) && v->string() == wanted;
}

bool is_null(const Json* v) { return !v || v->is(Json::Kind::kNull); }

int64_t number(const Json& data, const char* key, int64_t least, int64_t most) {
  const Json* v = data.find(key);
  if (!v || !v->is(Json::Kind::kInt) || v->whole < least || v->whole > most)
    refuse("'", key, "' is ",
           !v                        ? "missing"
           : v->is(Json::Kind::kInt) ? cat(v->whole)
                                     : kind_name(v->kind),
           "; it must be a whole number from ", least, " to ", most);
  return v->whole;
}

std::string bytes_of(const Json* v, const char* key, size_t count) {
  std::string bytes;
  if (!v || !v->is(Json::Kind::kString) || v->count != 2 * count || !from_hexadecimal(v->string(), false, bytes))
    refuse("'", key, "' is not ", count, " bytes in hexadecimal");
  return bytes;
}

bool is_plain(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); };
  return !name.empty() && name.size() <= 100 && letter(name[0]) && name != kSealName && name != kSignatureName &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || c == '.' || c == '_' || c == '-'; });
}

SealedFile file_of(const Json& entry, int64_t segment, bool is_signed) {
  const Json* name = entry.find("name");
  if (!name || !name->is(Json::Kind::kString) || !is_plain(name->string()))
    refuse(name && name->is(Json::Kind::kString) ? predictor::json_quoted(name->string().substr(0, 80)) : "an entry",
           " is no name of a sealed file");
  SealedFile file{std::string(name->string()), number(entry, "bytes", 0, kMostBytes), {}};
  if (!is_signed) return file;
  const Json* digests = entry.find("digests");
  const int64_t count = file.segments(segment);
  if (!digests || !digests->is(Json::Kind::kArray) || digests->count != count)
    refuse("'digests' of ", file.name, " are not one for each of its ", count, " segments");
  for (const Json* d = digests->items_begin(); d != digests->items_end(); ++d)
    file.digests.push_back(bytes_of(d, "digests", 32));
  return file;
}

void append_number(std::string& to, uint64_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) to.push_back(static_cast<char>(value >> shift & 0xFF));
}

}  // namespace

SealForm form_of(const Json& data) {
  if (!is_text(data.find("format"), kFormat)) refuse("it is no seal of an export ('format' is not '", kFormat, "')");
  const Json* version = data.find("version");
  if (!version || !version->is(Json::Kind::kInt) || version->whole != kVersion) {
    const bool newer = version && version->is(Json::Kind::kInt) && version->whole > kVersion;
    refuse("its version is ", version && version->is(Json::Kind::kInt) ? cat(version->whole) : "no number", ", and ",
           kVersion, " is read", newer ? "; it was made by a newer version of Paddock: update it" : "");
  }
  SealForm form{number(data, "segment_bytes", kLeastSegment, kMostSegment), {}, {}, {}, {}};
  const Json *encryption = data.find("encryption"), *signer = data.find("signer"), *files = data.find("files");
  if (!is_null(encryption)) {
    if (!is_text(encryption->find("cipher"), kCipher) || !is_text(encryption->find("kdf"), kKdf))
      refuse("'encryption' is not ", kCipher, " with ", kKdf);
    form.salt = bytes_of(encryption->find("salt"), "salt", 32);
    form.check = bytes_of(encryption->find("key"), "key", kCheckBytes);
  }
  if (!is_null(signer)) form.signer = bytes_of(signer, "signer", 32);
  if (form.salt.empty() && form.signer.empty()) refuse("it neither encrypts nor signs");
  if (!files || !files->is(Json::Kind::kArray) || files->count == 0 || files->count > kMostFiles)
    refuse("'files' is no list of files");
  std::set<std::string_view> names;
  for (const Json* entry = files->items_begin(); entry != files->items_end(); ++entry) {
    form.files.push_back(file_of(*entry, form.segment, !form.signer.empty()));
    if (!names.insert(entry->find("name")->string()).second) refuse("'files' names one twice");
  }
  return form;
}

std::string nonce(size_t file, int64_t segment) {
  std::string made;
  append_number(made, file, 4);
  append_number(made, static_cast<uint64_t>(segment), 8);
  return made;
}

std::string told(size_t number, const SealedFile& file, int64_t segment, int64_t segment_bytes) {
  std::string made(kMagic);
  append_number(made, number, 4);
  for (const int64_t value : {segment, file.size, segment_bytes}) append_number(made, static_cast<uint64_t>(value), 8);
  return made + file.name;
}

std::string hexadecimal(std::string_view bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text.push_back(digits[static_cast<unsigned char>(byte) >> 4]);
    text.push_back(digits[byte & 15]);
  }
  return text;
}

bool from_hexadecimal(std::string_view text, bool upper, std::string& bytes) {
  const auto value = [upper](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return upper && c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  bytes.clear();
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    const int high = value(text[i]), low = value(text[i + 1]);
    if (high < 0 || low < 0) return false;
    bytes.push_back(static_cast<char>(high << 4 | low));
  }
  return text.size() % 2 == 0;
}

}  // namespace paddock::sealing
