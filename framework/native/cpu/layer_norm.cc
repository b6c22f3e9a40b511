// Layer normalisation: each row of [rows, D] by its own moments, taken twice over the cached row.
#include <cmath>

#include "cpu/rows.h"

namespace paddock::cpu {
namespace {

template <class T>
void normalize_row(const T* x, int64_t n, T mean, T rstd, const T* scale, const T* bias, T* y) {
  if (scale && bias) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd * scale[i] + bias[i];
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd * (scale ? scale[i] : T{1}) + (bias ? bias[i] : T{0});
  }
}

PADDOCK_CPU_KERNEL(layer_norm) {
  dispatch_float(c.in("x").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *x = c.in("x").data<T>(), *scale = c.maybe<T>("scale"), *bias = c.maybe<T>("bias");
    T *y = c.out("y").data<T>(), *means = c.out("mean").data<T>(), *rstds = c.out("rstd").data<T>();
    const int64_t n = c.in("x").shape().back();
    const double eps = c.attr<double>("eps"), count = static_cast<double>(std::max<int64_t>(1, n));
    parallel_for(c.out("mean").numel(), row_grain(n), [=](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* row = x + r * n;
        const T mean = static_cast<T>(row_sum<T>(n, [=](auto at) { return at(row); }) / count);
        const Vec<T> center = Vec<T>::broadcast(mean);
        const T squares = row_sum<T>(n, [=](auto at) {
          const Vec<T> d = at(row) - center;
          return d * d;
        });
        means[r] = mean;
        rstds[r] = static_cast<T>(1 / std::sqrt(squares / count + eps));
        normalize_row(row, n, means[r], rstds[r], scale, bias, y + r * n);
      }
    });
  });
}

// Everything a row of the gradient reads and writes; g = dy * scale.
template <class T>
struct Backward {
  const T *dy, *x, *scale, *mean, *rstd, *dmean, *drstd;
  T* dx;
  int64_t n;

  // dx of row r, and its share of dscale and dbias.
  void row(int64_t r, T* __restrict dscale, T* __restrict dbias) const {
    const T *d = dy + r * n, *v = x + r * n, center = mean[r], rate = rstd[r];
    for (int64_t i = 0; i < n; ++i) {
      dscale[i] += d[i] * ((v[i] - center) * rate);
      dbias[i] += d[i];
    }
    const Vec<T> u = Vec<T>::broadcast(center);
    const T sum = scale ? row_sum<T>(n, [=, s = scale](auto at) { return at(d) * at(s); })
                        : row_sum<T>(n, [=](auto at) { return at(d); });
    const T product = scale ? row_sum<T>(n, [=, s = scale](auto at) { return at(d) * at(s) * (at(v) - u); })
                            : row_sum<T>(n, [=](auto at) { return at(d) * (at(v) - u); });
    const T share = 1 / static_cast<T>(n);
    const T slope = -rate * rate * rate * (product + (drstd ? drstd[r] : T{0})) * share;
    const T offset = ((dmean ? dmean[r] : T{0}) - rate * sum) * share;
    T* to = dx + r * n;
    if (scale) {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) to[i] = d[i] * scale[i] * rate + (v[i] - center) * slope + offset;
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) to[i] = d[i] * rate + (v[i] - center) * slope + offset;
    }
  }
};

// dscale and dbias are summed within chunks of rows in T, over chunks in double.
template <class T>
void backward(const KernelContext& c) {
  const Tensor& x = c.in("x");
  const int64_t n = x.shape().back(), rows = c.in("mean").numel();
  const Backward<T> b{c.in("dy").data<T>(),
                      x.data<T>(),
                      c.maybe<T>("scale"),
                      c.in("mean").data<T>(),
                      c.in("rstd").data<T>(),
                      c.maybe<T>("dmean"),
                      c.maybe<T>("drstd"),
                      c.out("dx").data<T>(),
                      n};
  const int64_t chunk = std::max<int64_t>(64, row_grain(n)), chunks = (rows + chunk - 1) / chunk;
  Scratch partial = scratch(sizeof(T) * 2 * n * chunks);
  T* parts = partial.as<T>();
  parallel_for(rows, chunk, [&](int64_t begin, int64_t end) {
    T* part = parts + begin / chunk * 2 * n;
    std::fill(part, part + 2 * n, T{0});
    for (int64_t r = begin; r < end; ++r) b.row(r, part, part + n);
  });
  T *dscale = c.out("dscale").data<T>(), *dbias = c.out("dbias").data<T>();
  parallel_for(n, 128, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      double scale_sum = 0, bias_sum = 0;
      for (int64_t k = 0; k < chunks; ++k) {
        scale_sum += parts[k * 2 * n + i];
        bias_sum += parts[k * 2 * n + n + i];
      }
      dscale[i] = static_cast<T>(scale_sum);
      dbias[i] = static_cast<T>(bias_sum);
    }
  });
}

PADDOCK_CPU_KERNEL(layer_norm_grad) {
  dispatch_float(c.in("x").dtype(), [&](auto tag) { backward<typename decltype(tag)::type>(c); });
}

}  // namespace
}  // namespace paddock::cpu
