// Making a table, and looking rows up: a window of keys after the other, or in training the keys of a bucket. Lines of
// the index are asked for first, then rows, then rows are copied; where nothing changes the table meanwhile, no lock is
// taken.
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
constexpr int64_t kOrdered = 1024;      // keys of a look-up from which on it pays to sort them
constexpr int64_t kFloat = sizeof(float);
constexpr size_t kLeastBlock = 16 << 10;
constexpr int64_t kLine = 64;

// Room for a power of two of rows.
size_t block_bytes(const RowLayout& layout) {
  const auto stride = static_cast<size_t>(layout.stride);
  size_t rows = 1;
  while (rows * stride < kLeastBlock) rows *= 2;
  return (rows * stride + kLine - 1) / kLine * kLine;
}

// A few numbers: a call of memcpy would cost more than they do.
void copy_row(const float* from, int64_t dim, float* to) {
  constexpr int64_t kStep = 4;
  int64_t j = 0;
  for (; j + kStep <= dim; j += kStep) std::memcpy(to + j, from + j, kStep * sizeof(float));
  for (; j < dim; ++j) to[j] = from[j];
}

// The bucket's lock, unless this thread reads alone.
std::unique_lock<Latch> lock(Bucket& b, bool alone) {
  return alone ? std::unique_lock<Latch>() : std::unique_lock<Latch>(b.mutex());
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
  for (Bucket& b : buckets_) b.start(&layout_, &arena_, &pages_);
}

Table::~Table() = default;

void Table::lookup(const int64_t* keys, int64_t count, float* out, bool train) {
  const Visit visit;
  const auto lock = reading(stepping_);
  if (train && count >= kOrdered && count <= INT32_MAX) {
    const Keys run(keys, static_cast<size_t>(count));
    auto order = std::make_shared<KeyOrder>(std::span(&run, 1), config_.bucket_bits);
    parallel_for(buckets(), bucket_grain(count), [&](int64_t begin, int64_t end) {
      lookup_buckets(*order, static_cast<int>(begin), static_cast<int>(end), out);
    });
    orders_.put(std::move(order));
    return;
  }
  parallel_for(count, kLookupGrain, [&](int64_t begin, int64_t end) {
    const ReadGate::Read read(gate_, !stepping_.replays());
    for (int64_t i = begin; i < end; i += kWindow)
      lookup_window(keys + i, std::min(kWindow, end - i), out + i * config_.dim, train, read.alone());
  });
}

void Table::lookup_window(const int64_t* keys, int64_t count, float* out, bool train, bool alone) {
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
  auto find_row = [&](Bucket& b, int64_t i) { return b.find_row(static_cast<uint64_t>(keys[i]), hashes[i]); };
  const int64_t touched = stepping_.replays() ? layout_.stride : config_.dim * kFloat;
  for (int64_t i = 0; i < count; ++i) {
    Bucket& b = bucket(hashes[i]);
    const auto held = lock(b, alone);
    seen[i] = {find_row(b, i), b.moves()};
    if (seen[i].row) prefetch_lines(seen[i].row, touched);
  }
  const uint32_t step = stepping_.step();
  int64_t missed = 0;
  for (int64_t i = 0; i < count; ++i) {
    Bucket& b = bucket(hashes[i]);
    float* to = out + i * config_.dim;
    {
      const auto held = lock(b, alone);
      char* row = seen[i].row && seen[i].moves == b.moves() ? seen[i].row : find_row(b, i);
      if (row) {
        if (stepping_.replays()) {
          RowMeta& m = meta_of(row, layout_);
          stepping_.catch_up(value_of(row), value_of(row) + config_.dim, m.steps, m.touched, step);
        }
        copy_row(value_of(row), config_.dim, to);
        continue;
      }
    }
    ++missed;
    read_absent(static_cast<uint64_t>(keys[i]), to, train, step);
  }
  if (missed) missed_.fetch_add(missed, std::memory_order_relaxed);
}

void Table::lookup_buckets(KeyOrder& order, int begin, int end, float* out) {
  const ReadGate::Read read(gate_, !stepping_.replays());
  for (int b = begin - 2; b < end; ++b) {
    if (b + 2 < end)
      for (const UniqueKey& u : order.uniques(b + 2)) buckets_[static_cast<size_t>(b + 2)].prefetch(u.hash());
    if (b + 1 >= begin && b + 1 < end) find_rows(order, b + 1, read.alone());
    if (b >= begin) lookup_bucket(order, b, out, read.alone());
  }
}

void Table::find_rows(KeyOrder& order, int number, bool alone) {
  Bucket& b = buckets_[static_cast<size_t>(number)];
  const int64_t touched = stepping_.replays() ? layout_.stride : config_.dim * kFloat;
  const auto held = lock(b, alone);
  for (UniqueKey& u : order.uniques(number)) {
    u.row = b.find_row(u.key, u.hash());
    if (u.row) prefetch_lines(u.row, touched);
  }
  order.moves(number) = b.moves();
}

// Reads each different row once, then hands it to all places of its key.
void Table::lookup_bucket(KeyOrder& order, int number, float* out, bool alone) {
  thread_local std::vector<float> memory;
  const auto uniques = order.uniques(number);
  if (uniques.empty()) return;
  const int64_t dim = config_.dim;
  const uint32_t step = stepping_.step();
  memory.resize(uniques.size() * static_cast<size_t>(dim));
  float* values = memory.data();
  Bucket& b = buckets_[static_cast<size_t>(number)];
  {
    const auto held = lock(b, alone);
    const bool moved = order.moves(number) != b.moves();
    float* to = values;
    for (UniqueKey& u : uniques) {
      if (moved || !u.row) u.row = b.find_row(u.key, u.hash());
      if (u.row && stepping_.replays()) {
        RowMeta& m = meta_of(u.row, layout_);
        stepping_.catch_up(value_of(u.row), value_of(u.row) + dim, m.steps, m.touched, step);
      }
      if (u.row) copy_row(value_of(u.row), dim, to);
      to += dim;
    }
    order.moves(number) = b.moves();
  }
  int64_t missed = 0;
  float* to = values;
  for (const UniqueKey& u : uniques) {
    if (!u.row) {
      read_absent(u.key, to, true, step);
      missed += u.count;
    }
    to += dim;
  }
  if (missed) missed_.fetch_add(missed, std::memory_order_relaxed);
  for (const Occurrence& o : order.occurrences(number)) copy_row(values + o.unique * dim, dim, out + o.place * dim);
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
  const Visit visit;
  const auto lock = reading(stepping_);
  return stepping_.rates();
}

void Table::set_rates(const std::vector<float>& rates) {
  const Visit visit;
  std::unique_lock lock(stepping_.history());
  stepping_.set_rates(rates);
}

Stats Table::stats() {
  const Visit visit;
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
