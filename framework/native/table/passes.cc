// What happens to rows between batches: ends of passes, removal by hand, counters.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "core/parallel.h"
#include "table/table.h"

namespace paddock::table {
namespace {

constexpr uint32_t kMostUnseen = 255;  // passes that a candidate counts

}  // namespace

int64_t Table::shrink(int first, int last) {
  const Visit visit;
  const ReadGate::Change change(gate_);
  std::atomic<int64_t> gone{0};
  parallel_for(last - first, 1, [&](int64_t begin, int64_t end) {
    int64_t here = 0;
    for (int64_t b = first + begin; b < first + end; ++b) shrink_bucket(buckets_[static_cast<size_t>(b)], here);
    gone.fetch_add(here, std::memory_order_relaxed);
  });
  return gone.load();
}

void Table::shrink_bucket(Bucket& b, int64_t& gone) {
  const EvictionConfig& e = config_.eviction;
  const auto decay = static_cast<float>(e.decay);
  std::lock_guard lock(b.mutex());
  for (uint32_t r = b.rows(); r-- > 0;) {  // the last row takes the place of one that goes: it has been looked at
    RowMeta& m = meta_of(b.row(r), layout_);
    m.show *= decay;
    m.click *= decay;
    if (m.unseen != ~uint32_t{0}) ++m.unseen;
    const bool stale = e.most_unseen >= 0 && m.unseen > e.most_unseen;
    if (!stale && score(m) >= e.least_score) continue;
    drop(b, b.find(m.key, mix(m.key)), true);
    ++gone;
  }
  std::vector<uint64_t> tired;
  for (Slot& slot : b.slots()) {
    if (slot.row != Slot::kCandidate) continue;
    const uint32_t score = static_cast<uint32_t>(decay * static_cast<float>(slot.waiting >> 8)),
                   unseen = std::min((slot.waiting & 255) + 1, kMostUnseen);
    slot.waiting = score << 8 | unseen;
    if (score == 0 || (e.most_unseen >= 0 && unseen > e.most_unseen)) tired.push_back(slot.key);
  }
  for (uint64_t key : tired) b.erase(b.find(key, mix(key)));
  b.fit();
}

void Table::age(int64_t passes) {
  const Visit visit;
  const ReadGate::Change change(gate_);
  const auto decay = static_cast<float>(config_.eviction.decay);
  parallel_for(buckets(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Bucket& b = buckets_[static_cast<size_t>(i)];
      std::lock_guard lock(b.mutex());
      for (uint32_t r = 0; r < b.rows(); ++r) {
        RowMeta& m = meta_of(b.row(r), layout_);
        for (int64_t p = 0; p < passes; ++p) {
          m.show *= decay;
          m.click *= decay;
          if (m.unseen != ~uint32_t{0}) ++m.unseen;
        }
      }
    }
  });
}

int64_t Table::forget(const int64_t* keys, int64_t count) {
  const Visit visit;
  const ReadGate::Change change(gate_);
  int64_t gone = 0;
  at_each(keys, count, [&](int64_t, uint64_t key, uint64_t hash, Bucket& b) {
    Slot* slot = b.find(key, hash);
    if (!slot) return;
    gone += slot->has_row();
    drop(b, slot, false);
  });
  return gone;
}

int64_t Table::set_counts(const int64_t* keys, int64_t count, const float* shows, const float* clicks) {
  const Visit visit;
  const ReadGate::Change change(gate_);
  int64_t set = 0;
  at_each(keys, count, [&](int64_t i, uint64_t key, uint64_t hash, Bucket& b) {
    const Slot* slot = b.find(key, hash);
    if (!slot || !slot->has_row()) return;
    RowMeta& m = meta_of(b.row(slot->row), layout_);
    m.show = shows[i];
    m.click = clicks[i];
    m.version = version_.load(std::memory_order_relaxed);
    ++set;
  });
  return set;
}

void Table::counts(const int64_t* keys, int64_t count, float* outputs) {
  const Visit visit;
  at_each(keys, count, [&](int64_t i, uint64_t key, uint64_t hash, Bucket& b) {
    float* out = outputs + 4 * i;
    const Slot* slot = b.find(key, hash);
    if (!slot || !slot->has_row()) {
      std::fill_n(out, 4, -1.0f);
      return;
    }
    const RowMeta& m = meta_of(b.row(slot->row), layout_);
    out[0] = m.show;
    out[1] = m.click;
    out[2] = static_cast<float>(m.unseen);
    out[3] = static_cast<float>(m.steps);
  });
}

}  // namespace paddock::table
