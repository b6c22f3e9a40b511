// A table of rows by 64-bit keys that grows: look-ups, updates, ends of passes, and reading it out and in.
// All methods are safe to call from several threads. An update of a row is never lost, torn or halved.
#pragma once
#include <array>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "table/arena.h"
#include "table/batch.h"
#include "table/bucket.h"
#include "table/gate.h"
#include "table/hash.h"
#include "table/initial.h"
#include "table/order.h"
#include "table/stepping.h"
#include "table/visit.h"

namespace paddock::table {

struct Stats {
  int64_t rows = 0, candidates = 0, row_bytes = 0, index_bytes = 0;
  int64_t admitted = 0, rejected = 0, evicted = 0, missed = 0, steps = 0;
};

// Rows read out, in the order of buckets and, within one, of rows.
struct Rows {
  Tensor keys;                    // int64 [n]
  Tensor values, states, counts;  // float32 [n, dim], [n, state words], [n, 2] show and click
  Tensor numbers;                 // int32 [n, 3]: passes unseen, steps, touched
};

struct Candidates {
  std::vector<int64_t> keys;
  std::vector<int32_t> waiting;
};

class PADDOCK_API Table {
 public:
  explicit Table(TableConfig config);
  ~Table();

  const TableConfig& config() const { return config_; }
  const RowLayout& layout() const { return layout_; }
  int buckets() const { return static_cast<int>(buckets_.size()); }

  // out: [count, dim]. A key without a row reads as its initial value where `train` and it would get a row at once,
  // else as zeros. A look-up of many keys to `train` on leaves their order for the step.
  void lookup(const int64_t* keys, int64_t count, float* out, bool train);
  // One step of the rule for every key, by the sum of its gradients in order. A `scale` that is no finite number skips
  // it.
  void update(std::span<const GradientPart> parts, double lr, double scale);
  // The sum of the squares of all keys' gradients, each summed first as `update` does.
  double sum_of_squares(std::span<const GradientPart> parts);
  // May fail with `when_full` error before it changes anything.
  bool may_refuse() const { return config_.most_rows >= 0 && config_.when_full == FullPolicy::kError; }

  // The end of a pass for buckets [first, last): counters decay, rows go. Returns how many went.
  int64_t shrink(int first, int last);
  // Removes rows and candidates; returns how many rows there were.
  int64_t forget(const int64_t* keys, int64_t count);
  // Sets counters of the rows that there are; returns how many.
  int64_t set_counts(const int64_t* keys, int64_t count, const float* shows, const float* clicks);
  // show, click, passes unseen, steps by key: [count, 4]; -1 in all for a key without a row.
  void counts(const int64_t* keys, int64_t count, float* out);

  Stats stats();
  std::vector<int64_t> rows_by_slot() const;

  // Touched rows note the version of the moment. `cut` returns it and begins the next one.
  uint32_t cut() { return version_.fetch_add(1); }
  // Rows of buckets [begin, end) that were touched after `version` (0: all). `settled`: with missed steps made good.
  // `values_only`: the other arrays have no rows.
  Rows read_rows(int begin, int end, uint32_t version, bool settled, bool values_only);
  std::vector<int64_t> removed(uint32_t version);
  Candidates read_candidates(int begin, int end);
  // Forgets removals up to `version`, which no delta will ask for; from here on removals are noted.
  void forget_removals(uint32_t version);

  // Puts rows in, over those of the same keys; arrays as in Rows.
  void write_rows(const int64_t* keys, int64_t count, const float* values, const float* states, const float* counts,
                  const int32_t* numbers);
  void write_candidates(const int64_t* keys, int64_t count, const int32_t* waiting);
  void clear_candidates();
  // Ages all rows by so many ends of passes without removing any, as `shrink` did to rows that a delta leaves out.
  void age(int64_t passes);
  void clear();
  std::vector<float> rates();
  void set_rates(const std::vector<float>& rates);

 private:
  Bucket& bucket(uint64_t hash) { return buckets_[static_cast<size_t>(bucket_of(hash, config_.bucket_bits))]; }
  struct BucketRows;
  void read_bucket(int number, uint32_t version, bool settled, bool values_only, BucketRows& to);
  // Calls visit(i, key, hash, bucket) for each key, its bucket locked.
  template <class Visit>
  void at_each(const int64_t* keys, int64_t count, Visit visit) {
    for (int64_t i = 0; i < count; ++i) {
      const auto key = static_cast<uint64_t>(keys[i]);
      const uint64_t hash = mix(key);
      Bucket& b = bucket(hash);
      std::lock_guard lock(b.mutex());
      visit(i, key, hash, b);
    }
  }
  void read_absent(uint64_t key, float* out, bool train, uint32_t step) const;
  // `alone`: nothing changes meanwhile, so no lock is needed.
  void lookup_window(const int64_t* keys, int64_t count, float* out, bool train, bool alone);
  void lookup_buckets(KeyOrder& order, int begin, int end, float* out);
  void find_rows(KeyOrder& order, int number, bool alone);
  void lookup_bucket(KeyOrder& order, int number, float* out, bool alone);
  Batch batch_of(std::span<const GradientPart> parts, bool take);
  void fetch_rows(std::span<const UniqueKey> uniques) const;
  void update_bucket(const Batch& batch, int number, const RowNumbers& numbers);
  int64_t bucket_grain(int64_t keys) const;
  char* row_for_update(Bucket& b, uint64_t key, char* known, double shows, double clicks);
  char* add_row(Bucket& b, Slot* slot, uint64_t key);   // of zeros
  char* give_row(Bucket& b, Slot* slot, uint64_t key);  // with initial values
  void make_room(Bucket& b);
  bool admits(uint64_t key, Slot& slot, double shows, double clicks) const;
  void drop(Bucket& b, Slot* slot, bool evicted);
  void shrink_bucket(Bucket& b, int64_t& gone);
  void refuse_overflow(const Batch& batch);
  double score(const RowMeta& m) const {
    return (double{m.show} - m.click) * config_.show_weight + m.click * config_.click_weight;
  }
  int64_t rows() const { return rows_.load(std::memory_order_relaxed); }

  TableConfig config_;
  RowLayout layout_;
  Initial initial_;
  Stepping stepping_;
  Arena arena_;
  BuddyPages pages_;
  OrderShelf orders_;
  std::vector<Bucket> buckets_;
  ReadGate gate_;
  std::array<std::atomic<int64_t>, kSlots> by_slot_{};
  std::atomic<int64_t> rows_{0}, admitted_{0}, rejected_{0}, evicted_{0}, missed_{0}, updates_{0};
  std::atomic<uint32_t> version_{1};
  std::atomic<bool> notes_removals_{false};
};

}  // namespace paddock::table
