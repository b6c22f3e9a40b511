// Resizing kernels. Both kinds mix two taps an axis (nearest: one); a gradient's task owns the input rows it adds to.
#include <cmath>

#include "core/storage.h"
#include "cpu/kernel.h"

namespace paddock::cpu {
namespace {

// Where one output position reads: (1 - weight) * x[low] + weight * x[high].
struct Tap {
  int64_t low, high;
  double weight;
};

std::vector<Tap> nearest_taps(int64_t in, int64_t out) {
  std::vector<Tap> taps(out);
  for (int64_t o = 0; o < out; ++o) taps[o] = {o * in / out, o * in / out, 0.0};
  return taps;
}

std::vector<Tap> linear_taps(int64_t in, int64_t out, bool align_corners) {
  std::vector<Tap> taps(out);
  for (int64_t o = 0; o < out; ++o) {
    double at;
    if (align_corners)
      at = out > 1 ? static_cast<double>(o * (in - 1)) / static_cast<double>(out - 1) : 0.0;
    else
      at = std::max(0.0, static_cast<double>((2 * o + 1) * in) / static_cast<double>(2 * out) - 0.5);
    int64_t low = std::min(static_cast<int64_t>(at), in - 1);
    taps[o] = {low, std::min(low + 1, in - 1), std::min(1.0, at - static_cast<double>(low))};
  }
  return taps;
}

// For every input position the outputs [first, last) that read it: a range, since taps never go backwards.
struct Range {
  int64_t first = 0, last = 0;
};

std::vector<Range> readers(const std::vector<Tap>& taps, int64_t in) {
  std::vector<Range> ranges(in);
  for (int64_t o = 0; o < static_cast<int64_t>(taps.size()); ++o)
    for (int64_t i : {taps[o].low, taps[o].high}) {
      if (ranges[i].last == 0) ranges[i].first = o;
      ranges[i].last = o + 1;
    }
  return ranges;
}

// Taps along height and width between a small and a large image that share N and C.
struct Grid {
  int64_t images, channels, in_height, in_width, out_height, out_width;
  std::vector<Tap> rows, columns;
};

Grid grid_of(const KernelContext& c, const Shape& x, const Shape& y) {
  Grid g{x[0], x[3], x[1], x[2], y[1], y[2], {}, {}};
  if (c.op().attr_index("align_corners") < 0) {
    g.rows = nearest_taps(x[1], y[1]);
    g.columns = nearest_taps(x[2], y[2]);
  } else {
    const bool align = c.attr<bool>("align_corners");
    g.rows = linear_taps(x[1], y[1], align);
    g.columns = linear_taps(x[2], y[2], align);
  }
  return g;
}

// Calls body(image, row) in parallel; a row costs `row_size` elements.
template <class F>
void for_each_row(int64_t images, int64_t rows, int64_t row_size, F&& body) {
  parallel_for(images * rows, row_grain(row_size), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i / rows, i % rows);
  });
}

template <class T>
void nearest(const Grid& g, const T* x, T* y) {
  const int64_t row = g.out_width * g.channels;
  for_each_row(g.images, g.out_height, row, [&](int64_t n, int64_t p) {
    const T* from = x + (n * g.in_height + g.rows[p].low) * g.in_width * g.channels;
    T* to = y + (n * g.out_height + p) * row;
    for (int64_t q = 0; q < g.out_width; ++q)
      std::copy_n(from + g.columns[q].low * g.channels, g.channels, to + q * g.channels);
  });
}

template <class T>
void scale(T* __restrict to, const T* __restrict from, T weight, int64_t n) {
  for (int64_t k = 0; k < n; ++k) to[k] = weight * from[k];
}

template <class T>
void add_scaled(T* __restrict to, const T* __restrict from, T weight, int64_t n) {
  for (int64_t k = 0; k < n; ++k) to[k] += weight * from[k];
}

// Calls body(image, row, line) in parallel; `line` has `size` elements that are the call's own.
template <class T, class F>
void for_each_row_with_line(int64_t images, int64_t rows, int64_t cost, int64_t size, F&& body) {
  parallel_for(images * rows, row_grain(cost), [&](int64_t begin, int64_t end) {
    Scratch line(static_cast<size_t>(size) * sizeof(T));
    for (int64_t i = begin; i < end; ++i) body(i / rows, i % rows, line.as<T>());
  });
}

