// Normalisation of each row of [rows, D] by the root of its mean square.
#include "cpu/norm/layer_norm.h"

namespace paddock::cpu {
namespace {

PADDOCK_CPU_KERNEL(rms_norm) {
  dispatch_float(c.in("x").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *x = c.in("x").data<T>(), *scale = c.maybe<T>("scale");
    T *y = c.out("y").data<T>(), *rstd = c.out("rstd").data<T>();
    const int64_t n = c.in("x").shape().back();
    const double eps = c.attr<double>("eps"), count = static_cast<double>(std::max<int64_t>(1, n));
    parallel_for(c.out("rstd").numel(), row_grain(n), [=](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* from = x + r * n;
        T* to = y + r * n;
        const T squares = row_sum<T>(n, [=](auto at) {
          const Vec<T> v = at(from);
          return v * v;
        });
        const T rate = static_cast<T>(1 / std::sqrt(squares / count + eps));
        rstd[r] = rate;
        if (scale) {
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) to[i] = from[i] * rate * scale[i];
        } else {
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) to[i] = from[i] * rate;
        }
      }
    });
  });
}

// dx of one row, and its share of dscale; dx may be dy's or x's row.
template <class T>
void row_gradient(const T* dy, const T* x, const T* scale, T rstd, T drstd, int64_t n, T* dx, T* dscale) {
  const T product = scale ? row_sum<T>(n, [=](auto at) { return at(dy) * at(scale) * at(x); })
                          : row_sum<T>(n, [=](auto at) { return at(dy) * at(x); });
  const T slope = -rstd * rstd * rstd * (product + drstd) / static_cast<T>(n);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T d = dy[i], v = x[i];
    dscale[i] += d * v * rstd;
    dx[i] = (scale ? d * scale[i] : d) * rstd + v * slope;
  }
}

PADDOCK_CPU_KERNEL(rms_norm_grad) {
  dispatch_float(c.in("x").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *dy = c.in("dy").data<T>(), *x = c.in("x").data<T>(), *scale = c.maybe<T>("scale");
    const T *rstd = c.in("rstd").data<T>(), *drstd = c.maybe<T>("drstd");
    T* dx = c.out("dx").data<T>();
    const int64_t n = c.in("x").shape().back();
    const Scratch unused = scratch(sizeof(T) * static_cast<size_t>(n));  // the sums that a bias would have
    sum_over_rows(c.in("rstd").numel(), n, c.out("dscale").data<T>(), unused.as<T>(), [=](int64_t r, T* dscale, T*) {
      row_gradient(dy + r * n, x + r * n, scale, rstd[r], drstd ? drstd[r] : T{0}, n, dx + r * n, dscale);
    });
  });
}

}  // namespace
}  // namespace paddock::cpu
