// Making a table, and looking rows up: hash a window of keys, ask for index lines, ask for rows, then copy.
#include "table/table.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <shared_mutex>

#include "core/parallel.h"

namespace paddock::table {
namespace {

constexpr int64_t kWindow = 64;         // keys whose lines are on their way at the same time
constexpr int64_t kLookupGrain = 1024;  // keys a thread takes at a time
constexpr size_t kLeastBlock = 16 << 10;
constexpr int64_t kLine = 64;

// Room for a power of two of rows.
size_t block_bytes(const RowLayout& layout) {
  const auto stride = static_cast<size_t>(layout.stride);
  size_t rows = 1;
  while (rows * stride < kLeastBlock) rows *= 2;
  return (rows * stride + kLine - 1) / kLine * kLine;
}

// Held only where steps may be added meanwhile.
std::shared_lock<std::shared_mutex> reading(Stepping& s) {
  return s.replays() ? std::shared_lock(s.history()) : std::shared_lock<std::shared_mutex>();
}

}  // namespace

Table::Table(TableConfig config)
    : config_(std::move(config)),
      layout_(config_.dim, state_words(config_.rule.kind, config_.dim)),
      initial_(config_.init, config_.seed),
      stepping_(config_.rule, config_.dim),
      arena_(block_bytes(layout_)),
      buckets_(size_t{1} << config_.bucket_bits) {
  int64_t columns = 0;
  for (const InitPart& part : config_.init) columns += part.columns;
  if (config_.dim < 1 || columns != config_.dim)
    fail(ErrorKind::kAttribute, "table ", config_.name, ": dim is ", config_.dim, " but init covers ", columns,
         " columns");
  for (Bucket& b : buckets_) b.start(&layout_, &arena_);
}

Table::~Table() = default;

void Table::lookup(const int64_t* keys, int64_t count, float* out, bool train) {
  const auto lock = reading(stepping_);
  parallel_for(count, kLookupGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kWindow)
      lookup_window(keys + i, std::min(kWindow, end - i), out + i * config_.dim, train);
  });
}

void Table::lookup_window(const int64_t* keys, int64_t count, float* out, bool train) {
  struct Seen {
    char* row;
    uint32_t moves;
  };
  uint64_t hashes[kWindow];
  Seen seen[kWindow];
  for (int64_t i = 0; i < count; ++i) {
    hashes[i] = mix(static_cast<uint64_t>(keys[i]));
    bucket(hashes[i]).prefetch(hashes[i]);
  }
  auto find_row = [&](Bucket& b, int64_t i) -> char* {
    const Slot* slot = b.find(static_cast<uint64_t>(keys[i]), hashes[i]);
    return slot && slot->has_row() ? b.row(slot->row) : nullptr;
  };
  const int64_t touched = stepping_.replays() ? layout_.stride : config_.dim * static_cast<int64_t>(sizeof(float));
  for (int64_t i = 0; i < count; ++i) {
    Bucket& b = bucket(hashes[i]);
    std::lock_guard lock(b.mutex());
    seen[i] = {find_row(b, i), b.moves()};
    for (int64_t at = 0; seen[i].row && at < touched; at += kLine) __builtin_prefetch(seen[i].row + at);
  }
  const uint32_t step = stepping_.step();
  int64_t missed = 0;
  for (int64_t i = 0; i < count; ++i) {
    Bucket& b = bucket(hashes[i]);
    float* to = out + i * config_.dim;
    {
      std::lock_guard lock(b.mutex());
      char* row = seen[i].row && seen[i].moves == b.moves() ? seen[i].row : find_row(b, i);
      if (row) {
        if (stepping_.replays()) {
          RowMeta& m = meta_of(row, layout_);
          stepping_.catch_up(value_of(row), value_of(row) + config_.dim, m.steps, m.touched, step);
        }
        std::memcpy(to, row, static_cast<size_t>(config_.dim) * sizeof(float));
        continue;
      }
    }
    ++missed;
    read_absent(static_cast<uint64_t>(keys[i]), to, train, step);
  }
  if (missed) missed_.fetch_add(missed, std::memory_order_relaxed);
}

void Table::read_absent(uint64_t key, float* out, bool train, uint32_t step) const {
  if (!train || config_.admission.kind != AdmissionKind::kAll) {
    std::fill(out, out + config_.dim, 0.0f);
    return;
  }
  initial_.fill(key, out);
  if (!stepping_.replays() || config_.rule.l2 == 0) return;
  std::vector<float> state(static_cast<size_t>(layout_.state), 0.0f);  // weight decay has worked on it from step 1 on
  uint32_t steps = 0;
  stepping_.catch_up(out, state.data(), steps, 0, step);
}

std::vector<float> Table::rates() {
  const auto lock = reading(stepping_);
  return stepping_.rates();
}

void Table::set_rates(const std::vector<float>& rates) {
  std::unique_lock lock(stepping_.history());
  stepping_.set_rates(rates);
}

Stats Table::stats() {
  Stats s;
  for (Bucket& b : buckets_) {
    std::lock_guard lock(b.mutex());
    s.candidates += b.candidates();
    s.index_bytes += b.index_bytes();
  }
  s.rows = rows();
  s.row_bytes = static_cast<int64_t>(arena_.used_bytes());
  s.admitted = admitted_.load();
  s.rejected = rejected_.load();
  s.evicted = evicted_.load();
  s.missed = missed_.load();
  s.steps = updates_.load();
  return s;
}

std::vector<int64_t> Table::rows_by_slot() const {
  std::vector<int64_t> rows;
  for (const auto& count : by_slot_) rows.push_back(count.load(std::memory_order_relaxed));
  return rows;
}

}  // namespace paddock::table
