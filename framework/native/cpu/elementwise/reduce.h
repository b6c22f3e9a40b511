// The engine of reductions. A reduction is a small class R:
//   In, Part, Acc            element, what neighbours are combined in, what blocks are combined in
//   Part load(In x, int64_t out)      one element of output element `out`
//   Part join(Part, Part), Acc join(Acc, Acc)      associative up to rounding
//   Acc identity()
//   kSameForAll              load is cheap and does not look at `out`
// Order of combination: neighbours in trees within blocks of kBlock elements or 8 rows, blocks in sequence within
// segments, segments in sequence. All are set by the shape alone, so threads and instruction sets do not matter.
#pragma once
#include <limits>

#include "cpu/kernel.h"

namespace paddock::cpu {

// x seen as alternating groups of reduced and kept axes. The last group gives the inner loop: `run` reduced elements
// (width 1), or `width` kept ones (run 1).
struct ReducePlan {
  struct Axes {
    int rank = 0;
    int64_t extent[kMaxRank], stride[kMaxRank];
    int64_t count() const {
      int64_t n = 1;
      for (int i = 0; i < rank; ++i) n *= extent[i];
      return n;
    }
    int64_t offset(int64_t index) const {
      int64_t at = 0;
      for (int i = rank - 1; i >= 0; --i) {
        at += index % extent[i] * stride[i];
        index /= extent[i];
      }
      return at;
    }
  };
  Axes kept, reduced;  // outer groups
  int64_t run = 1, width = 1;
  bool columns = false;
  int64_t outputs() const { return kept.count() * width; }
  int64_t elements_per_output() const { return reduced.count() * run; }
};

// mask: bit i set when axis i is reduced.
ReducePlan plan_reduction(const Shape& x, uint32_t mask);

inline constexpr int64_t kBlock = 2048;          // elements combined as a tree
inline constexpr int64_t kSegment = 8 * kBlock;  // elements of one task
inline constexpr int64_t kTile = 512;            // columns of one task
inline constexpr int64_t kWide = 64;             // narrower rows are joined to about this width

// Joins 8 values as a tree.
template <class R, class Get>
inline typename R::Part join8(const R& r, Get get) {
  return r.join(r.join(r.join(get(0), get(1)), r.join(get(2), get(3))),
                r.join(r.join(get(4), get(5)), r.join(get(6), get(7))));
}

// Reduces n <= kBlock neighbours: folds eight stretches onto each other until few are left.
template <class R>
[[gnu::noinline]] typename R::Acc reduce_block(const R& r, const typename R::In* x, int64_t n, int64_t out) {
  using Part = typename R::Part;
  using Acc = typename R::Acc;
  Acc acc = r.identity();
  Part part[kBlock];
  if constexpr (R::kSameForAll) {
    if (n >= 16) {  // the first fold reads x itself
      const int64_t m = n / 8;
      for (int64_t i = 8 * m; i < n; ++i) acc = r.join(acc, static_cast<Acc>(r.load(x[i], out)));
#pragma GCC ivdep
      for (int64_t i = 0; i < m; ++i) part[i] = join8(r, [&](int k) { return r.load(x[i + k * m], out); });
      n = m;
    } else {
      for (int64_t i = 0; i < n; ++i) part[i] = r.load(x[i], out);
    }
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) part[i] = r.load(x[i], out);
  }
  while (n >= 16) {
    const int64_t m = n / 8;
    for (int64_t i = 8 * m; i < n; ++i) acc = r.join(acc, static_cast<Acc>(part[i]));
#pragma GCC ivdep
    for (int64_t i = 0; i < m; ++i) part[i] = join8(r, [&](int k) { return part[i + k * m]; });
    n = m;
  }
  for (int64_t i = 0; i < n; ++i) acc = r.join(acc, static_cast<Acc>(part[i]));
  return acc;
}

template <class R>
typename R::Acc reduce_run(const R& r, const typename R::In* x, int64_t n, int64_t out) {
  auto acc = r.identity();
  for (int64_t i = 0; i < n; i += kBlock) acc = r.join(acc, reduce_block(r, x + i, std::min(kBlock, n - i), out));
  return acc;
}

// Joins rows into acc[width], eight at a time; row(i) points at row i.
template <class R, class Row>
[[gnu::noinline]] void reduce_rows(const R& r, int64_t rows, int64_t width, typename R::Acc* acc, int64_t out,
                                   Row row) {
  using In = typename R::In;
  using Acc = typename R::Acc;
  int64_t i = 0;
  for (; i + 8 <= rows; i += 8) {
    const In* x[8];
    for (int k = 0; k < 8; ++k) x[k] = row(i + k);
    const In *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3], *x4 = x[4], *x5 = x[5], *x6 = x[6], *x7 = x[7];
#pragma GCC ivdep
    for (int64_t j = 0; j < width; ++j) {
      auto a = r.join(r.join(r.load(x0[j], out + j), r.load(x1[j], out + j)),
                      r.join(r.load(x2[j], out + j), r.load(x3[j], out + j)));
      auto b = r.join(r.join(r.load(x4[j], out + j), r.load(x5[j], out + j)),
                      r.join(r.load(x6[j], out + j), r.load(x7[j], out + j)));
      acc[j] = r.join(acc[j], static_cast<Acc>(r.join(a, b)));
    }
  }
  for (; i < rows; ++i) {
    const In* x = row(i);
#pragma GCC ivdep
    for (int64_t j = 0; j < width; ++j) acc[j] = r.join(acc[j], static_cast<Acc>(r.load(x[j], out + j)));
  }
}

