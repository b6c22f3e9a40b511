// The keys of a batch by bucket, with equal ones found: what a look-up and the step that follows it share.
#pragma once
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/storage.h"
#include "table/hash.h"

namespace paddock::table {

using Keys = std::span<const int64_t>;

// A different key of a batch.
struct UniqueKey {
  uint64_t key;
  char* row;      // where a look-up found it, valid while its bucket has made no move since; null: it had none
  int32_t count;  // how often it occurs
  uint64_t hash() const { return mix(key); }
};

// One occurrence of a key: its place in the batch, and the number of its key among the bucket's.
struct Occurrence {
  uint64_t key;
  int32_t place;
  uint32_t unique;
};

class PADDOCK_API KeyOrder {
 public:
  // The runs are one batch, one behind the other.
  KeyOrder(std::span<const Keys> runs, int bucket_bits);

  int64_t count() const { return count_; }
  // The different keys of a bucket, in the order of their first places.
  std::span<UniqueKey> uniques(int bucket) {
    const auto b = static_cast<size_t>(bucket);
    return {uniques_ + starts_[b], static_cast<size_t>(unique_counts_[b])};
  }
  // All occurrences of a bucket's keys, in the order of their places.
  std::span<const Occurrence> occurrences(int bucket) const {
    const auto b = static_cast<size_t>(bucket);
    return {occurrences_ + starts_[b], static_cast<size_t>(starts_[b + 1] - starts_[b])};
  }
  // The moves that a bucket had made when rows were found; -1: nobody looked.
  int64_t& moves(int bucket) { return moves_[static_cast<size_t>(bucket)]; }

  // Whether its batch is these keys.
  bool is_of(Keys keys) const;

 private:
  void sort(std::span<const Keys> runs, int bucket_bits);
  void find_uniques(int bucket);

  int64_t count_;
  std::vector<int32_t> starts_, unique_counts_;  // of each bucket
  std::vector<int64_t> moves_;
  Scratch memory_;
  Occurrence* occurrences_;  // [count], by bucket, in order within one
  UniqueKey* uniques_;       // [count], those of a bucket from the place on where its occurrences begin
  int64_t* keys_;            // [count], the batch
};

// Orders that look-ups made and no step has used yet. A step finds its own by its keys, so nothing but its speed
// depends on what is here. Safe from several threads.
class OrderShelf {
 public:
  void put(std::shared_ptr<KeyOrder> order);
  // The latest order of these keys, which `take` removes; null where there is none.
  std::shared_ptr<KeyOrder> find(Keys keys, bool take);

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<KeyOrder>> kept_;  // the oldest first
};

}  // namespace paddock::table
