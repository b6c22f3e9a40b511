// A counting sort by bucket, in chunks that threads share out: stable, so the order does not depend on them.
#include "table/batch.h"

#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"

namespace paddock::table {
namespace {

constexpr int64_t kChunk = 8192;  // keys

int64_t total(std::span<const GradientPart> parts) {
  int64_t count = 0;
  for (const GradientPart& part : parts) count += part.count;
  if (count > INT32_MAX) fail(ErrorKind::kShape, "table: one update takes at most 2^31 - 1 keys, not ", count);
  return count;
}

}  // namespace

Batch::Batch(std::span<const GradientPart> parts, int64_t dim, int bucket_bits)
    : parts_(parts),
      dim_(dim),
      count_(total(parts)),
      memory_(static_cast<size_t>(count_) * sizeof(Item)),
      items_(memory_.as<Item>()) {
  for (const GradientPart& part : parts) {
    clicked_ = clicked_ || part.clicks;
    shown_ = shown_ || part.shown;
  }
  sort(bucket_bits);
}

template <class Visit>
void Batch::for_each_key(int64_t begin, int64_t end, Visit visit) const {
  int64_t start = 0;
  for (const GradientPart& part : parts_) {
    const int64_t from = std::max(begin, start), to = std::min(end, start + part.count);
    for (int64_t i = from; i < to; ++i) visit(i, static_cast<uint64_t>(part.keys[i - start]));
    start += part.count;
  }
}

void Batch::sort(int bucket_bits) {
  const auto buckets = size_t{1} << bucket_bits;
  const int64_t chunks = (count_ + kChunk - 1) / kChunk;
  std::vector<int32_t> places(static_cast<size_t>(chunks) * buckets, 0);  // how many, then where each chunk's begin
  auto in_chunk = [&](int64_t chunk, auto visit) {
    int32_t* at = places.data() + static_cast<size_t>(chunk) * buckets;
    for_each_key(chunk * kChunk, std::min(count_, (chunk + 1) * kChunk),
                 [&](int64_t place, uint64_t key) { visit(at[bucket_of(mix(key), bucket_bits)], place, key); });
  };
  parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) in_chunk(c, [](int32_t& n, int64_t, uint64_t) { ++n; });
  });
  starts_.assign(buckets + 1, 0);
  int32_t next = 0;
  for (size_t b = 0; b < buckets; ++b) {
    starts_[b] = next;
    for (int64_t c = 0; c < chunks; ++c) {
      int32_t& n = places[static_cast<size_t>(c) * buckets + b];
      const int32_t here = n;
      n = next;
      next += here;
    }
  }
  starts_[buckets] = next;
  parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c)
      in_chunk(c, [&](int32_t& at, int64_t place, uint64_t key) {
        items_[at++] = {key, static_cast<int32_t>(place), kNone};
      });
  });
}

void Batch::find_uniques(int bucket, Workspace& w) const {
  const int32_t begin = starts_[static_cast<size_t>(bucket)], end = starts_[static_cast<size_t>(bucket) + 1];
  size_t slots = 4;
  while (slots < 2 * static_cast<size_t>(end - begin)) slots *= 2;
  w.heads.assign(slots, kNone);
  w.uniques.clear();
  for (int32_t k = begin; k < end; ++k) {
    Item& item = items_[k];
    item.next = kNone;
    const uint64_t hash = mix(item.key);
    size_t i = hash & (slots - 1);
    while (w.heads[i] != kNone && w.uniques[static_cast<size_t>(w.heads[i])].key != item.key) i = (i + 1) & (slots - 1);
    if (w.heads[i] == kNone) {
      w.heads[i] = static_cast<int32_t>(w.uniques.size());
      w.uniques.push_back({item.key, hash, k, k, 1});
    } else {
      UniqueKey& u = w.uniques[static_cast<size_t>(w.heads[i])];
      items_[u.last].next = k;
      u.last = k;
      ++u.count;
    }
  }
}

// The part that a place is in; `place` becomes its number there.
const GradientPart& Batch::part_of(int64_t& place) const {
  size_t i = 0;
  for (; place >= parts_[i].count; ++i) place -= parts_[i].count;
  return parts_[i];
}

const float* Batch::gradient(int64_t place) const {
  const GradientPart& part = part_of(place);
  return part.grads + place * dim_;
}

const float* Batch::sum_of(const UniqueKey& u, Workspace& w) const {
  const float* first = first_gradient(u);
  if (u.count == 1) return first;
  w.sum.assign(first, first + dim_);
  for (int32_t k = items_[u.first].next; k != kNone; k = items_[k].next) {
    const float* grad = gradient(items_[k].place);
    for (int64_t j = 0; j < dim_; ++j) w.sum[static_cast<size_t>(j)] += grad[j];
  }
  return w.sum.data();
}

double Batch::clicks_of(const UniqueKey& u) const {
  double clicks = 0;
  for (int32_t k = clicked_ ? u.first : kNone; k != kNone; k = items_[k].next) {
    int64_t place = items_[k].place;
    const GradientPart& part = part_of(place);
    if (part.clicks) clicks += part.clicked[place * part.clicks / part.count];
  }
  return clicks;
}

double Batch::shows_of(const UniqueKey& u) const {
  if (!shown_) return u.count;
  double shows = 0;
  for_each_place(u, [&](int64_t place) {
    const GradientPart& part = part_of(place);
    shows += part.shown ? double{part.shown[place]} : 1;
  });
  return shows;
}

}  // namespace paddock::table
