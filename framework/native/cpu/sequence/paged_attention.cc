// The kernels of paged_attention, paged_weights and page_rows. Attention goes query by query: the heads that share keys
// go together, in blocks of keys whose borders are those of the sequence. So neither the batch nor the pages nor a
// prompt's parts change the order of a sum.
#include <cmath>

#include "cpu/elementwise/rows.h"
#include "cpu/movement/indices.h"
#include "cpu/sequence/offsets.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kKeys = 64;    // of a block
constexpr int64_t kQueries = 8;  // that a thread takes: they meet a block of keys in the first cache
constexpr int kHeads = 4;        // that go together

template <class T>
struct Pages {
  const T *q, *keys, *values;
  T* y;
  int64_t heads, shared, size, columns, width, page, span;  // `shared` heads have one of keys; span: pages of a table
  int64_t window;                                           // keys so far behind are out of sight; 0 for none
  T scale;
  const int64_t *tables, *lengths;
  const T *near_keys, *near_values;  // rows of distances -far ... 0, added to keys and values; null for none
  int64_t far;
};

// What a thread does: some queries of one sequence, and the heads of one head of keys.
struct Part {
  int64_t sequence, query, queries, head;  // `query`: the first, a row of q
  int64_t place;                           // of the first query in its sequence; below 0 it sees nothing
};

// What is known of one query after some blocks of keys.
template <class T>
struct Known {
  T largest, sum;
};

template <class T, bool kNear>
class Work {
 public:
  Work(const Pages<T>& p, const Part& part) : p_(p), part_(part) {}

  void run() {
    const int64_t last = part_.place + part_.queries;  // keys that the last query sees
    T* first = p_.y + part_.query * p_.columns + part_.head * p_.shared * p_.size;
    for (int64_t i = 0; i < part_.queries; ++i)
      std::fill(first + i * p_.columns, first + i * p_.columns + p_.shared * p_.size, T{0});
    for (int64_t h = 0; h < p_.shared; h += kHeads)
      for (int64_t key = begin(0) / kKeys * kKeys; key < last; key += kKeys) {
        find_rows(key, std::min(kKeys, last - key));
        for (int64_t i = 0; i < part_.queries; ++i) {
          const int64_t all = part_.place + i + 1 - key, seen = std::min(kKeys, all);
          from_ = std::max<int64_t>(0, begin(i) - key);
          if (kNear) {
            const int64_t query = part_.place + i - key;  // its place in the block
            for (int64_t j = 0; j < seen; ++j) near_[j] = (p_.far - std::min(p_.far, query - j)) * p_.size;
          }
          if (seen > from_)
            with_heads(std::min<int64_t>(kHeads, p_.shared - h), i, h, begin(i) >= key, seen, seen == all);
        }
      }
  }

 private:
  using V = Vec<T>;

  // The first key that query i sees.
  int64_t begin(int64_t i) const { return p_.window ? std::max<int64_t>(0, part_.place + i + 1 - p_.window) : 0; }

  void find_rows(int64_t key, int64_t count) {
    const int64_t* table = p_.tables + part_.sequence * p_.span;
    for (int64_t j = 0; j < count; ++j) {
      const int64_t row = table[(key + j) / p_.page] * p_.page + (key + j) % p_.page;
      rows_[j] = row * p_.width + part_.head * p_.size;
    }
  }

  void with_heads(int64_t count, int64_t i, int64_t h, bool first, int64_t seen, bool last) {
    switch (count) {
      case 1:
        return query<1>(i, h, first, seen, last);
      case 2:
        return query<2>(i, h, first, seen, last);
      case 3:
        return query<3>(i, h, first, seen, last);
      default:
        return query<4>(i, h, first, seen, last);
    }
  }

  template <int kCount>
  void query(int64_t i, int64_t h, bool first, int64_t seen, bool last) {
    const int64_t at = (part_.query + i) * p_.columns + (part_.head * p_.shared + h) * p_.size;
    T kept[kCount];
    int64_t j = from_;
    for (; j + 4 <= seen; j += 4) score<kCount, 4>(p_.q + at, j);
    for (; j < seen; ++j) score<kCount, 1>(p_.q + at, j);
    for (int g = 0; g < kCount; ++g) kept[g] = weigh(scores_[g] + from_, seen - from_, first, known_[i][g]);
    for (int64_t d = 0; d < p_.size; d += V::kSize) add<kCount>(p_.y + at, d, seen, kept);
    for (int g = 0; last && g < kCount; ++g) {
      const T factor = 1 / known_[i][g].sum;
      for (int64_t d = 0; d < p_.size; ++d) p_.y[at + g * p_.size + d] *= factor;
    }
  }

