// What normalisations by channel share: moments and gradient sums of a matrix [rows, C], and the passes that apply
// them. Statistics of a chunk are taken twice over cached data (the second time around its mean) and joined in double.
#pragma once
#include "cpu/norm/columns.h"

namespace paddock::cpu {

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
inline void join_moments(const Columns& m, const double* parts, double* mean, double* var) {
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

// y = (x - mean) * rate + bias; each coefficient fills one joined row. y may be x.
template <class T>
void normalize(const Columns& m, const T* x, const T* mean, const T* rate, const T* bias, T* y) {
  for_each_element(m, [=](int64_t i, int64_t c) { y[i] = (x[i] - mean[c]) * rate[c] + bias[c]; });
}

// Mean and biased variance of each channel of x [rows, C]; 0 when there are no rows.
template <class T>
void channel_moments(const Columns& m, const T* x, double* mean, double* var) {
  Scratch partial = scratch(sizeof(double) * 2 * m.channels * m.chunks());
  double* parts = partial.as<double>();
  if (m.rows > 0)
    for_each_task(m, [&](const ColumnTask& t) {
      double* part = parts + t.chunk * 2 * m.channels;
      task_moments<T>(m, t, x, part, part + m.channels);
    });
  else
    std::fill(parts, parts + 2 * m.channels, 0.0);
  join_moments(m, parts, mean, var);
}

// sums[c] = sum of d, sums[C + c] = sum of d * (x - mean), chunk by chunk in T and over chunks in double; d is
// gradient(element, column of a joined row).
template <class T, class F>
void gradient_sums(const Columns& m, const F& gradient, const T* __restrict x, const T* __restrict mean, double* sums) {
  Scratch partial = scratch(sizeof(T) * 2 * m.channels * m.chunks());
  T* parts = partial.as<T>();
  for_each_task(m, [&](const ColumnTask& t) {
    T sum[Columns::kMaxWidth], product[Columns::kMaxWidth];
    const F d_of = gradient;
    const int64_t first = t.first;
    sum_task<T, 2>(m, t, {sum, product}, [=](int64_t i, int64_t c, auto& s) {
      const T d = d_of(i, first + c);
      s[0] += d;
      s[1] += d * (x[i] - mean[first + c]);
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

// dx = d * rate + (x - mean) * slope + offset with d as above; each coefficient fills one joined row. dx may be x, or
// what `gradient` reads.
template <class T, class F>
void apply_gradient(const Columns& m, const F& gradient, const T* x, const T* mean, const T* rate, const T* slope,
                    const T* offset, T* dx) {
  for_each_element(
      m, [=](int64_t i, int64_t k) { dx[i] = gradient(i, k) * rate[k] + (x[i] - mean[k]) * slope[k] + offset[k]; });
}

}  // namespace paddock::cpu
