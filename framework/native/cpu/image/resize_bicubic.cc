// Cubic resizing: four taps an axis. Rows are mixed over their whole width first, then columns; a gradient's task owns
// the input row that it adds to.
#include <cmath>

#include "core/storage.h"
#include "cpu/image/weighted_sum.h"
#include "cpu/kernel.h"

namespace paddock::cpu {
namespace {

constexpr double kA = -0.75;  // of the kernel, as in PyTorch and OpenCV
constexpr int kTaps = 4;

// What one output position reads along an axis: positions that never fall, and their weights.
struct Cubic {
  int64_t at[kTaps];
  double weight[kTaps];
};

double near(double d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; }         // |d| <= 1
double far(double d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; }  // 1 <= |d| <= 2

std::vector<Cubic> cubic_taps(int64_t in, int64_t out, bool align_corners) {
  std::vector<Cubic> taps(out);
  for (int64_t o = 0; o < out; ++o) {
    double at;
    if (align_corners)
      at = out > 1 ? static_cast<double>(o * (in - 1)) / static_cast<double>(out - 1) : 0.0;
    else
      at = static_cast<double>((2 * o + 1) * in) / static_cast<double>(2 * out) - 0.5;
    const double low = std::floor(at), d = at - low;
    const double weights[kTaps] = {far(1 + d), near(d), near(1 - d), far(2 - d)};
    for (int k = 0; k < kTaps; ++k) {
      taps[o].at[k] = std::clamp<int64_t>(static_cast<int64_t>(low) + k - 1, 0, in - 1);
      taps[o].weight[k] = weights[k];
    }
  }
  return taps;
}

struct Grid {
  int64_t images, channels, in_height, in_width, out_height, out_width;
  std::vector<Cubic> rows, columns;
};

Grid grid_of(const KernelContext& c, const Shape& x, const Shape& y) {
  const bool align = c.attr<bool>("align_corners");
  return {x[0], x[3], x[1], x[2], y[1], y[2], cubic_taps(x[1], y[1], align), cubic_taps(x[2], y[2], align)};
}

// Calls body(image, row, line) in parallel; `line` has `size` elements that are the call's own.
template <class T, class F>
void for_each_row(int64_t images, int64_t rows, int64_t cost, int64_t size, F&& body) {
  parallel_for(images * rows, row_grain(cost), [&](int64_t begin, int64_t end) {
    Scratch line(static_cast<size_t>(size) * sizeof(T));
    for (int64_t i = begin; i < end; ++i) body(i / rows, i % rows, line.as<T>());
  });
}

template <class T>
void forward(const Grid& g, const T* x, T* y) {
  const int64_t in_row = g.in_width * g.channels, out_row = g.out_width * g.channels;
  for_each_row<T>(g.images, g.out_height, 4 * (in_row + out_row), in_row, [&](int64_t n, int64_t p, T* line) {
    WeightedElement<T> taps[kTaps];
    for (int k = 0; k < kTaps; ++k)
      taps[k] = {(n * g.in_height + g.rows[p].at[k]) * in_row, static_cast<T>(g.rows[p].weight[k])};
    weighted_sum<false>(x, taps, kTaps, line, in_row);
    for (int64_t q = 0; q < g.out_width; ++q) {
      for (int k = 0; k < kTaps; ++k)
        taps[k] = {g.columns[q].at[k] * g.channels, static_cast<T>(g.columns[q].weight[k])};
      weighted_sum<false>(line, taps, kTaps, y + (n * g.out_height + p) * out_row + q * g.channels, g.channels);
    }
  });
}

// For every input position its readers: (output position, weight), by rising output position.
template <class T>
std::vector<std::vector<WeightedElement<T>>> readers(const std::vector<Cubic>& taps, int64_t in, int64_t stride) {
  std::vector<std::vector<WeightedElement<T>>> found(in);
  for (int64_t o = 0; o < static_cast<int64_t>(taps.size()); ++o)
    for (int k = 0; k < kTaps; ++k) found[taps[o].at[k]].push_back({o * stride, static_cast<T>(taps[o].weight[k])});
  return found;
}

template <class T>
void backward(const Grid& g, const T* dy, T* dx) {
  const int64_t in_row = g.in_width * g.channels, out_row = g.out_width * g.channels;
  const auto over_rows = readers<T>(g.rows, g.in_height, out_row);
  const auto over_columns = readers<T>(g.columns, g.in_width, g.channels);
  const int64_t cost = 4 * (out_row + in_row) * (1 + g.out_height / g.in_height);
  for_each_row<T>(g.images, g.in_height, cost, out_row, [&](int64_t n, int64_t i, T* line) {
    const auto& rows = over_rows[i];
    weighted_sum<false>(dy + n * g.out_height * out_row, rows.data(), static_cast<int64_t>(rows.size()), line, out_row);
    for (int64_t j = 0; j < g.in_width; ++j) {
      const auto& columns = over_columns[j];
      T* to = dx + (n * g.in_height + i) * in_row + j * g.channels;
      weighted_sum<false>(line, columns.data(), static_cast<int64_t>(columns.size()), to, g.channels);
    }
  });
}

PADDOCK_CPU_KERNEL(resize_bicubic) {
  if (c.out(0).numel() == 0) return;  // an image may be large in an empty batch: no taps for it
  const Grid g = grid_of(c, c.in(0).shape(), c.out(0).shape());
  dispatch_float(c.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    forward(g, c.in(0).data<T>(), c.out(0).data<T>());
  });
}

PADDOCK_CPU_KERNEL(resize_bicubic_grad) {
  if (c.out(0).numel() == 0) return;
  const Grid g = grid_of(c, c.out(0).shape(), c.in("dy").shape());
  dispatch_float(c.in("dy").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    backward(g, c.in("dy").data<T>(), c.out(0).data<T>());
  });
}

}  // namespace
}  // namespace paddock::cpu
