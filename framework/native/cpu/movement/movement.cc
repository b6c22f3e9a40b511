// Kernels of ops/movement.cc but transpose: each says which element goes where; cpu/movement/move.cc moves them.
#include "cpu/movement/move.h"
#include "op/choice.h"
#include "op/slicing.h"

namespace paddock::cpu {
namespace {

constexpr uint64_t kZero = 0;  // the zero of every type

// One input's rows within a joined tensor: [outer, joined] bytes with the part at `offset`.
void move_part(char* joined, int64_t joined_row, const Tensor& part, int64_t row, int64_t outer, bool join) {
  char* own = part.data<char>();
  if (join)
    copy_rows(joined, joined_row, own, row, outer, row);
  else
    copy_rows(own, row, joined, joined_row, outer, row);
}

int64_t row_bytes(const Tensor& t, int axis) { return t.shape().count(axis, t.shape().rank()) * dtype_size(t.dtype()); }

PADDOCK_CPU_KERNEL(concat) {
  const Tensor& y = c.out(0);
  const int axis = c.axis("axis", y.shape().rank());
  const int64_t outer = y.shape().count(0, axis), row = row_bytes(y, axis);
  int64_t offset = 0;
  for (int i = 0; i < c.input_count(); ++i) {
    const int64_t bytes = row_bytes(c.in(i), axis);
    move_part(y.data<char>() + offset, row, c.in(i), bytes, outer, /*join=*/true);
    offset += bytes;
  }
}

void split_parts(const KernelContext& c) {
  const Tensor& x = c.in(0);
  const int axis = c.axis("axis", x.shape().rank());
  const int64_t outer = x.shape().count(0, axis), row = row_bytes(x, axis);
  int64_t offset = 0;
  for (int i = 0; i < c.output_count(); ++i) {
    const int64_t bytes = row_bytes(c.out(i), axis);
    move_part(x.data<char>() + offset, row, c.out(i), bytes, outer, /*join=*/false);
    offset += bytes;
  }
}
PADDOCK_CPU_KERNEL(split) { split_parts(c); }
PADDOCK_CPU_KERNEL(split_like) { split_parts(c); }

PADDOCK_CPU_KERNEL(slice) {
  std::vector<AxisTable> tables;
  for (const AxisRange& r : slice_ranges(c, c.in(0).shape())) {
    AxisTable t(r.count);
    for (int64_t i = 0; i < r.count; ++i) t[i] = r.begin + i * r.step;
    tables.push_back(std::move(t));
  }
  copy_by_tables(c.in(0), c.out(0), tables, &kZero);
}

PADDOCK_CPU_KERNEL(slice_grad) {
  const Shape& like = c.out(0).shape();
  const auto ranges = slice_ranges(c, like);
  std::vector<AxisTable> tables;
  for (int a = 0; a < like.rank(); ++a) {
    AxisTable t(like[a], -1);
    for (int64_t i = 0; i < ranges[a].count; ++i) t[ranges[a].begin + i * ranges[a].step] = i;
    tables.push_back(std::move(t));
  }
  copy_by_tables(c.in("dy"), c.out(0), tables, &kZero);
}

enum PadMode { kConstant, kReflect, kEdge };

int64_t padded_source(int64_t i, int64_t n, int mode) {
  if (i >= 0 && i < n) return i;
  if (mode == kConstant) return -1;
  if (mode == kEdge) return i < 0 ? 0 : n - 1;
  return i < 0 ? -i : 2 * (n - 1) - i;
}

std::vector<AxisTable> pad_tables(const KernelContext& c, const Shape& x) {
  const Ints pads = c.attr<Ints>("pads");
  const int mode = choice(c, "mode");
  std::vector<AxisTable> tables;
  for (int a = 0; a < x.rank(); ++a) {
    AxisTable t(pads[2 * a] + x[a] + pads[2 * a + 1]);
    for (int64_t i = 0; i < static_cast<int64_t>(t.size()); ++i) t[i] = padded_source(i - pads[2 * a], x[a], mode);
    tables.push_back(std::move(t));
  }
  return tables;
}

PADDOCK_CPU_KERNEL(pad) {
  const Tensor& x = c.in(0);
  const auto value = c.attr<double>("value");
  const auto tables = pad_tables(c, x.shape());
  dispatch_all(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T fill;
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
      fill = T(static_cast<float>(value));
    else
      fill = static_cast<T>(value);
    copy_by_tables(x, c.out(0), tables, &fill);
  });
}

PADDOCK_CPU_KERNEL(pad_grad) { sum_by_tables(c.in("dy"), c.out(0), pad_tables(c, c.out(0).shape())); }

PADDOCK_CPU_KERNEL(flip) {
  const Shape& x = c.in(0).shape();
  const uint32_t mask = c.axes_mask("axes", x.rank());
  std::vector<AxisTable> tables;
  for (int a = 0; a < x.rank(); ++a) {
    AxisTable t(x[a]);
    for (int64_t i = 0; i < x[a]; ++i) t[i] = mask >> a & 1 ? x[a] - 1 - i : i;
    tables.push_back(std::move(t));
  }
  copy_by_tables(c.in(0), c.out(0), tables, &kZero);
}

PADDOCK_CPU_KERNEL(roll) {
  const Ints shifts = c.attr<Ints>("shifts"), axes = c.attr<Ints>("axes");
  Tensor x = c.in(0), y = c.out(0);
  if (y.numel() == 0) return;
  Ints by(std::max(1, x.shape().rank()), 0);
  if (axes.empty()) {
    const TensorType flat{{x.numel()}, x.dtype()};
    x = x.reshaped(flat);
    y = y.reshaped(flat);
    by = shifts;
  }
  for (size_t i = 0; i < axes.size(); ++i) by[axes[i] < 0 ? axes[i] + x.shape().rank() : axes[i]] = shifts[i];
  std::vector<AxisTable> tables;
  for (int a = 0; a < x.shape().rank(); ++a) {
    const int64_t n = x.shape()[a], shift = (by[a] % n + n) % n;
    AxisTable t(n);
    for (int64_t i = 0; i < n; ++i) t[i] = i < shift ? i - shift + n : i - shift;
    tables.push_back(std::move(t));
  }
  copy_by_tables(x, y, tables, &kZero);
}

// y = x in the columns [low, high) of each row of [M, N] matrices, 0 in the others; bounds(row) gives the two.
template <class Bounds>
void keep_columns(const KernelContext& c, Bounds bounds) {
  const Shape& x = c.in(0).shape();
  const int64_t rows = x.dim(-2), n = x.dim(-1), size = dtype_size(c.in(0).dtype());
  const char* from = c.in(0).data<char>();
  char* to = c.out(0).data<char>();
  parallel_for(x.count(0, x.rank() - 1), copy_grain(n * size), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const auto [low, high] = bounds(r % rows, n);
      char* row = to + r * n * size;
      std::memset(row, 0, static_cast<size_t>(low * size));
      if (from != to)
        std::memcpy(row + low * size, from + (r * n + low) * size, static_cast<size_t>((high - low) * size));
      std::memset(row + high * size, 0, static_cast<size_t>((n - high) * size));
    }
  });
}

