// What layer_norm and residual_layer_norm share: one row forward and backward, and the sums over rows.
#pragma once
#include <cmath>

#include "cpu/elementwise/rows.h"

namespace paddock::cpu {

// The normalisation of single rows of n values; scale and bias may be null.
template <class T>
struct RowNorm {
  int64_t n;
  double eps;
  const T *scale, *bias;

  // y may be x.
  void operator()(const T* x, T* y, T& mean, T& rstd) const {
    const double count = static_cast<double>(std::max<int64_t>(1, n));
    mean = static_cast<T>(row_sum<T>(n, [=](auto at) { return at(x); }) / count);
    const Vec<T> center = Vec<T>::broadcast(mean);
    const T squares = row_sum<T>(n, [=](auto at) {
      const Vec<T> d = at(x) - center;
      return d * d;
    });
    rstd = static_cast<T>(1 / std::sqrt(squares / count + eps));
    apply(x, mean, rstd, y);
  }

 private:
  void apply(const T* x, T mean, T rstd, T* y) const {
    const T *s = scale, *b = bias;
    if (s && b) {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd * s[i] + b[i];
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd * (s ? s[i] : T{1}) + (b ? b[i] : T{0});
    }
  }
};

// Everything a row of the gradient reads; what is optional may be null.
template <class T>
struct RowNormGradient {
  const T *dy, *x, *scale, *mean, *rstd, *dmean, *drstd;
  int64_t n;

  // dx of row r, and its share of dscale and dbias. dx may be dy's or x's row.
  void operator()(int64_t r, T* dx, T* dscale, T* dbias) const {
    const T *d = dy + r * n, *v = x + r * n, center = mean[r], rate = rstd[r];
    const auto [sum, product] = sums(d, v, center, rate, dscale, dbias);
    const T share = 1 / static_cast<T>(n);
    const T slope = -rate * rate * rate * (product + (drstd ? drstd[r] : T{0})) * share;
    const T offset = ((dmean ? dmean[r] : T{0}) - rate * sum) * share;
    if (const T* s = scale) {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) dx[i] = d[i] * s[i] * rate + (v[i] - center) * slope + offset;
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) dx[i] = d[i] * rate + (v[i] - center) * slope + offset;
    }
  }

 private:
  struct Sums {
    T sum, product;  // of g = dy * scale, and of g * (x - mean)
  };

  // One pass for all that is summed, along the row and over rows.
  Sums sums(const T* d, const T* v, T center, T rate, T* dscale, T* dbias) const {
    using V = Vec<T>;
    const V u = V::broadcast(center), k = V::broadcast(rate);
    V sum[2] = {V::zero(), V::zero()}, product[2] = {V::zero(), V::zero()};
    const auto part = [&](int64_t i, int which, auto load, auto store) __attribute__((always_inline)) {
      const V dy_i = load(d + i), away = load(v + i) - u, g = scale ? dy_i * load(scale + i) : dy_i;
      sum[which] += g;
      product[which] = fma(g, away, product[which]);
      store(fma(dy_i, away * k, load(dscale + i)), dscale + i);
      store(load(dbias + i) + dy_i, dbias + i);
    };
    const auto whole = [&](int64_t i, int which) __attribute__((always_inline)) {
      part(i, which, [](const T* p) { return V::load(p); }, [](V y, T* p) { y.store(p); });
    };
    int64_t i = 0;
    for (; i + 2 * V::kSize <= n; i += 2 * V::kSize) {
      whole(i, 0);
      whole(i + V::kSize, 1);
    }
    if (i + V::kSize <= n) {
      whole(i, 0);
      i += V::kSize;
    }
    if (const int64_t rest = n - i; rest > 0)  // lanes beyond have dy = 0
      part(i, 1, [rest](const T* p) { return V::load_n(p, rest); }, [rest](V y, T* p) { y.store_n(p, rest); });
    return {reduce_add(sum[0] + sum[1]), reduce_add(product[0] + product[1])};
  }
};

// Calls row(r, dscale, dbias) for every row, which adds to both [n]: in T within chunks of rows, in double over chunks.
template <class T, class Row>
void sum_over_rows(int64_t rows, int64_t n, T* dscale, T* dbias, const Row& row) {
  const int64_t chunk = std::max<int64_t>(16, row_grain(n)), chunks = (rows + chunk - 1) / chunk;
  Scratch partial = scratch(sizeof(T) * 2 * n * chunks);
  T* parts = partial.as<T>();
  parallel_for(rows, chunk, [&](int64_t begin, int64_t end) {
    T* part = parts + begin / chunk * 2 * n;
    std::fill(part, part + 2 * n, T{0});
    for (int64_t r = begin; r < end; ++r) row(r, part, part + n);
  });
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

}  // namespace paddock::cpu
