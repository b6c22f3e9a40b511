// Batch normalisation over the rows of [rows, C]. Forward: statistics, then one pass; backward: two sums, then one
// pass. Statistics of a chunk are taken twice over cached data (the second time around its mean) and joined in double.
#include <cmath>

#include "cpu/columns.h"

namespace paddock::cpu {
namespace {

Columns columns_of(const Tensor& x) {
  int64_t channels = x.shape().back();
  return {channels > 0 ? x.numel() / channels : 0, channels};
}

// Mean and sum of squared deviations of each channel in one task's rows.
template <class T>
void task_moments(const Columns& m, const ColumnTask& t, const T* __restrict x, double* mean, double* squares) {
  T shift[Columns::kMaxWidth], sum[Columns::kMaxWidth], square[Columns::kMaxWidth];
  const int64_t count = std::min(t.count, m.channels);
  const auto n = static_cast<double>(m.rows_of(t.chunk));
  sum_task<T, 1>(m, t, {sum}, [&](int64_t i, int64_t, auto& s) { s[0] += x[i]; });
  for (int64_t c = 0; c < count; ++c) shift[c] = static_cast<T>(sum[c] / n);
  if (m.group > 1) repeat(m, shift);
  sum_task<T, 2>(m, t, {sum, square}, [&](int64_t i, int64_t c, auto& s) {
    T d = x[i] - shift[c];
    s[0] += d;
    s[1] += d * d;
  });
  for (int64_t c = 0; c < count; ++c) {
    const double rest = sum[c] / n;  // the chunk's mean less its rounded value, which the first pass gave
    mean[t.first + c] = static_cast<double>(shift[c]) + rest;
    squares[t.first + c] = std::max(0.0, static_cast<double>(square[c]) - rest * rest * n);
  }
}

// Joins the chunks' moments in order (Chan, Golub & LeVeque 1979): mean and biased variance of each channel.
void join_moments(const Columns& m, const double* parts, double* mean, double* var) {
  const double inverse = m.rows > 0 ? 1.0 / static_cast<double>(m.rows) : 0.0;
  parallel_for(m.channels, 128, [&](int64_t begin, int64_t end) {
    std::fill(mean + begin, mean + end, 0.0);
    std::fill(var + begin, var + end, 0.0);
    for (int64_t i = 0; i < m.chunks(); ++i) {
      const double* part = parts + i * 2 * m.channels;
      const double weight = static_cast<double>(m.rows_of(i)) * inverse;
      for (int64_t c = begin; c < end; ++c) mean[c] += weight * part[c];
    }
    for (int64_t i = 0; i < m.chunks(); ++i) {
      const double* part = parts + i * 2 * m.channels;
      const double weight = static_cast<double>(m.rows_of(i)) * inverse;
      for (int64_t c = begin; c < end; ++c) {
        const double d = part[c] - mean[c];
        var[c] += part[m.channels + c] * inverse + weight * d * d;
      }
    }
  });
}

// y = (x - mean) * rate + bias; each coefficient fills one joined row.
template <class T>
void normalize(const Columns& m, const T* x, const T* mean, const T* rate, const T* bias, T* y) {
  for_each_element(m, [=](int64_t i, int64_t c) { y[i] = (x[i] - mean[c]) * rate[c] + bias[c]; });
}

template <class T>
void forward(const KernelContext& c) {
  const Columns m = columns_of(c.in("x"));
  const T *x = c.in("x").data<T>(), *scale = c.in("scale").data<T>(), *bias = c.in("bias").data<T>();
  T *mean = c.out("mean").data<T>(), *var = c.out("var").data<T>();

  Scratch moments = scratch(sizeof(double) * 2 * m.channels * (m.chunks() + 1));
  double *joined = moments.as<double>(), *parts = joined + 2 * m.channels;
  if (m.rows > 0)
    for_each_task(m, [&](const ColumnTask& t) {
      double* part = parts + t.chunk * 2 * m.channels;
      task_moments<T>(m, t, x, part, part + m.channels);
    });
  else
    std::fill(parts, parts + 2 * m.channels, 0.0);
  join_moments(m, parts, joined, joined + m.channels);

  Scratch coefficients = scratch(sizeof(T) * 3 * m.width);
  T *center = coefficients.as<T>(), *rate = center + m.width, *offset = rate + m.width;
  const double eps = c.attr<double>("eps");
  for (int64_t k = 0; k < m.channels; ++k) {
    center[k] = mean[k] = static_cast<T>(joined[k]);
    var[k] = static_cast<T>(joined[m.channels + k]);
    rate[k] = static_cast<T>(scale[k] / std::sqrt(joined[m.channels + k] + eps));
    offset[k] = bias[k];
  }
  for (T* v : {center, rate, offset}) repeat(m, v);
  normalize(m, x, center, rate, offset, c.out("y").data<T>());
}

PADDOCK_CPU_KERNEL(batch_norm) {
  dispatch_float(c.in("x").dtype(), [&](auto tag) { forward<typename decltype(tag)::type>(c); });
}

PADDOCK_CPU_KERNEL(batch_norm_inference) {
  dispatch_float(c.in("x").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Columns m = columns_of(c.in("x"));
    const T *scale = c.in("scale").data<T>(), *var = c.in("var").data<T>();
    Scratch coefficients = scratch(sizeof(T) * 3 * m.width);
    T *center = coefficients.as<T>(), *rate = center + m.width, *offset = rate + m.width;
    const double eps = c.attr<double>("eps");
    for (int64_t k = 0; k < m.channels; ++k) {
      center[k] = c.in("mean").data<T>()[k];
      rate[k] = static_cast<T>(scale[k] / std::sqrt(static_cast<double>(var[k]) + eps));
      offset[k] = c.in("bias").data<T>()[k];
    }
    for (T* v : {center, rate, offset}) repeat(m, v);
    normalize(m, c.in("x").data<T>(), center, rate, offset, c.out("y").data<T>());
  });
}

// sums[c] = sum of dy, sums[C + c] = sum of dy * (x - mean), chunk by chunk in T and over chunks in double.
template <class T>
void gradient_sums(const Columns& m, const T* __restrict dy, const T* __restrict x, const T* __restrict mean,
                   double* sums) {
  Scratch partial = scratch(sizeof(T) * 2 * m.channels * m.chunks());
  T* parts = partial.as<T>();
  for_each_task(m, [&](const ColumnTask& t) {
    T sum[Columns::kMaxWidth], product[Columns::kMaxWidth];
    const T* __restrict center = mean + t.first;
    sum_task<T, 2>(m, t, {sum, product}, [&](int64_t i, int64_t c, auto& s) {
      s[0] += dy[i];
      s[1] += dy[i] * (x[i] - center[c]);
    });
    T* part = parts + t.chunk * 2 * m.channels + t.first;
    const int64_t count = std::min(t.count, m.channels);
    std::copy(sum, sum + count, part);
    std::copy(product, product + count, part + m.channels);
  });
  parallel_for(2 * m.channels, 128, [&](int64_t begin, int64_t end) {
    std::fill(sums + begin, sums + end, 0.0);
    for (int64_t i = 0; i < m.chunks(); ++i)
      for (int64_t c = begin; c < end; ++c) sums[c] += static_cast<double>(parts[i * 2 * m.channels + c]);
  });
}

// dx = dy * rate + (x - mean) * slope + offset, where the last two carry the gradient through the statistics.
template <class T>
void backward(const KernelContext& c) {
  const Columns m = columns_of(c.in("x"));
  const T *dy = c.in("dy").data<T>(), *x = c.in("x").data<T>(), *scale = c.in("scale").data<T>();
  const T *mean = c.in("mean").data<T>(), *var = c.in("var").data<T>();
  const T *dmean = c.maybe<T>("dmean"), *dvar = c.maybe<T>("dvar");
  Scratch coefficients = scratch(sizeof(T) * 4 * m.width), totals = scratch(sizeof(double) * 2 * m.channels);
  T *center = coefficients.as<T>(), *rate = center + m.width, *slope = rate + m.width, *offset = slope + m.width;
  std::copy(mean, mean + m.channels, center);
  repeat(m, center);
  double* sums = totals.as<double>();
  gradient_sums<T>(m, dy, x, center, sums);

  const double eps = c.attr<double>("eps"), inverse = m.rows > 0 ? 1.0 / static_cast<double>(m.rows) : 0.0;
  for (int64_t k = 0; k < m.channels; ++k) {
    const double rstd = 1 / std::sqrt(static_cast<double>(var[k]) + eps), a = scale[k] * rstd;
    const double sum = sums[k], product = sums[m.channels + k];
    c.out("dbias").data<T>()[k] = static_cast<T>(sum);
    c.out("dscale").data<T>()[k] = static_cast<T>(product * rstd);
    rate[k] = static_cast<T>(a);
    slope[k] = static_cast<T>(inverse * ((dvar ? 2.0 * dvar[k] : 0.0) - a * rstd * rstd * product));
    offset[k] = static_cast<T>(inverse * ((dmean ? static_cast<double>(dmean[k]) : 0.0) - a * sum));
  }
  for (T* v : {rate, slope, offset}) repeat(m, v);
  T* dx = c.out("dx").data<T>();
  for_each_element(m,
                   [=](int64_t i, int64_t k) { dx[i] = dy[i] * rate[k] + (x[i] - center[k]) * slope[k] + offset[k]; });
}

PADDOCK_CPU_KERNEL(batch_norm_grad) {
  dispatch_float(c.in("x").dtype(), [&](auto tag) { backward<typename decltype(tag)::type>(c); });
}

}  // namespace
}  // namespace paddock::cpu