// Two input rows are mixed over their whole width, which is one long loop, then the columns of the mixture.
template <class T>
void bilinear(const Grid& g, const T* x, T* y) {
  const int64_t in_row = g.in_width * g.channels, out_row = g.out_width * g.channels, channels = g.channels;
  for_each_row_with_line<T>(g.images, g.out_height, 2 * (in_row + out_row), in_row, [&](int64_t n, int64_t p, T* line) {
    const Tap& r = g.rows[p];
    scale(line, x + (n * g.in_height + r.low) * in_row, static_cast<T>(1 - r.weight), in_row);
    if (r.weight > 0) add_scaled(line, x + (n * g.in_height + r.high) * in_row, static_cast<T>(r.weight), in_row);
    for (int64_t q = 0; q < g.out_width; ++q) {
      const Tap& t = g.columns[q];
      const T right = static_cast<T>(t.weight), left = static_cast<T>(1 - t.weight);
      const T* __restrict a = line + t.low * channels, * __restrict b = line + t.high * channels;
      T* __restrict to = y + (n * g.out_height + p) * out_row + q * channels;
      for (int64_t k = 0; k < channels; ++k) to[k] = left * a[k] + right * b[k];
    }
  });
}

// Sums the output rows that read input row i over their whole width, then adds the sum's columns to it by their taps.
template <class T>
void resize_grad(const Grid& g, const T* dy, T* dx) {
  const int64_t in_row = g.in_width * g.channels, out_row = g.out_width * g.channels, channels = g.channels;
  const auto over = readers(g.rows, g.in_height);
  const int64_t cost = 2 * out_row * (1 + std::max<int64_t>(1, g.out_height / g.in_height));
  for_each_row_with_line<T>(g.images, g.in_height, cost, out_row, [&](int64_t n, int64_t i, T* line) {
    T* to = dx + (n * g.in_height + i) * in_row;
    std::fill_n(to, in_row, T{0});
    for (int64_t p = over[i].first; p < over[i].last; ++p) {
      const Tap& r = g.rows[p];
      const double share = (r.low == i ? 1 - r.weight : 0.0) + (r.high == i ? r.weight : 0.0);
      const T* from = dy + (n * g.out_height + p) * out_row;
      if (p == over[i].first)
        scale(line, from, static_cast<T>(share), out_row);
      else
        add_scaled(line, from, static_cast<T>(share), out_row);
    }
    if (over[i].first == over[i].last) return;
    for (int64_t q = 0; q < g.out_width; ++q) {
      const Tap& t = g.columns[q];
      const T* from = line + q * channels;
      add_scaled(to + t.low * channels, from, static_cast<T>(1 - t.weight), channels);
      if (t.weight > 0) add_scaled(to + t.high * channels, from, static_cast<T>(t.weight), channels);
    }
  });
}

PADDOCK_CPU_KERNEL(resize_nearest) {
  if (c.out(0).numel() == 0) return;  // an image may be large in an empty batch: no taps for it
  Grid g = grid_of(c, c.in(0).shape(), c.out(0).shape());
  if (c.in(0).dtype() == DType::kU8) return nearest(g, c.in(0).data<uint8_t>(), c.out(0).data<uint8_t>());
  if (c.in(0).dtype() == DType::kI8) return nearest(g, c.in(0).data<int8_t>(), c.out(0).data<int8_t>());
  dispatch_float(c.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    nearest(g, c.in(0).data<T>(), c.out(0).data<T>());
  });
}

PADDOCK_CPU_KERNEL(resize_bilinear) {
  if (c.out(0).numel() == 0) return;  // an image may be large in an empty batch: no taps for it
  Grid g = grid_of(c, c.in(0).shape(), c.out(0).shape());
  dispatch_float(c.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    bilinear(g, c.in(0).data<T>(), c.out(0).data<T>());
  });
}

void run_grad(const KernelContext& c) {
  if (c.out(0).numel() == 0) return;
  Grid g = grid_of(c, c.out(0).shape(), c.in("dy").shape());
  dispatch_float(c.in("dy").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    resize_grad(g, c.in("dy").data<T>(), c.out(0).data<T>());
  });
}

PADDOCK_CPU_KERNEL(resize_nearest_grad) { run_grad(c); }
PADDOCK_CPU_KERNEL(resize_bilinear_grad) { run_grad(c); }

}  // namespace
}  // namespace paddock::cpu
