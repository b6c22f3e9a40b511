// Pooling kernels: every loop's innermost index is the channel. Gradients are split so that no two tasks write one
// pixel.
#include <cmath>

#include "cpu/kernel.h"
#include "ops/window.h"

namespace paddock::cpu {
namespace {

// Output rows (one image, one p) that a task takes.
int64_t rows_per_task(const Windows& g) { return row_grain(g.w.out * g.channels * g.h.kernel * g.w.kernel); }

// Calls body(n, p) for every image and every row p of `rows`, in parallel.
template <class F>
void for_each_row(int64_t images, int64_t rows, int64_t grain, F&& body) {
  parallel_for(images * rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i / rows, i % rows);
  });
}

// A NaN beats every number, so that it is not lost.
template <class T>
bool beats(T value, T best) {
  return value > best || value != value;
}

template <class T>
void max_pool(const Windows& g, const T* x, T* out) {
  const int64_t channels = g.channels;
  for_each_row(g.images, g.h.out, rows_per_task(g), [&](int64_t n, int64_t p) {
    for (int64_t q = 0; q < g.w.out; ++q) {
      T* __restrict y = out + ((n * g.h.out + p) * g.w.out + q) * channels;
      bool first = true;
      for (int64_t i = g.h.begin(p); i < g.h.end(p); ++i)
        for (int64_t j = g.w.begin(q); j < g.w.end(q); ++j) {
          const T* __restrict v = x + ((n * g.h.in + i) * g.w.in + j) * channels;
          if (first)
            std::copy(v, v + channels, y);
          else
            for (int64_t c = 0; c < channels; ++c) y[c] = beats(v[c], y[c]) ? v[c] : y[c];
          first = false;
        }
    }
  });
}

void run_max_pool(const KernelContext& c) {
  dispatch_float(c.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    max_pool(pooling_windows_of(c, c.in(0).shape()), c.in(0).data<T>(), c.out(0).data<T>());
  });
}

template <class T>
void max_pool_bytes(const KernelContext& c) {
  max_pool(pooling_windows_of(c, c.in(0).shape()), c.in(0).data<T>(), c.out(0).data<T>());
}

PADDOCK_CPU_KERNEL(max_pool2d) {
  const DType t = c.in(0).dtype();
  if (t == DType::kU8) return max_pool_bytes<uint8_t>(c);
  if (t == DType::kI8) return max_pool_bytes<int8_t>(c);
  run_max_pool(c);
}
PADDOCK_CPU_KERNEL(adaptive_max_pool2d) { run_max_pool(c); }

// Channels that one task of the gradient takes of an image: tasks differ in image or channels, so they never collide.
constexpr int64_t kStrip = 64;

// Calls body(n, first channel, channels of the strip).
template <class F>
void for_each_strip(const Windows& g, F&& body) {
  const int64_t strips = (g.channels + kStrip - 1) / kStrip;
  parallel_for(g.images * strips, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t first = (i % strips) * kStrip;
      body(i / strips, first, std::min(kStrip, g.channels - first));
    }
  });
}

// For every window of a strip: which[c] = the pixel (row * W + column) of its first largest value, then
// visit(p, q, which).
template <class T, class F>
void for_each_argmax(const Windows& g, const T* image, int64_t channels, F&& visit) {
  T best[kStrip];
  int32_t which[kStrip];
  for (int64_t p = 0; p < g.h.out; ++p)
    for (int64_t q = 0; q < g.w.out; ++q) {
      std::fill(best, best + channels, -std::numeric_limits<T>::infinity());
      std::fill(which, which + channels, static_cast<int32_t>(g.h.begin(p) * g.w.in + g.w.begin(q)));
      for (int64_t i = g.h.begin(p); i < g.h.end(p); ++i)
        for (int64_t j = g.w.begin(q); j < g.w.end(q); ++j) {
          const auto pixel = static_cast<int32_t>(i * g.w.in + j);
          const T* __restrict v = image + pixel * g.channels;
          for (int64_t c = 0; c < channels; ++c) {
            const bool better = beats(v[c], best[c]);
            best[c] = better ? v[c] : best[c];
            which[c] = better ? pixel : which[c];
          }
        }
      visit(p, q, which);
    }
}

template <class T>
void max_pool_grad(const Windows& g, const T* dy, const T* x, T* dx) {
  const int64_t pixels = g.h.in * g.w.in, windows = g.h.out * g.w.out;
  for_each_strip(g, [&](int64_t n, int64_t first, int64_t channels) {
    T* image = dx + n * pixels * g.channels + first;
    for (int64_t i = 0; i < pixels; ++i) std::fill(image + i * g.channels, image + i * g.channels + channels, T{0});
    for_each_argmax(g, x + n * pixels * g.channels + first, channels, [&](int64_t p, int64_t q, const int32_t* which) {
      const T* from = dy + (n * windows + p * g.w.out + q) * g.channels + first;
      for (int64_t c = 0; c < channels; ++c) image[which[c] * g.channels + c] += from[c];
    });
  });
}

