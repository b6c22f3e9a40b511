// The keys of one update, sorted by bucket, with equal ones found and their gradients summed in order.
#pragma once
#include <span>
#include <vector>

#include "core/storage.h"
#include "table/hash.h"

namespace paddock::table {

// Keys and gradients of one look-up. Key i belongs to entry i * clicks / count of `clicked`.
struct GradientPart {
  const int64_t* keys;
  int64_t count;
  const float* grads;            // [count, dim]
  const float* clicked;          // [clicks]
  int64_t clicks;                // divides count; 0: nothing was clicked
  const float* shown = nullptr;  // [count], how often each key occurred; null: once
};

// A key of a bucket's share of a batch.
struct UniqueKey {
  uint64_t key, hash;
  int32_t first, last, count;  // its items
};

// Memory that a thread uses for one bucket after the other.
struct Workspace {
  std::vector<UniqueKey> uniques;
  std::vector<int32_t> heads;
  std::vector<float> sum;
};

class PADDOCK_API Batch {
 public:
  Batch(std::span<const GradientPart> parts, int64_t dim, int bucket_bits);

  int64_t count() const { return count_; }
  bool is_empty(int bucket) const {
    return starts_[static_cast<size_t>(bucket)] == starts_[static_cast<size_t>(bucket) + 1];
  }
  // Fills w.uniques, in the order of first places.
  void find_uniques(int bucket, Workspace& w) const;
  // The gradients of a key, summed in order: in w.sum, or where its only one lies.
  const float* sum_of(const UniqueKey& u, Workspace& w) const;
  const float* first_gradient(const UniqueKey& u) const { return gradient(items_[u.first].place); }
  double clicks_of(const UniqueKey& u) const;
  double shows_of(const UniqueKey& u) const;
  // Calls visit(place) for each place that a key has in the batch, in order.
  template <class Visit>
  void for_each_place(const UniqueKey& u, Visit visit) const {
    for (int32_t k = u.first; k != kNone; k = items_[k].next) visit(int64_t{items_[k].place});
  }

 private:
  static constexpr int32_t kNone = -1;
  struct Item {
    uint64_t key;
    int32_t place, next;  // in the batch; the next item of the same key
  };
  template <class Visit>
  void for_each_key(int64_t begin, int64_t end, Visit visit) const;
  void sort(int bucket_bits);
  const GradientPart& part_of(int64_t& place) const;
  const float* gradient(int64_t place) const;

  std::span<const GradientPart> parts_;
  int64_t dim_, count_ = 0;
  bool clicked_ = false, shown_ = false;
  std::vector<int32_t> starts_;  // of each bucket in the items
  Scratch memory_;
  Item* items_;  // [count], by bucket, in order within one
};

}  // namespace paddock::table
