// One step of the rule for a batch: keys are sorted by bucket, equal ones summed in order, and each bucket's rows are
// updated by one thread under its lock. So the bits do not depend on the number of threads.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <shared_mutex>

#include "core/parallel.h"
#include "table/table.h"

namespace paddock::table {
namespace {

constexpr int64_t kKeysPerTask = 1024;
constexpr int64_t kAhead = 8;       // keys whose rows are on their way
constexpr double kRoomShare = 0.1;  // of a full bucket that goes at a time

}  // namespace

int64_t Table::bucket_grain(int64_t keys) const {
  return std::max<int64_t>(1, buckets() * kKeysPerTask / std::max<int64_t>(1, keys));
}

// The order that the look-up of the same keys has made, if there was one.
Batch Table::batch_of(std::span<const GradientPart> parts, bool take) {
  std::shared_ptr<KeyOrder> order;
  if (parts.size() == 1) order = orders_.find({parts[0].keys, static_cast<size_t>(parts[0].count)}, take);
  return Batch(parts, config_.dim, config_.bucket_bits, std::move(order));
}

double Table::sum_of_squares(std::span<const GradientPart> parts) {
  const Visit visit;
  const Batch batch = batch_of(parts, false);
  std::vector<double> partial(buckets_.size(), 0.0);
  parallel_for(buckets(), bucket_grain(batch.count()), [&](int64_t begin, int64_t end) {
    BucketSums sums;
    for (int64_t b = begin; b < end; ++b) {
      batch.sum(static_cast<int>(b), sums);
      for (float g : sums.grads) partial[static_cast<size_t>(b)] += double{g} * g;
    }
  });
  double total = 0;
  for (double p : partial) total += p;
  return total;
}

void Table::update(std::span<const GradientPart> parts, double lr, double scale) {
  const Visit visit;
  const Batch batch = batch_of(parts, true);
  if (!std::isfinite(scale)) return;
  if (may_refuse()) refuse_overflow(batch);
  std::unique_lock<std::shared_mutex> alone;  // a step of dense Adam belongs to one update
  if (stepping_.replays()) alone = std::unique_lock(stepping_.history());
  const ReadGate::Change change(gate_);
  const RowNumbers numbers = stepping_.begin(lr, scale);
  parallel_for(buckets(), bucket_grain(batch.count()), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      if (b + 1 < end) fetch_rows(batch.order().uniques(static_cast<int>(b + 1)));
      update_bucket(batch, static_cast<int>(b), numbers);
    }
  });
  updates_.fetch_add(1, std::memory_order_relaxed);
}

// Asks for the first rows of a bucket that a look-up has found. An address that is no longer a row's does no harm.
void Table::fetch_rows(std::span<const UniqueKey> uniques) const {
  for (const UniqueKey& u : uniques.first(std::min(uniques.size(), size_t{2 * kAhead})))
    if (u.row) prefetch_lines(u.row, layout_.stride);
}

// Three keys are in work: the line of the index of one, the row of the next, and the one whose turn it is. The index is
// not asked for rows that a look-up has found.
void Table::update_bucket(const Batch& batch, int number, const RowNumbers& numbers) {
  thread_local BucketSums memory;
  BucketSums& sums = memory;
  const auto uniques = batch.order().uniques(number);
  if (uniques.empty()) return;
  batch.sum(number, sums);
  Bucket& b = buckets_[static_cast<size_t>(number)];
  std::lock_guard lock(b.mutex());
  auto known = [&](const UniqueKey& u) { return batch.order().moves(number) == b.moves() ? u.row : nullptr; };
  const auto count = static_cast<int64_t>(uniques.size());
  for (int64_t i = -2 * kAhead; i < count; ++i) {
    if (i + 2 * kAhead < count) {
      const UniqueKey& u = uniques[static_cast<size_t>(i + 2 * kAhead)];
      if (!known(u)) b.prefetch(u.hash());
    }
    if (i + kAhead >= 0 && i + kAhead < count) {
      const UniqueKey& u = uniques[static_cast<size_t>(i + kAhead)];
      const char* row = known(u) ? u.row : b.find_row(u.key, u.hash());
      if (row) prefetch_lines(row, layout_.stride);
    }
    if (i < 0) continue;
    const auto k = static_cast<size_t>(i);
    const UniqueKey& u = uniques[k];
    const double shows = sums.shows.empty() ? u.count : sums.shows[k],
                 clicks = sums.clicks.empty() ? 0 : sums.clicks[k];
    char* row = row_for_update(b, u.key, known(u), shows, clicks);
    if (row) stepping_.apply(numbers, row, sums.grads.data() + i * config_.dim, meta_of(row, layout_), layout_);
  }
}