  // scores_[g][j ... j + kTogether - 1] = scale q_g k_j
  template <int kCount, int kTogether>
  void score(const T* q, int64_t j) {
    V sum[kCount][kTogether];
    for (int g = 0; g < kCount; ++g)
      for (int k = 0; k < kTogether; ++k) sum[g][k] = V::zero();
    const auto step = [&](int64_t d, auto load) __attribute__((always_inline)) {
      V key[kTogether];
#pragma GCC unroll 4
      for (int k = 0; k < kTogether; ++k) {
        key[k] = load(p_.keys + rows_[j + k] + d);
        if constexpr (kNear) key[k] = key[k] + load(p_.near_keys + near_[j + k] + d);
      }
#pragma GCC unroll 4
      for (int g = 0; g < kCount; ++g) {
        const V a = load(q + g * p_.size + d);
#pragma GCC unroll 4
        for (int k = 0; k < kTogether; ++k) sum[g][k] = fma(a, key[k], sum[g][k]);
      }
    };
    int64_t d = 0;
    for (; d + V::kSize <= p_.size; d += V::kSize) step(d, [](const T* x) { return V::load(x); });
    if (d < p_.size) step(d, [n = p_.size - d](const T* x) { return V::load_n(x, n); });
    for (int g = 0; g < kCount; ++g)
      for (int k = 0; k < kTogether; ++k) scores_[g][j + k] = p_.scale * reduce_add(sum[g][k]);
  }

  // Scores to weights, still to be divided by their sum; returns what y holds of earlier keys is multiplied by.
  static T weigh(T* s, int64_t seen, bool first, Known<T>& known) {
    const T before = first ? -std::numeric_limits<T>::infinity() : known.largest;
    const T largest = std::max(before, row_max(s, seen));
    row_exp(s, seen, largest, s);
    const T kept = first ? T{0} : math::exp(before - largest);
    const T own = row_sum<T>(seen, [s](auto at) { return at(s); });
    known.sum = first ? own : known.sum * kept + own;
    known.largest = largest;
    return kept;
  }

  // y_g = kept_g y_g + sum of weight times value, columns d ... of a vector.
  template <int kCount>
  void add(T* y, int64_t d, int64_t seen, const T* kept) const {
    const int64_t n = std::min<int64_t>(V::kSize, p_.size - d);
    V sum[kCount];
#pragma GCC unroll 4
    for (int g = 0; g < kCount; ++g) sum[g] = V::load_n(y + g * p_.size + d, n) * V::broadcast(kept[g]);
    const auto each = [&](auto load) __attribute__((always_inline)) {
      for (int64_t j = from_; j < seen; ++j) {
        V value = load(p_.values + rows_[j] + d);
        if constexpr (kNear) value = value + load(p_.near_values + near_[j] + d);
#pragma GCC unroll 4
        for (int g = 0; g < kCount; ++g) sum[g] = fma(V::broadcast(scores_[g][j]), value, sum[g]);
      }
    };
    if (n == V::kSize)
      each([](const T* x) { return V::load(x); });
    else
      each([n](const T* x) { return V::load_n(x, n); });
#pragma GCC unroll 4
    for (int g = 0; g < kCount; ++g) sum[g].store_n(y + g * p_.size + d, n);
  }

  const Pages<T>& p_;
  const Part& part_;
  int64_t rows_[kKeys];
  int64_t near_[kNear ? kKeys : 1];  // where the vectors of the query's distances begin
  int64_t from_ = 0;                 // the block's first key that the query at hand sees
  alignas(64) T scores_[kHeads][kKeys];
  Known<T> known_[kQueries][kHeads];
};

std::vector<Part> parts(const CheckedOffsets& offsets, const int64_t* lengths, int64_t groups, int64_t& work) {
  std::vector<Part> found;
  for (int64_t b = 0; b < offsets.sequences(); ++b)
    for (int64_t i = 0; i < offsets.length(b); i += kQueries)
      for (int64_t h = 0; h < groups; ++h) {
        const int64_t count = std::min(kQueries, offsets.length(b) - i), place = lengths[b] - offsets.length(b) + i;
        found.push_back({b, offsets.begin(b) + i, count, h, place});
        work += count * std::max<int64_t>(1, place + count);
      }
  return found;
}

PADDOCK_CPU_KERNEL(page_rows) {
  const auto page = c.attr<int64_t>("page");
  const int64_t span = c.in("tables").shape()[1];
  const CheckedOffsets offsets(c, "offsets", c.in("like").shape()[0]);
  const CheckedIndices table(c, "tables", c.in("keys").shape()[0] / page, /*wrap=*/false, "the cache's pages"),
      lengths(c, "lengths", span * page + 1, /*wrap=*/false, "a sequence's pages");
  for (int64_t b = 0; b < offsets.sequences(); ++b)
    if (offsets.length(b) > lengths.data()[b])
      fail(ErrorKind::kAttribute, "page_rows: lengths[", b, "] is ", lengths.data()[b], " but the sequence has ",
           offsets.length(b), " new rows; its length counts them too");
  auto *rows = c.out("rows").data<int64_t>(), *places = c.out("places").data<int64_t>();
  for (int64_t b = 0; b < offsets.sequences(); ++b)
    for (int64_t t = offsets.begin(b); t < offsets.end(b); ++t) {
      const int64_t place = lengths.data()[b] - offsets.end(b) + t;
      places[t] = place;
      rows[t] = table.data()[b * span + place / page] * page + place % page;
    }
}

