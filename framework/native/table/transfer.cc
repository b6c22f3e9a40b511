// Rows out of a table and into one, for files. A bucket is read under its lock, so training goes on meanwhile.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <shared_mutex>

#include "core/parallel.h"
#include "table/table.h"

namespace paddock::table {
namespace {

// Puts `rows` [n, width] into `all` from row `at` on.
template <class T>
void put(const std::vector<T>& rows, const Tensor& all, int64_t at, int64_t width) {
  if (!rows.empty()) std::memcpy(all.data<T>() + at * width, rows.data(), rows.size() * sizeof(T));
}

}  // namespace

// Rows of one bucket, in arrays as in Rows.
struct Table::BucketRows {
  std::vector<int64_t> keys;
  std::vector<float> values, states, counts;
  std::vector<int32_t> numbers;
};

void Table::read_bucket(int number, uint32_t version, bool settled, bool values_only, BucketRows& to) {
  Bucket& b = buckets_[static_cast<size_t>(number)];
  std::vector<float> words(static_cast<size_t>(config_.dim + layout_.state));
  std::lock_guard lock(b.mutex());
  size_t n = 0;
  for (uint32_t r = 0; r < b.rows(); ++r) n += meta_of(b.row(r), layout_).version > version;
  const auto dim = static_cast<size_t>(config_.dim), state = static_cast<size_t>(layout_.state);
  to.keys.reserve(n);
  to.values.resize(n * dim);
  if (!values_only) {
    to.states.resize(n * state);
    to.counts.resize(n * 2);
    to.numbers.resize(n * 3);
  }
  for (uint32_t r = 0; r < b.rows(); ++r) {
    char* row = b.row(r);
    const RowMeta& m = meta_of(row, layout_);
    if (m.version <= version) continue;
    const size_t i = to.keys.size();
    to.keys.push_back(static_cast<int64_t>(m.key));
    const float* from = value_of(row);
    uint32_t steps = m.steps;
    if (settled && stepping_.replays()) {
      std::copy(from, from + words.size(), words.begin());
      stepping_.catch_up(words.data(), words.data() + dim, steps, m.touched, stepping_.step());
      from = words.data();
    }
    std::copy(from, from + dim, to.values.begin() + static_cast<int64_t>(i * dim));
    if (values_only) continue;
    std::copy(from + dim, from + dim + state, to.states.begin() + static_cast<int64_t>(i * state));
    to.counts[2 * i] = m.show;
    to.counts[2 * i + 1] = m.click;
    to.numbers[3 * i] = static_cast<int32_t>(m.unseen);
    to.numbers[3 * i + 1] = static_cast<int32_t>(steps);
    to.numbers[3 * i + 2] = static_cast<int32_t>(m.touched);
  }
}

Rows Table::read_rows(int begin, int end, uint32_t version, bool settled, bool values_only) {
  const Visit visit;
  std::shared_lock<std::shared_mutex> history;
  if (stepping_.replays()) history = std::shared_lock(stepping_.history());
  std::vector<BucketRows> parts(static_cast<size_t>(end - begin));
  parallel_for(end - begin, 1, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i)
      read_bucket(begin + static_cast<int>(i), version, settled, values_only, parts[static_cast<size_t>(i)]);
  });
  std::vector<int64_t> starts{0};
  for (const BucketRows& part : parts) starts.push_back(starts.back() + static_cast<int64_t>(part.keys.size()));
  const int64_t n = starts.back(), other = values_only ? 0 : n;
  Rows rows;
  rows.keys = Tensor(TensorType{{n}, DType::kI64});
  rows.values = Tensor(TensorType{{n, config_.dim}, DType::kF32});
  rows.states = Tensor(TensorType{{other, layout_.state}, DType::kF32});
  rows.counts = Tensor(TensorType{{other, 2}, DType::kF32});
  rows.numbers = Tensor(TensorType{{other, 3}, DType::kI32});
  for (size_t i = 0; i < parts.size(); ++i) {
    put(parts[i].keys, rows.keys, starts[i], 1);
    put(parts[i].values, rows.values, starts[i], config_.dim);
    put(parts[i].states, rows.states, starts[i], layout_.state);
    put(parts[i].counts, rows.counts, starts[i], 2);
    put(parts[i].numbers, rows.numbers, starts[i], 3);
    parts[i] = {};
  }
  return rows;
}

std::vector<int64_t> Table::removed(uint32_t version) {
  const Visit visit;
  std::vector<int64_t> keys;
  for (Bucket& b : buckets_) {
    std::lock_guard lock(b.mutex());
    for (const Removal& r : b.removals())
      if (r.version > version) keys.push_back(static_cast<int64_t>(r.key));
  }
  return keys;
}

void Table::forget_removals(uint32_t version) {
  const Visit visit;
  notes_removals_.store(true);
  for (Bucket& b : buckets_) {
    std::lock_guard lock(b.mutex());
    std::erase_if(b.removals(), [=](const Removal& r) { return r.version <= version; });
  }
}

Candidates Table::read_candidates(int begin, int end) {
  const Visit visit;
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
  const Visit visit;
  const ReadGate::Change change(gate_);
  at_each(keys, count, [&](int64_t i, uint64_t key, uint64_t hash, Bucket& b) {
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
  });
}

void Table::write_candidates(const int64_t* keys, int64_t count, const int32_t* waiting) {
  const Visit visit;
  const ReadGate::Change change(gate_);
  at_each(keys, count, [&](int64_t i, uint64_t key, uint64_t hash, Bucket& b) {
    Slot* slot = b.find(key, hash);
    if (slot && slot->has_row()) return;
    if (!slot) slot = b.insert(key, hash);
    slot->waiting = static_cast<uint32_t>(waiting[i]);
  });
}

void Table::clear_candidates() {
  const Visit visit;
  const ReadGate::Change change(gate_);
  for (Bucket& b : buckets_) {
    std::lock_guard lock(b.mutex());
    std::vector<uint64_t> keys;
    for (const Slot& slot : b.slots())
      if (slot.row == Slot::kCandidate) keys.push_back(slot.key);
    for (uint64_t key : keys) b.erase(b.find(key, mix(key)));
  }
}

void Table::clear() {
  const Visit visit;
  const ReadGate::Change change(gate_);
  for (Bucket& b : buckets_) {
    std::lock_guard lock(b.mutex());
    b.clear();
  }
  for (auto& count : by_slot_) count.store(0);
  rows_.store(0);
}

}  // namespace paddock::table
