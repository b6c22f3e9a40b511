// A published table: an index and rows in a file that is mapped, not read. Deltas lie in front of the base.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/api.h"
#include "core/tensor.h"

namespace paddock::table {

enum class RowType : uint8_t { kFloat32, kFloat16, kInt8 };

// Bytes of one row; of int8 rows the first 8 hold the least value and the step between codes, float32 each.
PADDOCK_API int64_t row_bytes(RowType type, int64_t dim);
// values: float32 [n, dim]. Returns uint8 [n, row_bytes]. Int8 rows must be finite.
PADDOCK_API Tensor pack_rows(const Tensor& values, RowType type);
// An open-addressing index as bytes: row i holds keys[i]; `removed` keys are marked as gone. A power of two of 16-byte
// slots, at most 7 of 10 in use.
PADDOCK_API Tensor pack_index(const int64_t* keys, int64_t count, const int64_t* removed, int64_t removed_count);

// One mapped file. Where index and rows lie comes from its header, which Python has checked. The file may be cut, or
// its disk may fail, while it is mapped: what a look-up then touches reads as zeros, and the file is lost for good.
class PADDOCK_API SnapshotFile {
 public:
  SnapshotFile(const std::string& path, int64_t index_at, int64_t slots, int64_t rows_at, int64_t rows, int64_t dim,
               RowType type);
  ~SnapshotFile();
  SnapshotFile(const SnapshotFile&) = delete;
  SnapshotFile& operator=(const SnapshotFile&) = delete;

  struct Entry {
    uint64_t key;
    uint32_t row, unused;
  };
  static constexpr uint32_t kEmpty = ~uint32_t{0}, kRemoved = kEmpty - 1;

  void prefetch(uint64_t hash) const { __builtin_prefetch(index_ + (hash & (slots_ - 1))); }
  uint32_t find(uint64_t key, uint64_t hash) const;  // a row's number, kRemoved, or kEmpty where it has no entry
  const char* row(uint32_t number) const { return rows_ + number * row_bytes_; }
  void read(uint32_t number, float* out) const;
  int64_t dim() const { return dim_; }
  int64_t row_bytes() const { return row_bytes_; }
  const std::string& path() const { return path_; }
  bool lost() const { return lost_.load(std::memory_order_relaxed); }
  // Puts zeros in the place of the mapping where it holds this address; false where it does not. For a signal's
  // handler.
  bool lose(const void* address) const;

 private:
  std::string path_;
  void* mapped_ = nullptr;
  size_t bytes_ = 0;
  mutable std::atomic<bool> lost_{false};
  const Entry* index_;
  const char* rows_;
  uint64_t slots_;
  int64_t row_count_, dim_, row_bytes_;
  RowType type_;
};

// Files that answer together, the newest first. It never changes: a new version is a new object.
class PADDOCK_API Snapshot {
 public:
  explicit Snapshot(std::vector<std::shared_ptr<SnapshotFile>> files) : files_(std::move(files)) {}

  // out: [count, dim]; keys without a row read as zeros. Returns how many had none. An error (state) names a lost file.
  int64_t lookup(const int64_t* keys, int64_t count, float* out) const;
  int64_t dim() const { return files_.front()->dim(); }
  bool lost() const;
  bool lose(const void* address) const;  // see `SnapshotFile::lose`

 private:
  int64_t lookup_window(const int64_t* keys, int64_t count, float* out) const;

  std::vector<std::shared_ptr<SnapshotFile>> files_;
};

}  // namespace paddock::table
