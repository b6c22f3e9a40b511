// Batch normalisation over the rows of [rows, C]. Forward: statistics, then one pass; backward: two sums, then one
// pass. Statistics of a chunk are taken twice over cached data (the second time around its mean) and joined in double.
#include <cmath>

#include "cpu/channel_norm.h"

namespace paddock::cpu {
namespace {

Columns columns_of(const Tensor& x) {
  int64_t channels = x.shape().back();
  return {channels > 0 ? x.numel() / channels : 0, channels};
}

template <class T>
void forward(const KernelContext& c) {
  const Columns m = columns_of(c.in("x"));
  const T *x = c.in("x").data<T>(), *scale = c.in("scale").data<T>(), *bias = c.in("bias").data<T>();
  T *mean = c.out("mean").data<T>(), *var = c.out("var").data<T>();

  Scratch moments = scratch(sizeof(double) * 2 * m.channels);
  double* joined = moments.as<double>();
  channel_moments(m, x, joined, joined + m.channels);

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
  apply_gradient(m, dy, x, center, rate, slope, offset, c.out("dx").data<T>());
}

PADDOCK_CPU_KERNEL(batch_norm_grad) {
  dispatch_float(c.in("x").dtype(), [&](auto tag) { backward<typename decltype(tag)::type>(c); });
}

}  // namespace
}  // namespace paddock::cpu