PADDOCK_CPU_KERNEL(paged_attention) {
  const Shape &q = c.in("q").shape(), &keys = c.in("keys").shape(), &tables = c.in("tables").shape();
  const auto heads = c.attr<int64_t>("heads"), page = c.attr<int64_t>("page");
  const CheckedOffsets offsets(c, "offsets", q[0]);
  const CheckedIndices table(c, "tables", keys[0] / page, /*wrap=*/false, "the cache's pages"),
      lengths(c, "lengths", tables[1] * page + 1, /*wrap=*/false, "a sequence's pages");
  const int64_t size = q[1] / heads, groups = keys[1] / size;
  int64_t work = 0;
  const std::vector<Part> todo = parts(offsets, lengths.data(), groups, work);
  if (todo.empty()) return;
  const double given = c.attr<double>("scale");
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T scale = static_cast<T>(given != 0 ? given : 1 / std::sqrt(static_cast<double>(size)));
    const Pages<T> p{c.in("q").data<T>(),
                     c.in("keys").data<T>(),
                     c.in("values").data<T>(),
                     c.out(0).data<T>(),
                     heads,
                     heads / groups,
                     size,
                     q[1],
                     keys[1],
                     page,
                     tables[1],
                     c.attr<int64_t>("window"),
                     scale,
                     table.data(),
                     lengths.data(),
                     c.has("near_keys") ? c.in("near_keys").data<T>() : nullptr,
                     c.has("near_keys") ? c.in("near_values").data<T>() : nullptr,
                     c.has("near_keys") ? c.in("near_keys").shape()[0] / 2 : 0};
    const int64_t each = work * (heads / groups) * size / static_cast<int64_t>(todo.size());
    const int64_t grain = std::max<int64_t>(1, (1 << 15) / std::max<int64_t>(1, each));
    parallel_for(static_cast<int64_t>(todo.size()), grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Part& part = todo[static_cast<size_t>(i)];
        p.near_keys ? Work<T, true>(p, part).run() : Work<T, false>(p, part).run();
      }
    });
  });
}

// The weights of one query by the place of its keys, w[0 ... seen - 1], which has room for whole vectors.
template <class T>
void weigh_places(const T* q, const T* keys, const int64_t* table, int64_t page, int64_t size, T scale, int64_t seen,
                  T* w) {
  using V = Vec<T>;
  for (int64_t j = 0; j < seen; ++j) {
    const T* key = keys + (table[j / page] * page + j % page) * size;
    V sum = V::zero();
    int64_t d = 0;
    for (; d + V::kSize <= size; d += V::kSize) sum = fma(V::load(q + d), V::load(key + d), sum);
    if (d < size) sum = fma(V::load_n(q + d, size - d), V::load_n(key + d, size - d), sum);
    w[j] = scale * reduce_add(sum);
  }
  row_exp(w, seen, row_max(w, seen), w);
  const T factor = 1 / row_sum<T>(seen, [w](auto at) { return at(w); });
  for (int64_t j = 0; j < seen; ++j) w[j] *= factor;
}

PADDOCK_CPU_KERNEL(paged_weights) {
  const Shape &q = c.in("q").shape(), &keys = c.in("keys").shape(), &tables = c.in("tables").shape();
  const auto page = c.attr<int64_t>("page");
  const int64_t span = tables[1] * page, size = q[1];
  const CheckedOffsets offsets(c, "offsets", q[0]);
  const CheckedIndices table(c, "tables", keys[0] / page, /*wrap=*/false, "the cache's pages"),
      lengths(c, "lengths", span + 1, /*wrap=*/false, "a sequence's pages");
  const double given = c.attr<double>("scale");
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T scale = static_cast<T>(given != 0 ? given : 1 / std::sqrt(static_cast<double>(size)));
    const T *query = c.in("q").data<T>(), *cached = c.in("keys").data<T>();
    T* w = c.out(0).data<T>();
    const int64_t grain = std::max<int64_t>(1, (1 << 15) / std::max<int64_t>(1, span * size));
    for (int64_t b = 0; b < offsets.sequences(); ++b) {
      const int64_t first = offsets.begin(b), before = lengths.data()[b] - offsets.length(b);
      parallel_for(offsets.length(b), grain, [&](int64_t begin, int64_t end) {
        std::vector<T> row(static_cast<size_t>(span + Vec<T>::kSize));
        for (int64_t i = begin; i < end; ++i) {
          const int64_t seen = std::max<int64_t>(0, before + i + 1);
          if (seen)
            weigh_places(query + (first + i) * size, cached, table.data() + b * tables[1], page, size, scale, seen,
                         row.data());
          T* own = w + (first + i) * span;
          std::fill(std::copy_n(row.data(), seen, own), own + span, T{0});
        }
      });
    }
  });
}

}  // namespace
}  // namespace paddock::cpu
