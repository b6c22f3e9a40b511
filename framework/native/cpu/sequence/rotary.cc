// The kernel of ops/rotary.cc, row by row; y may be x.
#include "cpu/kernel.h"

namespace paddock::cpu {
namespace {

template <class T>
void turn_halves(const T* x, const T* cos, const T* sin, int64_t pairs, T* y) {
#pragma GCC ivdep
  for (int64_t i = 0; i < pairs; ++i) {
    const T a = x[i], b = x[i + pairs];
    y[i] = a * cos[i] - b * sin[i];
    y[i + pairs] = a * sin[i] + b * cos[i];
  }
}

template <class T>
void turn_neighbours(const T* x, const T* cos, const T* sin, int64_t pairs, T* y) {
#pragma GCC ivdep
  for (int64_t i = 0; i < pairs; ++i) {
    const T a = x[2 * i], b = x[2 * i + 1];
    y[2 * i] = a * cos[i] - b * sin[i];
    y[2 * i + 1] = a * sin[i] + b * cos[i];
  }
}

PADDOCK_CPU_KERNEL(rotary_embedding) {
  const auto heads = c.attr<int64_t>("heads");
  const bool interleaved = c.attr<bool>("interleaved");
  const Shape& x = c.in("x").shape();
  const int64_t width = x.back() / heads, pairs = c.in("cos").shape().back();
  const int64_t angles = c.in("cos").shape().count(0, c.in("cos").shape().rank() - 1);
  if (c.out(0).numel() == 0) return;
  dispatch_float(c.in("x").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *from = c.in("x").data<T>(), *cos = c.in("cos").data<T>(), *sin = c.in("sin").data<T>();
    T* to = c.out(0).data<T>();
    parallel_for(x.count(0, x.rank() - 1), row_grain(2 * x.back()), [=](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T *u = cos + r % angles * pairs, *v = sin + r % angles * pairs;
        for (int64_t h = r * heads; h < (r + 1) * heads; ++h) {
          (interleaved ? turn_neighbours<T> : turn_halves<T>)(from + h * width, u, v, pairs, to + h * width);
          if (from != to) std::copy(from + h * width + 2 * pairs, from + (h + 1) * width, to + h * width + 2 * pairs);
        }
      }
    });
  });
}

}  // namespace
}  // namespace paddock::cpu
