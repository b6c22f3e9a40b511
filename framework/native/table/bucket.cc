// Searches, growth and removal in one bucket.
#include "table/bucket.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/error.h"
#include "table/hash.h"

namespace paddock::table {
namespace {

constexpr size_t kFirstSlots = 16;
constexpr uint64_t kFullTenths = 7;  // of 10 slots in use; with linear probing a miss then reads about 6 slots

constexpr size_t kSparse = 6;  // slots a key from which on the index is too large: twice what growth leaves

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

}  // namespace

RowLayout::RowLayout(int64_t dim, int64_t state)
    : dim(dim),
      state(state),
      meta(round_up((dim + state) * static_cast<int64_t>(sizeof(float)), alignof(RowMeta))),
      stride(round_up(meta + static_cast<int64_t>(sizeof(RowMeta)), 16)) {}

Bucket::~Bucket() { clear(); }

void Bucket::start(const RowLayout* layout, Arena* arena, BuddyPages* pages) {
  slots_ = Slots(PageAllocator<Slot>{pages});
  layout_ = layout;
  arena_ = arena;
  stride_ = layout->stride;
  shift_ = std::bit_width(arena->block_bytes() / static_cast<size_t>(stride_)) - 1;
}

void Bucket::clear() {
  for (char* block : blocks_) arena_->give_back(block);
  blocks_.clear();
  slots_.clear();
  first_slot_.store(nullptr, std::memory_order_relaxed);
  removals_.clear();
  used_ = rows_ = 0;
  ++moves_;
}

Slot* Bucket::insert(uint64_t key, uint64_t hash) {
  if ((used_ + 1) * 10ull > slots_.size() * kFullTenths) resize(std::max(kFirstSlots, 2 * slots_.size()));
  const size_t mask = slots_.size() - 1;
  size_t i = hash & mask;
  while (slots_[i].row != Slot::kEmpty) i = (i + 1) & mask;
  slots_[i] = {key, Slot::kCandidate, 0};
  ++used_;
  return &slots_[i];
}

void Bucket::resize(size_t count) {
  Slots others(count, slots_.get_allocator());
  const size_t mask = count - 1;
  for (const Slot& slot : slots_) {
    if (slot.row == Slot::kEmpty) continue;
    size_t i = mix(slot.key) & mask;
    while (others[i].row != Slot::kEmpty) i = (i + 1) & mask;
    others[i] = slot;
  }
  slots_ = std::move(others);
  first_slot_.store(slots_.data(), std::memory_order_relaxed);
  mask_.store(mask, std::memory_order_relaxed);
}

void Bucket::fit() {
  size_t count = slots_.size();
  while (count > kFirstSlots && used_ * kSparse < count) count /= 2;
  if (count < slots_.size()) resize(count);
}

// The slots behind it move up, so that no search ends too early.
void Bucket::erase(Slot* slot) {
  const size_t mask = slots_.size() - 1;
  auto hole = static_cast<size_t>(slot - slots_.data());
  for (size_t i = (hole + 1) & mask; slots_[i].row != Slot::kEmpty; i = (i + 1) & mask) {
    const size_t home = mix(slots_[i].key) & mask;
    if (((i - home) & mask) < ((i - hole) & mask)) continue;  // it begins behind the hole
    slots_[hole] = slots_[i];
    hole = i;
  }
  slots_[hole] = Slot{};
  --used_;
}

char* Bucket::add_row(Slot* slot, uint64_t key) {
  if (rows_ >= Slot::kCandidate) fail(ErrorKind::kState, "table: a bucket is full; make the table with more buckets");
  if (rows_ >> shift_ == blocks_.size()) {
    blocks_.push_back(arena_->take());
    first_block_ = blocks_.data();
  }
  slot->row = rows_++;
  slot->waiting = 0;
  char* added = row(slot->row);
  std::memset(added, 0, static_cast<size_t>(stride_));
  meta_of(added, *layout_).key = key;
  return added;
}

void Bucket::remove_row(Slot* slot) {
  const uint32_t number = slot->row, last = rows_ - 1;
  if (number != last) {
    char* from = row(last);
    const uint64_t moved = meta_of(from, *layout_).key;
    find(moved, mix(moved))->row = number;
    std::memcpy(row(number), from, static_cast<size_t>(stride_));
  }
  erase(slot);
  --rows_;
  ++moves_;
  if (static_cast<size_t>((rows_ + (1u << shift_) - 1) >> shift_) < blocks_.size()) {
    arena_->give_back(blocks_.back());
    blocks_.pop_back();
  }
}

}  // namespace paddock::table
