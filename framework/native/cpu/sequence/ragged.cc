// Kernels of ops/ragged.cc: reductions over the rows of sequences, row numbers, windows along sequences.
#include <cmath>

#include "cpu/movement/move.h"
#include "cpu/sequence/offsets.h"

namespace paddock::cpu {
namespace {

int64_t row_size(const Shape& x) { return x.count(1, x.rank()); }

constexpr int64_t kColumns = 256;  // of a sequence's rows that one task sums

// body(b, first, last) for each sequence and piece [first, last) of its `width` columns, in parallel.
template <class F>
void for_pieces(const CheckedOffsets& offsets, int64_t width, F body) {
  const int64_t pieces = (width + kColumns - 1) / kColumns, sequences = offsets.sequences();
  if (sequences == 0) return;
  const int64_t rows = offsets.end(sequences - 1) / sequences;  // of a sequence, on average
  parallel_for(sequences * pieces, row_grain(rows * std::min(width, kColumns)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % pieces * kColumns;
      body(i / pieces, first, std::min(width, first + kColumns));
    }
  });
}

// y[b] = sum of the sequence's rows times factor(its length).
template <class F>
void reduce_segments(const KernelContext& c, F factor) {
  const Tensor& x = c.in("x");
  const CheckedOffsets offsets(c, "offsets", x.shape()[0]);
  const int64_t width = row_size(x.shape());
  dispatch_float(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = x.data<T>();
    T* y = c.out(0).data<T>();
    for_pieces(offsets, width, [&](int64_t b, int64_t first, int64_t last) {
      T* out = y + b * width;
      std::fill(out + first, out + last, T{0});
      for (int64_t r = offsets.begin(b); r < offsets.end(b); ++r)
        for (int64_t j = first; j < last; ++j) out[j] += in[r * width + j];
      const auto scale = static_cast<T>(factor(offsets.length(b)));
      for (int64_t j = first; j < last; ++j) out[j] *= scale;
    });
  });
}

PADDOCK_CPU_KERNEL(segment_sum) {
  reduce_segments(c, [](int64_t) { return 1.0; });
}

PADDOCK_CPU_KERNEL(segment_mean) {
  reduce_segments(c, [](int64_t rows) { return 1.0 / static_cast<double>(std::max<int64_t>(1, rows)); });
}

PADDOCK_CPU_KERNEL(segment_max) {
  const Tensor& x = c.in("x");
  const CheckedOffsets offsets(c, "offsets", x.shape()[0]);
  const int64_t width = row_size(x.shape());
  for (int64_t b = 0; b < offsets.sequences(); ++b)
    if (offsets.length(b) == 0)
      fail(ErrorKind::kAttribute, c.op().name, ": sequence ", b, " is empty (offsets[", b, "] and offsets[", b + 1,
           "] are both ", offsets.begin(b), "), so it has no maximum");
  dispatch_float(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = x.data<T>();
    T* y = c.out("y").data<T>();
    auto* rows = c.out("rows").data<int64_t>();
    for_pieces(offsets, width, [&](int64_t b, int64_t first, int64_t last) {
      T* best = y + b * width;
      int64_t* row = rows + b * width;
      std::copy(in + offsets.begin(b) * width + first, in + offsets.begin(b) * width + last, best + first);
      std::fill(row + first, row + last, offsets.begin(b));
      for (int64_t r = offsets.begin(b) + 1; r < offsets.end(b); ++r)
        for (int64_t j = first; j < last; ++j) {
          const T value = in[r * width + j];
          const bool better = value > best[j] || (std::isnan(value) && !std::isnan(best[j]));
          best[j] = better ? value : best[j];
          row[j] = better ? r : row[j];
        }
    });
  });
}

// body(b, row) for every row of every sequence, in parallel.
template <class F>
void for_rows(const CheckedOffsets& offsets, int64_t width, F body) {
  parallel_for(offsets.sequences(), row_grain(width * 16), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      for (int64_t r = offsets.begin(b); r < offsets.end(b); ++r) body(b, r);
  });
}

PADDOCK_CPU_KERNEL(segment_spread) {
  const Tensor &x = c.in("x"), &y = c.out(0);
  const CheckedOffsets offsets(c, "offsets", y.shape()[0]);
  const int64_t bytes = row_size(x.shape()) * dtype_size(x.dtype());
  const char* in = x.data<char>();
  char* out = y.data<char>();
  for_rows(offsets, row_size(x.shape()),
           [=](int64_t b, int64_t r) { copy_block(out + r * bytes, in + b * bytes, bytes); });
}

PADDOCK_CPU_KERNEL(ragged_positions) {
  const CheckedOffsets offsets(c, "offsets", c.out(0).numel());
  auto* y = c.out(0).data<int64_t>();
  for_rows(offsets, 1, [&](int64_t b, int64_t r) { y[r] = r - offsets.begin(b); });
}

PADDOCK_CPU_KERNEL(ragged_segments) {
  const CheckedOffsets offsets(c, "offsets", c.out(0).numel());
  auto* y = c.out(0).data<int64_t>();
  for_rows(offsets, 1, [=](int64_t b, int64_t r) { y[r] = b; });
}

// A window of rows around each row: what column block i of row r holds, and whether it is inside the sequence.
struct Window {
  int64_t before, rows;
  explicit Window(const KernelContext& c)
      : before(c.attr<int64_t>("before")), rows(before + 1 + c.attr<int64_t>("after")) {}
};

PADDOCK_CPU_KERNEL(ragged_window) {
  const Tensor& x = c.in("x");
  const CheckedOffsets offsets(c, "offsets", x.shape()[0]);
  const Window w(c);
  const int64_t bytes = x.shape()[1] * dtype_size(x.dtype());
  const char* in = x.data<char>();
  char* out = c.out(0).data<char>();
  for_rows(offsets, x.shape()[1] * w.rows, [&](int64_t b, int64_t r) {
    for (int64_t i = 0; i < w.rows; ++i) {
      const int64_t from = r - w.before + i;
      char* to = out + (r * w.rows + i) * bytes;
      if (from < offsets.begin(b) || from >= offsets.end(b))
        std::memset(to, 0, static_cast<size_t>(bytes));
      else
        copy_block(to, in + from * bytes, bytes);
    }
  });
}

PADDOCK_CPU_KERNEL(ragged_window_grad) {
  const Tensor& dx = c.out(0);
  const CheckedOffsets offsets(c, "offsets", dx.shape()[0]);
  const Window w(c);
  const int64_t width = dx.shape()[1];
  dispatch_float(dx.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* dy = c.in("dy").data<T>();
    T* out = dx.data<T>();
    for_rows(offsets, width * w.rows, [&](int64_t b, int64_t r) {
      T* to = out + r * width;
      std::fill(to, to + width, T{0});
      for (int64_t i = 0; i < w.rows; ++i) {
        const int64_t user = r + w.before - i;  // the row whose block i is this row
        if (user < offsets.begin(b) || user >= offsets.end(b)) continue;
        const T* from = dy + (user * w.rows + i) * width;
        for (int64_t j = 0; j < width; ++j) to[j] += from[j];
      }
    });
  });
}

}  // namespace
}  // namespace paddock::cpu