// The row that the gradient belongs to; null for a key that has none yet. The step that admits a key makes its row, and
// leaves its gradient out, which is that of the zeros that the key was read as.
char* Table::row_for_update(Bucket& b, uint64_t key, char* known, double shows, double clicks) {
  const uint64_t hash = mix(key);
  char* row = known ? known : b.find_row(key, hash);
  bool learns = true;
  if (!row) {
    Slot* slot = b.find(key, hash);
    learns = config_.admission.kind == AdmissionKind::kAll;
    if (!learns) {
      if (!slot) slot = b.insert(key, hash);
      if (!admits(key, *slot, shows, clicks)) {
        rejected_.fetch_add(1, std::memory_order_relaxed);
        return nullptr;
      }
    }
    make_room(b);  // may move slots
    slot = b.find(key, hash);
    row = give_row(b, slot ? slot : b.insert(key, hash), key);
  }
  RowMeta& m = meta_of(row, layout_);
  m.show += static_cast<float>(shows);
  m.click += static_cast<float>(clicks);
  m.unseen = 0;
  m.version = version_.load(std::memory_order_relaxed);
  return learns ? row : nullptr;
}

char* Table::add_row(Bucket& b, Slot* slot, uint64_t key) {
  char* row = b.add_row(slot, key);
  rows_.fetch_add(1, std::memory_order_relaxed);
  admitted_.fetch_add(1, std::memory_order_relaxed);
  by_slot_[static_cast<size_t>(slot_of(key))].fetch_add(1, std::memory_order_relaxed);
  return row;
}

char* Table::give_row(Bucket& b, Slot* slot, uint64_t key) {
  char* row = add_row(b, slot, key);
  initial_.fill(key, value_of(row));
  if (config_.rule.kind == RuleKind::kAdagrad || config_.rule.kind == RuleKind::kAdagradShared)
    std::fill_n(value_of(row) + config_.dim, layout_.state, static_cast<float>(config_.rule.initial));
  RowMeta& m = meta_of(row, layout_);
  m.steps = m.touched = stepping_.birth_step(stepping_.step());
  return row;
}

// Whether a key has been seen often enough, this time counted. A candidate holds its score in 1/256.
bool Table::admits(uint64_t key, Slot& slot, double shows, double clicks) const {
  const AdmissionConfig& a = config_.admission;
  double needed = a.threshold, gained = shows;
  if (a.kind == AdmissionKind::kScore) gained = (shows - clicks) * config_.show_weight + clicks * config_.click_weight;
  if (a.kind == AdmissionKind::kProbability) {
    // The occurrence at which a row of chances of `threshold` each first comes true, drawn once by key.
    const double u = initial_.draw(key);
    needed = a.threshold >= 1 ? 1 : std::max(1.0, std::ceil(std::log1p(-u) / std::log1p(-a.threshold)));
  }
  constexpr double kUnit = 256;
  constexpr uint32_t kMost = (1u << 24) - 1;
  const double units = std::clamp((slot.waiting >> 8) + std::round(gained * kUnit), 0.0, double{kMost});
  slot.waiting = static_cast<uint32_t>(units) << 8;
  return units >= std::min(std::round(needed * kUnit), double{kMost});
}

// Where rows beyond the limit push others out: a full bucket loses a tenth of its rows, those of the least score, of
// equal ones those touched longest ago, then by key.
void Table::make_room(Bucket& b) {
  if (config_.most_rows < 0 || config_.when_full != FullPolicy::kEvict) return;
  const int64_t most = std::max<int64_t>(1, config_.most_rows >> config_.bucket_bits);
  if (b.rows() < most) return;
  struct Rank {
    double score;
    uint32_t version;
    uint64_t key;
    auto operator<=>(const Rank&) const = default;
  };
  std::vector<Rank> ranks;
  for (uint32_t r = 0; r < b.rows(); ++r) {
    const RowMeta& m = meta_of(b.row(r), layout_);
    const double s = score(m);
    ranks.push_back({std::isnan(s) ? -HUGE_VAL : s, m.version, m.key});
  }
  const size_t go = std::max<size_t>(1, static_cast<size_t>(static_cast<double>(ranks.size()) * kRoomShare));
  std::partial_sort(ranks.begin(), ranks.begin() + static_cast<int64_t>(go), ranks.end());
  for (size_t i = 0; i < go; ++i) drop(b, b.find(ranks[i].key, mix(ranks[i].key)), true);
}

void Table::refuse_overflow(const Batch& batch) {
  if (rows() + batch.count() <= config_.most_rows) return;
  int64_t more = 0;
  for (int i = 0; i < buckets(); ++i) {
    Bucket& b = buckets_[static_cast<size_t>(i)];
    std::lock_guard lock(b.mutex());
    for (const UniqueKey& u : batch.order().uniques(i)) more += !b.find_row(u.key, u.hash());
  }
  if (rows() + more > config_.most_rows)
    fail(ErrorKind::kState, "table ", config_.name, ": ", rows(), " rows and ", more,
         " new keys are more than its limit of ", config_.most_rows,
         "; raise the limit, admit fewer keys, shrink() more often or make it with when_full='evict'");
}

void Table::drop(Bucket& b, Slot* slot, bool evicted) {
  const uint64_t key = slot->key;
  if (!slot->has_row()) {
    b.erase(slot);
    return;
  }
  b.remove_row(slot);
  if (notes_removals_.load(std::memory_order_relaxed))
    b.removals().push_back({key, version_.load(std::memory_order_relaxed)});
  rows_.fetch_sub(1, std::memory_order_relaxed);
  if (evicted) evicted_.fetch_add(1, std::memory_order_relaxed);
  by_slot_[static_cast<size_t>(slot_of(key))].fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace paddock::table