template <class T>
void max_pool_pick(const Windows& g, const T* v, const T* x, T* y) {
  const int64_t pixels = g.h.in * g.w.in, windows = g.h.out * g.w.out;
  for_each_strip(g, [&](int64_t n, int64_t first, int64_t channels) {
    const T* image = v + n * pixels * g.channels + first;
    for_each_argmax(g, x + n * pixels * g.channels + first, channels, [&](int64_t p, int64_t q, const int32_t* which) {
      T* to = y + (n * windows + p * g.w.out + q) * g.channels + first;
      for (int64_t c = 0; c < channels; ++c) to[c] = image[which[c] * g.channels + c];
    });
  });
}

void run_max_pool_grad(const KernelContext& c) {
  dispatch_float(c.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    max_pool_grad(pooling_windows_of(c, c.in("x").shape()), c.in("dy").data<T>(), c.in("x").data<T>(),
                  c.out(0).data<T>());
  });
}
PADDOCK_CPU_KERNEL(max_pool2d_grad) { run_max_pool_grad(c); }
PADDOCK_CPU_KERNEL(adaptive_max_pool2d_grad) { run_max_pool_grad(c); }

void run_max_pool_pick(const KernelContext& c) {
  dispatch_float(c.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    max_pool_pick(pooling_windows_of(c, c.in("x").shape()), c.in("v").data<T>(), c.in("x").data<T>(),
                  c.out(0).data<T>());
  });
}
PADDOCK_CPU_KERNEL(max_pool2d_pick) { run_max_pool_pick(c); }
PADDOCK_CPU_KERNEL(adaptive_max_pool2d_pick) { run_max_pool_pick(c); }

// Whether the mean is over a window with its padding; adaptive windows have none.
bool includes_padding(const KernelContext& c) {
  return c.op().attr_index("count_include_pad") >= 0 && c.attr<bool>("count_include_pad");
}

// 1 / the number of pixels that window (p, q) is divided by.
template <class T>
T window_weight(const Windows& g, int64_t p, int64_t q, bool include_pad) {
  int64_t area = include_pad ? g.h.padded_extent(p) * g.w.padded_extent(q)
                             : (g.h.end(p) - g.h.begin(p)) * (g.w.end(q) - g.w.begin(q));
  return static_cast<T>(1.0 / static_cast<double>(area));
}

template <class T>
void average_pool(const Windows& g, bool include_pad, const T* x, T* out) {
  const int64_t channels = g.channels;
  for_each_row(g.images, g.h.out, rows_per_task(g), [&](int64_t n, int64_t p) {
    for (int64_t q = 0; q < g.w.out; ++q) {
      T* __restrict y = out + ((n * g.h.out + p) * g.w.out + q) * channels;
      std::fill(y, y + channels, T{0});
      for (int64_t i = g.h.begin(p); i < g.h.end(p); ++i)
        for (int64_t j = g.w.begin(q); j < g.w.end(q); ++j) {
          const T* __restrict v = x + ((n * g.h.in + i) * g.w.in + j) * channels;
          for (int64_t c = 0; c < channels; ++c) y[c] += v[c];
        }
      const T weight = window_weight<T>(g, p, q, include_pad);
      for (int64_t c = 0; c < channels; ++c) y[c] *= weight;
    }
  });
}

// A task owns input rows and adds what every window over them gives.
template <class T>
void average_pool_grad(const Windows& g, bool include_pad, const T* dy, T* out) {
  const int64_t channels = g.channels;
  const int64_t grain = row_grain(g.w.in * channels * g.h.kernel * g.w.kernel);
  for_each_row(g.images, g.h.in, grain, [&](int64_t n, int64_t i) {
    T* row = out + (n * g.h.in + i) * g.w.in * channels;
    std::fill(row, row + g.w.in * channels, T{0});
    for (int64_t p = g.h.first_over(i); p < g.h.last_over(i); ++p)
      for (int64_t q = 0; q < g.w.out; ++q) {
        const T* __restrict from = dy + ((n * g.h.out + p) * g.w.out + q) * channels;
        const T weight = window_weight<T>(g, p, q, include_pad);
        for (int64_t j = g.w.begin(q); j < g.w.end(q); ++j) {
          T* __restrict to = row + j * channels;
          for (int64_t c = 0; c < channels; ++c) to[c] += weight * from[c];
        }
      }
  });
}

void run_avg_pool(const KernelContext& c) {
  dispatch_float(c.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    average_pool(pooling_windows_of(c, c.in(0).shape()), includes_padding(c), c.in(0).data<T>(), c.out(0).data<T>());
  });
}
PADDOCK_CPU_KERNEL(avg_pool2d) { run_avg_pool(c); }
PADDOCK_CPU_KERNEL(adaptive_avg_pool2d) { run_avg_pool(c); }

void run_avg_pool_grad(const KernelContext& c) {
  dispatch_float(c.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    average_pool_grad(pooling_windows_of(c, c.in("like").shape()), includes_padding(c), c.in("dy").data<T>(),
                      c.out(0).data<T>());
  });
}
PADDOCK_CPU_KERNEL(avg_pool2d_grad) { run_avg_pool_grad(c); }
PADDOCK_CPU_KERNEL(adaptive_avg_pool2d_grad) { run_avg_pool_grad(c); }

}  // namespace
}  // namespace paddock::cpu
