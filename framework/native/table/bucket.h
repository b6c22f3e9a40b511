// One virtual bucket: an open-addressing index (linear probing, no tombstones) over rows that lie densely in blocks.
// Its methods need its lock; growing it stops nobody else.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "table/arena.h"
#include "table/latch.h"
#include "table/pages.h"

namespace paddock::table {

// Behind the value and the optimizer's state of each row.
struct RowMeta {
  uint64_t key;
  float show, click;
  uint32_t unseen;   // ends of passes since the last update
  uint32_t version;  // the table's when it was touched last; see Table::version
  uint32_t steps;    // updates of the row; with dense Adam the table's step that it stands at
  uint32_t touched;  // dense Adam's step at which it was updated last
};

// How the words of a row lie: value [dim], state [state], then RowMeta at `meta` bytes. Rows are `stride` bytes apart.
struct RowLayout {
  int64_t dim, state, meta, stride;
  RowLayout(int64_t dim, int64_t state);
};

inline float* value_of(char* row) { return reinterpret_cast<float*>(row); }
inline RowMeta& meta_of(char* row, const RowLayout& layout) { return *reinterpret_cast<RowMeta*>(row + layout.meta); }

struct Slot {
  static constexpr uint32_t kEmpty = ~uint32_t{0}, kCandidate = kEmpty - 1;
  uint64_t key = 0;
  uint32_t row = kEmpty;  // kCandidate: a key that waits for its admission
  uint32_t waiting = 0;   // of a candidate: (score in 1/256) << 8 | passes without an occurrence
  bool has_row() const { return row < kCandidate; }
};

using Slots = std::vector<Slot, PageAllocator<Slot>>;

// A key that lost its row, and the table's version then.
struct Removal {
  uint64_t key;
  uint32_t version;
};

class alignas(64) Bucket {
 public:
  Bucket() = default;
  ~Bucket();
  Bucket(const Bucket&) = delete;
  Bucket& operator=(const Bucket&) = delete;
  void start(const RowLayout* layout, Arena* arena, BuddyPages* pages);

  Latch& mutex() { return latch_; }

  // Asks for the lines where a search for `hash` begins. Needs no lock: a stale address does no harm.
  void prefetch(uint64_t hash) const {
    const Slot* slots = first_slot_.load(std::memory_order_relaxed);
    if (!slots) return;
    const Slot* first = slots + (hash & mask_.load(std::memory_order_relaxed));
    __builtin_prefetch(first);
    __builtin_prefetch(first + 2);  // a fifth of all searches end in the next line
  }

  // Null where there is none.
  Slot* find(uint64_t key, uint64_t hash) {
    Slot* slots = first_slot_.load(std::memory_order_relaxed);
    const uint64_t mask = mask_.load(std::memory_order_relaxed);
    if (!slots) return nullptr;
    for (uint64_t i = hash & mask;; i = (i + 1) & mask) {
      if (slots[i].row == Slot::kEmpty) return nullptr;
      if (slots[i].key == key) return slots + i;
    }
  }
  // The key's row, null where it has none.
  char* find_row(uint64_t key, uint64_t hash) {
    const Slot* slot = find(key, hash);
    return slot && slot->has_row() ? row(slot->row) : nullptr;
  }
  Slot* insert(uint64_t key, uint64_t hash);  // a new slot, empty but for its key; the key has none
  void erase(Slot* slot);                     // moves other slots
  char* row(uint32_t number) const {
    return first_block_[number >> shift_] + (number & ((1u << shift_) - 1)) * stride_;
  }
  char* add_row(Slot* slot, uint64_t key);  // zeros but for the key
  void remove_row(Slot* slot);              // and the slot; the last row takes its number

  uint32_t rows() const { return rows_; }
  uint32_t candidates() const { return used_ - rows_; }
  // Counts what invalidates addresses of rows that somebody noted.
  uint32_t moves() const { return moves_; }
  int64_t index_bytes() const { return static_cast<int64_t>(slots_.size() * sizeof(Slot)); }
  Slots& slots() { return slots_; }
  std::vector<Removal>& removals() { return removals_; }
  void fit();  // gives index memory back after many keys have gone
  void clear();

 private:
  void resize(size_t slots);

  // What a look-up reads, in one line of memory.
  Latch latch_;
  uint32_t moves_ = 0;
  int shift_ = 0;
  std::atomic<Slot*> first_slot_{nullptr};
  std::atomic<uint64_t> mask_{0};
  char** first_block_ = nullptr;
  int64_t stride_ = 0;

  uint32_t used_ = 0, rows_ = 0;
  Slots slots_;  // a power of two
  std::vector<char*> blocks_;
  const RowLayout* layout_ = nullptr;
  Arena* arena_ = nullptr;
  std::vector<Removal> removals_;
};

}  // namespace paddock::table
