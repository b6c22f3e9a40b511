// Rows out of a table and into one, for files. A bucket is read under its lock, so training goes on meanwhile.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <shared_mutex>

#include "core/parallel.h"
#include "table/table.h"

namespace paddock::table {
namespace {

void grow_by(std::vector<char>& bytes, const void* from, int64_t count) {
  const auto* first = static_cast<const char*>(from);
  bytes.insert(bytes.end(), first, first + count);
}

Tensor tensor_of(const std::vector<char>& bytes, Shape shape, DType dtype) {
  Tensor t(TensorType{shape, dtype});
  if (!bytes.empty()) std::memcpy(t.raw(), bytes.data(), bytes.size());
  return t;
}

}  // namespace

Rows Table::read_rows(int begin, int end, uint32_t version, bool settled) {
  Rows rows;
  std::vector<char> values, states, counts, numbers;
  std::vector<float> settled_row(static_cast<size_t>(config_.dim + layout_.state));
  std::shared_lock<std::shared_mutex> history;
  if (stepping_.replays()) history = std::shared_lock(stepping_.history());
  for (int i = begin; i < end; ++i) {
    Bucket& b = buckets_[static_cast<size_t>(i)];
    std::lock_guard lock(b.mutex());
    for (uint32_t r = 0; r < b.rows(); ++r) {
      char* row = b.row(r);
      const RowMeta& m = meta_of(row, layout_);
      if (m.version <= version) continue;
      const float* words = value_of(row);
      uint32_t steps = m.steps;
      if (settled && stepping_.replays()) {
        std::copy(words, words + settled_row.size(), settled_row.begin());
        stepping_.catch_up(settled_row.data(), settled_row.data() + config_.dim, steps, m.touched, stepping_.step());
        words = settled_row.data();
      }
      rows.keys.push_back(static_cast<int64_t>(m.key));
      grow_by(values, words, config_.dim * 4);
      grow_by(states, words + config_.dim, layout_.state * 4);
      grow_by(counts, &m.show, 8);
      const uint32_t three[] = {m.unseen, steps, m.touched};
      grow_by(numbers, three, 12);
    }
  }
  const auto n = static_cast<int64_t>(rows.keys.size());
  rows.values = tensor_of(values, {n, config_.dim}, DType::kF32);
  rows.states = tensor_of(states, {n, layout_.state}, DType::kF32);
  rows.counts = tensor_of(counts, {n, 2}, DType::kF32);
  rows.numbers = tensor_of(numbers, {n, 3}, DType::kI32);
  return rows;
}

std::vector<int64_t> Table::removed(uint32_t version) {
  std::vector<int64_t> keys;
  for (Bucket& b : buckets_) {
    std::lock_guard lock(b.mutex());
    for (const Removal& r : b.removals())
      if (r.version > version) keys.push_back(static_cast<int64_t>(r.key));
  }
  return keys;
}

void Table::forget_removals(uint32_t version) {
  notes_removals_.store(true);
  for (Bucket& b : buckets_) {
    std::lock_guard lock(b.mutex());
    std::erase_if(b.removals(), [=](const Removal& r) { return r.version <= version; });
  }
}

Candidates Table::read_candidates(int begin, int end) {
  Candidates c;
  for (int i = begin; i < end; ++i) {
    Bucket& b = buckets_[static_cast<size_t>(i)];
    std::lock_guard lock(b.mutex());
    for (const Slot& slot : b.slots()) {
      if (slot.row != Slot::kCandidate) continue;
      c.keys.push_back(static_cast<int64_t>(slot.key));
      c.waiting.push_back(static_cast<int32_t>(slot.waiting));
    }
  }
  return c;
}

void Table::write_rows(const int64_t* keys, int64_t count, const float* values, const float* states,
                       const float* counts, const int32_t* numbers) {
  for (int64_t i = 0; i < count; ++i) {
    const auto key = static_cast<uint64_t>(keys[i]);
    const uint64_t hash = mix(key);
    Bucket& b = bucket(hash);
    std::lock_guard lock(b.mutex());
    Slot* slot = b.find(key, hash);
    if (!slot) slot = b.insert(key, hash);
    char* row = slot->has_row() ? b.row(slot->row) : add_row(b, slot, key);
    std::memcpy(row, values + i * config_.dim, static_cast<size_t>(config_.dim) * 4);
    std::memcpy(value_of(row) + config_.dim, states + i * layout_.state, static_cast<size_t>(layout_.state) * 4);
    RowMeta& m = meta_of(row, layout_);
    m.show = counts[2 * i];
    m.click = counts[2 * i + 1];
    m.unseen = static_cast<uint32_t>(numbers[3 * i]);
    m.steps = static_cast<uint32_t>(numbers[3 * i + 1]);
    m.touched = static_cast<uint32_t>(numbers[3 * i + 2]);
    m.version = version_.load(std::memory_order_relaxed);
  }
}

void Table::write_candidates(const int64_t* keys, int64_t count, const int32_t* waiting) {
  for (int64_t i = 0; i < count; ++i) {
    const auto key = static_cast<uint64_t>(keys[i]);
    const uint64_t hash = mix(key);
    Bucket& b = bucket(hash);
    std::lock_guard lock(b.mutex());
    Slot* slot = b.find(key, hash);
    if (slot && slot->has_row()) continue;
    if (!slot) slot = b.insert(key, hash);
    slot->waiting = static_cast<uint32_t>(waiting[i]);
  }
}

void Table::clear_candidates() {
  for (Bucket& b : buckets_) {
    std::lock_guard lock(b.mutex());
    std::vector<uint64_t> keys;
    for (const Slot& slot : b.slots())
      if (slot.row == Slot::kCandidate) keys.push_back(slot.key);
    for (uint64_t key : keys) b.erase(b.find(key, mix(key)));
  }
}

void Table::clear() {
  for (Bucket& b : buckets_) {
    std::lock_guard lock(b.mutex());
    b.clear();
  }
  for (auto& count : by_slot_) count.store(0);
  rows_.store(0);
}

}  // namespace paddock::table
