// Reading safetensors: 8 bytes with the length of a JSON header, the header, then all data without gaps.
#include "predictor/weights.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <vector>

#include "predictor/json.h"
#include "predictor/sealing/wiped.h"

namespace paddock::predictor {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

constexpr int64_t kMostHeader = 100'000'000;
constexpr const char* kHalves = "paddock.bfloat16";  // in files of our older versions: names of bfloat16 kept as U16

struct Entry {
  std::string name;
  TensorType type;
  int64_t begin, end;  // of its bytes, counted from the end of the header
};

[[noreturn]] void damaged(const std::string& path, const std::string& why) {
  refuse(path, ": damaged or not a safetensors file (", why, "); copy or save it again");
}

// The names in the file's metadata whose whole numbers of 16 bits are bfloat16.
std::set<std::string, std::less<>> halves_of(const std::string& path, const Json& header) {
  std::set<std::string, std::less<>> names;
  const Json* metadata = header.find("__metadata__");
  if (!metadata) return names;
  if (!metadata->is(Json::Kind::kObject)) damaged(path, "__metadata__ is no object");
  for (const auto* m = metadata->members; m != metadata->members + metadata->count; ++m)
    if (!m->value.is(Json::Kind::kString)) damaged(path, "__metadata__ holds something that is no text");
  if (const Json* found = metadata->find(kHalves)) {
    std::string_view rest = found->string();
    while (!rest.empty()) {
      const size_t comma = std::min(rest.find(','), rest.size());
      names.emplace(rest.substr(0, comma));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  return names;
}

DType type_of(const std::string& path, const std::string& name, std::string_view kind, bool half) {
  constexpr std::pair<std::string_view, DType> known[] = {
      {"F32", DType::kF32}, {"F64", DType::kF64}, {"F16", DType::kF16}, {"BF16", DType::kBF16}, {"I8", DType::kI8},
      {"U8", DType::kU8},   {"I32", DType::kI32}, {"I64", DType::kI64}, {"BOOL", DType::kBool},
  };
  if (half && kind == "U16") kind = "BF16";
  for (const auto& [text, type] : known)
    if (text == kind) return type;
  refuse(path, ": '", name, "' is of type ", kind, ", which no program has; export the model again");
}

int64_t whole(const std::string& path, const Json& v) {
  if (!v.is(Json::Kind::kInt) || v.whole < 0) damaged(path, "a size or place that is no whole number");
  return v.whole;
}

Entry entry_of(const std::string& path, const JsonMember& member, bool half) {
  Entry e;
  e.name = member.name;
  const Json *kind = member.value.find("dtype"), *shape = member.value.find("shape"),
             *offsets = member.value.find("data_offsets");
  if (!kind || !kind->is(Json::Kind::kString) || !shape || !shape->is(Json::Kind::kArray) || !offsets ||
      !offsets->is(Json::Kind::kArray) || offsets->count != 2)
    damaged(path, cat("'", e.name, "' lacks its type, shape or place"));
  e.type.dtype = type_of(path, e.name, kind->string(), half);
  if (shape->count > static_cast<uint32_t>(kMaxRank)) damaged(path, cat("'", e.name, "' has more than 8 axes"));
  int64_t bytes = dtype_size(e.type.dtype);
  for (const Json* d = shape->items_begin(); d != shape->items_end(); ++d) {
    e.type.shape.push_back(whole(path, *d));
    if (__builtin_mul_overflow(bytes, d->whole, &bytes)) damaged(path, cat("'", e.name, "' has an impossible shape"));
  }
  e.begin = whole(path, offsets->elements[0]);
  e.end = whole(path, offsets->elements[1]);
  if (e.end < e.begin || e.end - e.begin != bytes) damaged(path, cat("'", e.name, "' has other bytes than its shape"));
  return e;
}

// Entries in the order of their places, which leave no gap up to `size`.
std::vector<Entry> entries_of(const std::string& path, const Json& header, int64_t size) {
  const auto halves = halves_of(path, header);
  std::vector<Entry> entries;
  for (const auto* m = header.members; m != header.members + header.count; ++m)
    if (m->name != "__metadata__") entries.push_back(entry_of(path, *m, halves.contains(m->name)));
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  int64_t at = 0;
  for (const Entry& e : entries) {
    if (e.begin != at) damaged(path, cat("'", e.name, "' does not begin where the tensor before it ends"));
    at = e.end;
  }
  if (at != size) damaged(path, cat("it holds ", size, " bytes of data and describes ", at));
  return entries;
}

JsonDocument header_of(const std::string& path, const FileBytes& file, int64_t& length) {
  if (file.size < 8) damaged(path, "header too small");
  std::memcpy(&length, file.data, 8);
  if (length < 0 || length > kMostHeader) damaged(path, "header too large");
  if (length > file.size - 8) damaged(path, "its header is cut off");
  try {
    return JsonDocument(std::string(file.data + 8, static_cast<size_t>(length)));
  } catch (const std::invalid_argument& e) {
    damaged(path, cat("its header is no JSON: ", e.what()));
  }
}

Tensor wiped_tensor(const TensorType& type) {
  const auto memory = std::make_shared<sealing::Wiped>(static_cast<size_t>(type.bytes()));
  return Tensor(type, std::make_shared<Storage>(memory->data(), static_cast<size_t>(type.bytes()), [memory] {}), 0);
}

// A copy where the tensor does not lie as its type must, or is of bools that are neither 0 nor 1.
Tensor tensor_at(const std::string& path, const Entry& e, const FileBytes& file, int64_t start, Copies copies) {
  char* data = file.data ? file.data + start + e.begin : nullptr;
  const int64_t bytes = e.end - e.begin;
  if (e.type.dtype == DType::kBool && std::any_of(data, data + bytes, [](char c) { return c != 0 && c != 1; }))
    damaged(path, cat("'", e.name, "' holds bools that are neither 0 nor 1"));
  if (copies != Copies::kAlways &&
      reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(dtype_size(e.type.dtype)) == 0) {
    auto hold = [file = file.hold] {};  // the file stays in memory as long as the storage lives
    return Tensor(e.type, std::make_shared<Storage>(data, static_cast<size_t>(bytes), std::move(hold)), 0);
  }
  Tensor own = copies == Copies::kWiped ? wiped_tensor(e.type) : Tensor(e.type);
  if (bytes) std::memcpy(own.raw(), data, static_cast<size_t>(bytes));
  return own;
}

}  // namespace

std::map<std::string, Tensor, std::less<>> load_tensors(const std::string& path, const FileBytes& file, Copies copies) {
  int64_t length = 0;
  const JsonDocument header = header_of(path, file, length);
  if (!header.root().is(Json::Kind::kObject)) damaged(path, "its header is no object");
  std::map<std::string, Tensor, std::less<>> tensors;
  for (const Entry& e : entries_of(path, header.root(), file.size - 8 - length))
    tensors.emplace(e.name, tensor_at(path, e, file, 8 + length, copies));
  return tensors;
}

}  // namespace paddock::predictor
