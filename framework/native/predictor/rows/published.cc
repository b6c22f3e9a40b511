// As suites/ctr/serving/published.py and framework/table/snapshot.py read them.
#include "predictor/rows/published.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "core/error.h"
#include "predictor/json.h"
#include "predictor/rows/sha256.h"

namespace paddock::rows {
namespace {

using predictor::Json;
using predictor::JsonDocument;
using predictor::refuse;
using Kind = Json::Kind;

constexpr uint32_t kFormat = 1, kMostHeader = 1 << 16, kMostFiles = 64;
constexpr size_t kPrefix = 8 + 4 + 4 + 32;

struct Header {
  std::string name, id, parent, dtype;
  bool is_delta;
  int64_t dim, rows, removed, slots, rows_at, index_at, bytes;
};

std::string text_at(const Json& of, const char* name) {
  const Json* found = of.find(name);
  if (!found || !found->is(Kind::kString)) throw std::invalid_argument(name);
  return std::string(found->string());
}

int64_t count_at(const Json& of, const char* name) {
  const Json* found = of.find(name);
  if (!found || !found->is(Kind::kInt) || found->whole < 0 || found->whole >= int64_t{1} << 62)
    throw std::invalid_argument(name);
  return found->whole;
}

Header header_of(const std::string& path, const Json& told) try {
  Header h{text_at(told, "name"),
           text_at(told, "id"),
           {},
           text_at(told, "dtype"),
           false,
           count_at(told, "dim"),
           count_at(told, "rows"),
           count_at(told, "removed"),
           count_at(told, "slots"),
           count_at(told, "rows_at"),
           count_at(told, "index_at"),
           count_at(told, "bytes")};
  const Json* parent = told.find("parent");
  h.is_delta = parent && !parent->is(Kind::kNull);
  if (h.is_delta) h.parent = text_at(told, "parent");
  if (!parent || told.count != 11 || h.dim < 1 || (h.dtype != "float32" && h.dtype != "float16" && h.dtype != "int8"))
    throw std::invalid_argument("dtype");
  return h;
} catch (const std::invalid_argument&) {
  refuse(path, ": its header describes no rows; it was written by something else");
}

Header read_header(const std::string& path, const predictor::Limits& limits) {
  const predictor::OpenFile file(path, "weight_bytes", limits.weight_bytes);
  char prefix[kPrefix];
  if (!file.read_at(0, prefix, kPrefix) || std::memcmp(prefix, "PADTABLE", 8) != 0)
    refuse(path, ": is no snapshot of a table");
  uint32_t format, length;
  std::memcpy(&format, prefix + 8, 4);
  std::memcpy(&length, prefix + 12, 4);
  if (format != kFormat) refuse(path, ": is a snapshot in format ", format, "; this version reads ", kFormat);
  std::string text(std::min(length, kMostHeader), '\0');
  if (text.size() != length || !file.read_at(kPrefix, text.data(), length) ||
      std::memcmp(sha256(text).data(), prefix + 16, 32) != 0)
    refuse(path, ": its header is cut or damaged; publish it again");
  try {
    const JsonDocument document(std::move(text), {1024, 8});
    const Header header = header_of(path, document.root());
    if (header.bytes != file.size())
      refuse(path, ": has ", file.size(), " bytes, its header says ", header.bytes, "; it is cut, copy it again");
    return header;
  } catch (const std::invalid_argument&) {
    refuse(path, ": its header describes no rows; it was written by something else");
  }
}

table::RowType type_of(const std::string& dtype) {
  return dtype == "float32"   ? table::RowType::kFloat32
         : dtype == "float16" ? table::RowType::kFloat16
                              : table::RowType::kInt8;
}

// A file of the folder, never one elsewhere.
bool is_name(std::string_view text) {
  return !text.empty() && text != "." && text != ".." && text.find('/') == text.npos && text.find('\0') == text.npos;
}

}  // namespace

std::shared_ptr<const table::Snapshot> open_published(const std::string& folder, const std::string& key,
                                                      const predictor::Limits& limits) {
  const std::string rows = folder + "/rows/", list = rows + "rows.json";
  std::vector<std::string> files;
  try {
    const JsonDocument document(predictor::read_file(list, "text_bytes", limits.text_bytes), {4096, 8});
    const Json *given = document.root().find("files"), *dense = document.root().find("dense");
    if (!given || !given->is(Kind::kArray) || !given->count || given->count > kMostFiles)
      throw std::invalid_argument("files");
    for (const Json* item = given->items_begin(); item != given->items_end(); ++item) {
      if (!item->is(Kind::kString) || !is_name(item->string())) throw std::invalid_argument("files");
      files.emplace_back(item->string());
    }
    if (text_at(document.root(), "model") != key)
      refuse(list, ": holds rows of a model with other features or labels; export into a folder of its own");
    if (dense && !dense->is(Kind::kNull))
      fail(ErrorKind::kNotSupported, list,
           ": its rows were published with a network of their own, which this library does not follow; export the "
           "model again");
  } catch (const std::invalid_argument&) {
    refuse(list, ": names no files of rows; publish them again");
  }
  std::vector<std::shared_ptr<table::SnapshotFile>> opened;
  Header first{}, last{};
  for (const std::string& name : files) {
    const std::string path = rows + name;
    const Header h = read_header(path, limits);
    if (opened.empty()) {
      if (h.is_delta) refuse(path, ": is a delta, not a whole snapshot; publish the rows again");
      first = h;
    } else if (h.name != first.name || h.dim != first.dim) {
      refuse(path, ": is of table '", h.name, "' with ", h.dim, " columns, not of '", first.name, "' with ", first.dim);
    } else if (!h.is_delta || h.parent != last.id) {
      refuse(path, ": does not follow the file before it in ", list, "; publish the rows again");
    }
    last = h;
    try {
      opened.insert(opened.begin(), std::make_shared<table::SnapshotFile>(path, h.index_at, h.slots, h.rows_at, h.rows,
                                                                          h.dim, type_of(h.dtype)));
    } catch (const Error& e) {
      refuse(e.what());
    }
  }
  return std::make_shared<const table::Snapshot>(std::move(opened));
}

}  // namespace paddock::rows
