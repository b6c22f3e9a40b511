// LogRows: rows of a log as columns, in the layout of a batch, with the bad rows of their text.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/storage.h"
#include "reader/schema.h"

namespace paddock::reader {

// Values that grow; unlike a vector's they are not set to 0 first, and their memory is kept for the next block.
template <class T>
class Buffer {
 public:
  T* data() { return data_ ? static_cast<T*>(data_->data()) : nullptr; }
  const T* data() const { return data_ ? static_cast<const T*>(data_->data()) : nullptr; }
  // Memory for `count` values or more; values that were there stay.
  void reserve(size_t count) {
    if (count <= capacity_) return;
    size_t capacity = std::max(count, capacity_ + capacity_ / 2);
    auto larger = std::make_unique<Storage>(capacity * sizeof(T));
    if (capacity_) std::memcpy(larger->data(), data_->data(), capacity_ * sizeof(T));
    data_ = std::move(larger);
    capacity_ = capacity;
  }

 private:
  std::unique_ptr<Storage> data_;
  size_t capacity_ = 0;
};

// Signs laid end to end, and where each row's begin.
struct RaggedColumn {
  Buffer<int64_t> values;
  Buffer<int64_t> offsets;  // [N + 1]
};

enum class FaultKind { kColumns, kNumber, kLabel, kWeight, kTime, kSign, kValues, kAlong, kQuote, kNul, kText, kLine };
constexpr int kFaultKinds = 12;
constexpr const char* kFaultNames[kFaultKinds] = {"columns", "number", "label", "weight", "time", "sign",
                                                  "values",  "along",  "quote", "nul",    "text", "line"};

// A bad row: its line and byte, both counted from the start of the text that was parsed, and the text that is wrong.
struct Fault {
  FaultKind kind;
  int column;     // -1: the whole row
  int64_t count;  // of kColumns, kValues and kAlong: how many were found; of kLine: bytes
  int64_t line, offset;
  std::string text;
};

struct PADDOCK_API LogRows {
  explicit LogRows(std::shared_ptr<const LogSchema> of) : schema(std::move(of)), ragged(schema->ragged.size()) {}

  std::shared_ptr<const LogSchema> schema;
  int64_t count = 0;       // N
  Buffer<int64_t> sparse;  // [N, F]
  Buffer<float> dense;     // [N, D]
  Buffer<float> labels;    // [N, L]
  Buffer<float> weight;    // [N]; the three without values where the schema has no such column
  Buffer<int64_t> group, time;
  std::vector<RaggedColumn> ragged;

  // Of the text. Rows whose time is before an earlier one's stay; they are only counted.
  int64_t lines = 0, blank = 0, backwards = 0;
  int64_t first_backwards = -1;   // its byte
  int64_t last_time = INT64_MIN;  // the highest
  std::array<int64_t, kFaultKinds> faults{};
  std::vector<Fault> shown;  // the first bad rows, `kept` at most
  size_t kept = 32;

  // Counts a bad row; `text` is what is wrong with it.
  void note(FaultKind kind, int column, int64_t found, int64_t offset, std::string_view text) {
    constexpr size_t kText = 40;  // bytes of it that are kept
    ++faults[static_cast<size_t>(kind)];
    if (shown.size() < kept) shown.push_back({kind, column, found, lines, offset, std::string(text.substr(0, kText))});
  }
};

// Rows `row[i]` of `parts[part[i]]`, i from 0 to n: what a batch is. All parts are of one schema.
PADDOCK_API std::shared_ptr<LogRows> gather(const std::vector<const LogRows*>& parts, const int32_t* part,
                                            const int32_t* row, int64_t n);

// The text's rows. Its lines are whole; the last may lack its end. A bad row is left out and counted.
PADDOCK_API std::shared_ptr<LogRows> parse_text(std::shared_ptr<const LogSchema> schema, std::string_view text);

}  // namespace paddock::reader