// Rows that follow one another in memory; several narrow ones are read as one wide row.
template <class R>
void reduce_adjacent_rows(const R& r, const typename R::In* x, int64_t rows, int64_t width, typename R::Acc* acc,
                          int64_t out) {
  using Acc = typename R::Acc;
  const int64_t join = R::kSameForAll && width < kWide ? kWide / width : 1;
  if (join > 1 && rows >= 2 * join) {
    Acc wide[kWide];
    std::fill_n(wide, join * width, r.identity());
    const int64_t wide_rows = rows / join;
    reduce_rows(r, wide_rows, join * width, wide, out, [=](int64_t i) { return x + i * join * width; });
    for (int64_t k = 0; k < join; ++k)
      for (int64_t j = 0; j < width; ++j) acc[j] = r.join(acc[j], wide[k * width + j]);
    x += wide_rows * join * width;
    rows -= wide_rows * join;
  }
  reduce_rows(r, rows, width, acc, out, [=](int64_t i) { return x + i * width; });
}

// Each task reduces one segment of one output's elements to partial[output * segments + segment].
template <class R, class Finish>
void reduce_inner(const R& r, const ReducePlan& p, const typename R::In* x, Finish finish) {
  using Acc = typename R::Acc;
  const int64_t outputs = p.kept.count(), repeats = p.reduced.count();
  // A segment is a stretch of the only run, or some whole runs.
  const int64_t per_segment = repeats == 1 ? kSegment : std::max<int64_t>(1, kSegment / std::max<int64_t>(1, p.run));
  const int64_t items = repeats == 1 ? p.run : repeats;
  const int64_t segments = std::max<int64_t>(1, (items + per_segment - 1) / per_segment);
  std::vector<Acc> partial(segments > 1 ? outputs * segments : 0);
  const int64_t cost = std::min(items, per_segment) * (repeats == 1 ? 1 : p.run);
  parallel_for(outputs * segments, row_grain(cost), [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t out = task / segments, from = task % segments * per_segment;
      const int64_t to = std::min(items, from + per_segment);
      const auto* base = x + p.kept.offset(out);
      Acc acc = r.identity();
      if (repeats == 1)
        acc = reduce_run(r, base + from, to - from, out);
      else
        for (int64_t i = from; i < to; ++i) acc = r.join(acc, reduce_run(r, base + p.reduced.offset(i), p.run, out));
      if (segments == 1)
        finish(out, acc);
      else
        partial[task] = acc;
    }
  });
  if (segments == 1) return;
  for (int64_t out = 0; out < outputs; ++out) {
    Acc acc = partial[out * segments];
    for (int64_t s = 1; s < segments; ++s) acc = r.join(acc, partial[out * segments + s]);
    finish(out, acc);
  }
}

// Each task reduces one segment of the rows of one tile of columns.
template <class R, class Finish>
void reduce_columns(const R& r, const ReducePlan& p, const typename R::In* x, Finish finish) {
  using Acc = typename R::Acc;
  const int64_t outer = p.kept.count(), rows = p.reduced.count(), tile = std::min(p.width, kTile);
  const int64_t tiles = tile ? (p.width + tile - 1) / tile : 0;
  const int64_t per_segment = std::max<int64_t>(8, 4 * kSegment / std::max<int64_t>(1, tile));
  const int64_t segments = std::max<int64_t>(1, (rows + per_segment - 1) / per_segment);
  std::vector<Acc> partial(segments > 1 ? outer * segments * p.width : 0);
  const int64_t cost = std::min(rows, per_segment) * tile;
  parallel_for(outer * segments * tiles, row_grain(cost), [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t block = task / tiles, o = block / segments, s = block % segments;
      const int64_t column = task % tiles * tile, width = std::min(tile, p.width - column);
      const int64_t from = s * per_segment, count = std::min(rows, from + per_segment) - from;
      const int64_t out = o * p.width + column;
      const auto* base = x + p.kept.offset(o) + column;
      Acc local[kTile];
      Acc* acc = segments > 1 ? partial.data() + block * p.width + column : local;
      std::fill_n(acc, width, r.identity());
      if (p.reduced.rank == 1 && width == p.width)
        reduce_adjacent_rows(r, base + from * p.width, count, width, acc, out);
      else
        reduce_rows(r, count, width, acc, out, [&](int64_t i) { return base + p.reduced.offset(from + i); });
      if (segments == 1)
        for (int64_t j = 0; j < width; ++j) finish(out + j, acc[j]);
    }
  });
  if (segments == 1) return;
  parallel_for(outer * p.width, row_grain(segments), [&](int64_t begin, int64_t end) {
    for (int64_t out = begin; out < end; ++out) {
      const Acc* part = partial.data() + out / p.width * segments * p.width + out % p.width;
      Acc acc = *part;
      for (int64_t s = 1; s < segments; ++s) acc = r.join(acc, part[s * p.width]);
      finish(out, acc);
    }
  });
}

// Calls finish(out, acc) for every output element, from several threads.
template <class R, class Finish>
void reduce(const R& r, const ReducePlan& p, const typename R::In* x, Finish finish) {
  if (p.columns)
    reduce_columns(r, p, x, finish);
  else
    reduce_inner(r, p, x, finish);
}

// The largest or the smallest element; NaN if there is one.
template <class T, bool kLargest>
struct Extreme {
  using In = T;
  using Part = T;
  using Acc = T;
  static constexpr bool kSameForAll = true;
  T identity() const {
    using Limits = std::numeric_limits<T>;
    if constexpr (std::is_floating_point_v<T>)
      return kLargest ? -Limits::infinity() : Limits::infinity();
    else
      return kLargest ? Limits::min() : Limits::max();
  }
  T load(T x, int64_t) const { return x; }
  T join(T a, T b) const {
    T better = kLargest ? (a > b ? a : b) : (a < b ? a : b);  // b if either is NaN
    return a != a ? a : better;
  }
};

}  // namespace paddock::cpu
