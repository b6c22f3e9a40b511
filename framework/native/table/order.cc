// A counting sort by bucket, in chunks that threads share out: stable, so the order does not depend on them.
#include "table/order.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/error.h"
#include "core/parallel.h"

namespace paddock::table {
namespace {

constexpr int64_t kChunk = 8192;        // keys
constexpr int64_t kKeysPerTask = 2048;  // whose equal ones a thread finds at a time
constexpr size_t kMostKept = 8;         // orders: as many as there may be threads that train at the same time
constexpr int64_t kMostKeys = 1 << 20;  // of all orders but the latest
constexpr uint32_t kNone = ~uint32_t{0};

int64_t total(std::span<const Keys> runs) {
  size_t count = 0;
  for (Keys run : runs) count += run.size();
  if (count > INT32_MAX) fail(ErrorKind::kShape, "table: one update takes at most 2^31 - 1 keys, not ", count);
  return static_cast<int64_t>(count);
}

template <class Visit>
void for_each_key(std::span<const Keys> runs, int64_t begin, int64_t end, Visit visit) {
  int64_t start = 0;
  for (Keys run : runs) {
    const auto size = static_cast<int64_t>(run.size());
    const int64_t from = std::max(begin, start), to = std::min(end, start + size);
    for (int64_t i = from; i < to; ++i) visit(i, run[static_cast<size_t>(i - start)]);
    start += size;
  }
}

}  // namespace

KeyOrder::KeyOrder(std::span<const Keys> runs, int bucket_bits)
    : count_(total(runs)),
      moves_(size_t{1} << bucket_bits, -1),
      memory_(static_cast<size_t>(count_) * (sizeof(Occurrence) + sizeof(UniqueKey) + sizeof(int64_t))),
      occurrences_(memory_.as<Occurrence>()),
      uniques_(reinterpret_cast<UniqueKey*>(occurrences_ + count_)),
      keys_(reinterpret_cast<int64_t*>(uniques_ + count_)) {
  sort(runs, bucket_bits);
  const auto buckets = static_cast<int64_t>(moves_.size());
  unique_counts_.resize(moves_.size());
  parallel_for(buckets, std::max<int64_t>(1, buckets * kKeysPerTask / std::max<int64_t>(1, count_)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t b = begin; b < end; ++b) find_uniques(static_cast<int>(b));
               });
}

void KeyOrder::sort(std::span<const Keys> runs, int bucket_bits) {
  const auto buckets = size_t{1} << bucket_bits;
  const int64_t chunks = (count_ + kChunk - 1) / kChunk;
  std::vector<int32_t> places(static_cast<size_t>(chunks) * buckets, 0);  // how many, then where each chunk's begin
  auto at = [&](int64_t chunk) { return places.data() + static_cast<size_t>(chunk) * buckets; };
  parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c)
      for_each_key(runs, c * kChunk, std::min(count_, (c + 1) * kChunk), [&, counts = at(c)](int64_t i, int64_t key) {
        keys_[i] = key;
        ++counts[bucket_of(mix(static_cast<uint64_t>(key)), bucket_bits)];
      });
  });
  starts_.assign(buckets + 1, 0);
  int32_t next = 0;
  for (size_t b = 0; b < buckets; ++b) {
    starts_[b] = next;
    for (int64_t c = 0; c < chunks; ++c) {
      int32_t& n = at(c)[b];
      const int32_t here = n;
      n = next;
      next += here;
    }
  }
  starts_[buckets] = next;
  parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      int32_t* to = at(c);
      for (int64_t i = c * kChunk; i < std::min(count_, (c + 1) * kChunk); ++i) {
        const auto key = static_cast<uint64_t>(keys_[i]);
        const uint64_t hash = mix(key);
        occurrences_[to[bucket_of(hash, bucket_bits)]++] = {key, static_cast<int32_t>(i), static_cast<uint32_t>(hash)};
      }
    }
  });
}

// An occurrence holds its hash's low bits until its key has a number.
void KeyOrder::find_uniques(int bucket) {
  thread_local std::vector<uint32_t> memory;
  const auto b = static_cast<size_t>(bucket);
  Occurrence *first = occurrences_ + starts_[b], *last = occurrences_ + starts_[b + 1];
  UniqueKey* uniques = uniques_ + starts_[b];
  size_t slots = 4;
  while (slots < 2 * static_cast<size_t>(last - first)) slots *= 2;
  memory.assign(slots, kNone);
  uint32_t* heads = memory.data();
  uint32_t count = 0;
  for (Occurrence* o = first; o < last; ++o) {
    size_t i = o->unique & (slots - 1);
    while (heads[i] != kNone && uniques[heads[i]].key != o->key) i = (i + 1) & (slots - 1);
    if (heads[i] == kNone) {
      heads[i] = count;
      uniques[count++] = {o->key, nullptr, 0};
    }
    o->unique = heads[i];
    ++uniques[heads[i]].count;
  }
  unique_counts_[b] = static_cast<int32_t>(count);
}

bool KeyOrder::is_of(Keys keys) const {
  if (static_cast<int64_t>(keys.size()) != count_) return false;
  std::atomic<bool> same{true};
  parallel_for(count_, kChunk, [&](int64_t begin, int64_t end) {
    if (std::memcmp(keys.data() + begin, keys_ + begin, static_cast<size_t>(end - begin) * sizeof(int64_t)) != 0)
      same.store(false, std::memory_order_relaxed);
  });
  return same.load();
}

void OrderShelf::put(std::shared_ptr<KeyOrder> order) {
  std::vector<std::shared_ptr<KeyOrder>> gone;  // freed behind the lock
  std::lock_guard lock(mutex_);
  int64_t keys = 0;
  for (const auto& kept : kept_) keys += kept->count();
  while (!kept_.empty() && (kept_.size() >= kMostKept || keys > kMostKeys)) {
    keys -= kept_.front()->count();
    gone.push_back(std::move(kept_.front()));
    kept_.erase(kept_.begin());
  }
  kept_.push_back(std::move(order));
}

std::shared_ptr<KeyOrder> OrderShelf::find(Keys keys, bool take) {
  std::vector<std::shared_ptr<KeyOrder>> kept;
  {
    std::lock_guard lock(mutex_);
    kept = kept_;
  }
  auto found = std::find_if(kept.rbegin(), kept.rend(), [&](const auto& order) { return order->is_of(keys); });
  if (found == kept.rend()) return nullptr;
  if (!take) return *found;
  std::lock_guard lock(mutex_);
  auto at = std::find(kept_.begin(), kept_.end(), *found);
  if (at == kept_.end()) return nullptr;  // another thread has it
  kept_.erase(at);
  return *found;
}

}  // namespace paddock::table
