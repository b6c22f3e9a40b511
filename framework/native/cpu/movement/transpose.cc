// transpose: axes that stay together are joined first; what is left is either a copy of whole runs or a walk over
// square tiles that reads and writes whole cache lines.
#include "cpu/movement/move.h"

namespace paddock::cpu {
namespace {

// An axis of y: its extent, and the distance of neighbours in x and in y, in elements.
struct Axis {
  int64_t extent, from, to;
};

// y's axes without those of extent 1; neighbours that are neighbours in x too become one.
std::vector<Axis> joined_axes(const Shape& x, const Ints& perm) {
  std::vector<Axis> axes;
  for (int64_t p : perm) {
    const int a = static_cast<int>(p < 0 ? p + x.rank() : p);
    const int64_t n = x[a], stride = x.count(a + 1, x.rank());
    if (n == 1) continue;
    if (!axes.empty() && axes.back().from == n * stride)
      axes.back() = {axes.back().extent * n, stride, 0};
    else
      axes.push_back({n, stride, 0});
  }
  int64_t stride = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    axes[i].to = stride;
    stride *= axes[i].extent;
  }
  return axes;
}

// Offsets in x and y of the k-th index over `axes`.
std::pair<int64_t, int64_t> offsets(const std::vector<Axis>& axes, int64_t k) {
  int64_t from = 0, to = 0;
  for (size_t a = axes.size(); a-- > 0;) {
    const int64_t i = k % axes[a].extent;
    k /= axes[a].extent;
    from += i * axes[a].from;
    to += i * axes[a].to;
  }
  return {from, to};
}

int64_t count(const std::vector<Axis>& axes) {
  int64_t n = 1;
  for (const Axis& a : axes) n *= a.extent;
  return n;
}

// The last axis is contiguous on both sides: runs of it are copied, one after another along the axis before it.
void copy_runs(const char* x, char* y, std::vector<Axis> axes, int64_t size) {
  const int64_t run = axes.back().extent * size;
  axes.pop_back();
  const Axis row = axes.back();
  axes.pop_back();
  const int64_t total = count(axes) * row.extent;
  parallel_for(total, copy_grain(run), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end;) {
      auto [from, to] = offsets(axes, k / row.extent);
      const int64_t first = k % row.extent, stop = std::min(row.extent, first + end - k);
      for (int64_t i = first; i < stop; ++i)
        copy_block(y + (to + i * row.to) * size, x + (from + i * row.from) * size, run);
      k += stop - first;
    }
  });
}

// One tile of at most L x L, through a buffer that fits the first cache: x rows in, y rows out.
template <class U, int64_t L>
void move_tile(const U* x, int64_t x_stride, U* y, int64_t y_stride, int64_t x_rows, int64_t y_rows) {
  U tile[L * L];
  if (x_rows == L && y_rows == L) {
    for (int64_t r = 0; r < L; ++r) std::memcpy(tile + r * L, x + r * x_stride, L * sizeof(U));
    for (int64_t r = 0; r < L; ++r)
      for (int64_t i = 0; i < L; ++i) y[r * y_stride + i] = tile[i * L + r];
    return;
  }
  for (int64_t r = 0; r < y_rows; ++r)
    for (int64_t i = 0; i < x_rows; ++i) y[r * y_stride + i] = x[i * x_stride + r];
}

// x is contiguous along axis `u` of y, y along its last: planes of these two are walked by tiles.
template <class U>
void move_tiles(const U* x, U* y, std::vector<Axis> axes, size_t u) {
  constexpr int64_t L = std::max<int64_t>(8, 64 / static_cast<int64_t>(sizeof(U)));
  const Axis last = axes.back(), in = axes[u];
  axes.pop_back();
  axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(u));
  const int64_t strips = (in.extent + L - 1) / L, tiles = (last.extent + L - 1) / L;
  const int64_t per_strip = std::max<int64_t>(1, std::min(L, in.extent) * last.extent);
  parallel_for(count(axes) * strips, std::max<int64_t>(1, kGrain / per_strip), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      auto [from, to] = offsets(axes, k / strips);
      const int64_t first = k % strips * L, rows = std::min(L, in.extent - first);
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t column = t * L, columns = std::min(L, last.extent - column);
        move_tile<U, L>(x + from + first + column * last.from, last.from, y + to + first * in.to + column, in.to,
                        columns, rows);
      }
    }
  });
}

PADDOCK_CPU_KERNEL(transpose) {
  const Tensor &x = c.in(0), &y = c.out(0);
  if (x.numel() == 0) return;
  Ints perm = c.attr<Ints>("perm");
  if (perm.empty())
    for (int i = x.shape().rank() - 1; i >= 0; --i) perm.push_back(i);
  const int64_t size = dtype_size(x.dtype());
  const std::vector<Axis> axes = joined_axes(x.shape(), perm);
  if (axes.size() <= 1) return copy_rows(y.data<char>(), y.bytes(), x.data<char>(), y.bytes(), 1, y.bytes());
  if (axes.back().from == 1) return copy_runs(x.data<char>(), y.data<char>(), axes, size);
  size_t u = 0;
  while (axes[u].from != 1) ++u;
  dispatch_size(size, [&](auto tag) {
    using U = typename decltype(tag)::type;
    move_tiles<U>(x.data<U>(), y.data<U>(), axes, u);
  });
}

}  // namespace
}  // namespace paddock::cpu