// The diagonal within reach of any extent, so that sums with it do not overflow.
int64_t diagonal(const KernelContext& c) {
  return std::clamp(c.attr<int64_t>("k"), -(int64_t{1} << 40), int64_t{1} << 40);
}

PADDOCK_CPU_KERNEL(triu) {
  keep_columns(c,
               [k = diagonal(c)](int64_t row, int64_t n) { return std::pair{std::clamp<int64_t>(row + k, 0, n), n}; });
}
PADDOCK_CPU_KERNEL(tril) {
  keep_columns(c, [k = diagonal(c)](int64_t row, int64_t n) {
    return std::pair{int64_t{0}, std::clamp<int64_t>(row + k + 1, 0, n)};
  });
}

std::vector<AxisTable> tile_tables(const KernelContext& c, const Shape& x) {
  const Ints repeats = c.attr<Ints>("repeats");
  std::vector<AxisTable> tables;
  for (int a = 0; a < x.rank(); ++a) {
    AxisTable t(x[a] * repeats[a]);
    for (int64_t i = 0; i < static_cast<int64_t>(t.size()); ++i) t[i] = i % x[a];
    tables.push_back(std::move(t));
  }
  return tables;
}

PADDOCK_CPU_KERNEL(tile) {
  if (c.out(0).numel() == 0) return;  // an axis may be long beside an empty one: no tables for it
  copy_by_tables(c.in(0), c.out(0), tile_tables(c, c.in(0).shape()), &kZero);
}
PADDOCK_CPU_KERNEL(tile_grad) { sum_by_tables(c.in("dy"), c.out(0), tile_tables(c, c.out(0).shape())); }

PADDOCK_CPU_KERNEL(arange) {
  const auto start = c.attr<double>("start"), step = c.attr<double>("step");
  dispatch_all(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_arithmetic_v<T> && sizeof(T) >= 4) {
      T* y = c.out(0).data<T>();
      parallel_for(c.out(0).numel(), kGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) y[i] = static_cast<T>(start + static_cast<double>(i) * step);
      });
    }
  });
}

}  // namespace
}  // namespace paddock::cpu
