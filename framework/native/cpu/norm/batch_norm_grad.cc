// Gradients of batch normalisation: one pass that sums, one that gives dx. The activation's derivative is taken in both
// passes anew, from x or from y, so that the masked gradient is never written to memory, unless a residual wants it.
#include "cpu/norm/batch_norm.h"

namespace paddock::cpu {
namespace {

// dx = d * rate + (x - center) * slope + offset, where the last two carry the gradient through the statistics: rows 1
// to 3 of r from sums[c] = sum of d and sums[C + c] = sum of d * (x - mean). Also writes dscale and dbias.
template <class T>
void find_coefficients(const KernelContext& c, const Columns& m, const double* sums, const JoinedRows<T, 4>& r) {
  const T *scale = c.in("scale").data<T>(), *var = c.in("var").data<T>();
  const T *dmean = c.maybe<T>("dmean"), *dvar = c.maybe<T>("dvar");
  const double eps = c.attr<double>("eps"), inverse = m.rows > 0 ? 1.0 / static_cast<double>(m.rows) : 0.0;
  for (int64_t k = 0; k < m.channels; ++k) {
    const double rstd = 1 / std::sqrt(static_cast<double>(var[k]) + eps), a = scale[k] * rstd;
    const double sum = sums[k], product = sums[m.channels + k];
    c.out("dbias").data<T>()[k] = static_cast<T>(sum);
    c.out("dscale").data<T>()[k] = static_cast<T>(product * rstd);
    r[1][k] = static_cast<T>(a);
    r[2][k] = static_cast<T>(inverse * ((dvar ? 2.0 * dvar[k] : 0.0) - a * rstd * rstd * product));
    r[3][k] = static_cast<T>(inverse * ((dmean ? static_cast<double>(dmean[k]) : 0.0) - a * sum));
  }
  r.fill();
}

// gradient(i, k): the gradient of element i, column k of a joined row, before the activation. It is stored to `stored`
// unless that is null.
template <class T, class F>
void backward(const KernelContext& c, const Columns& m, T* stored, F gradient) {
  const T* x = c.in("x").data<T>();
  Scratch totals = scratch(sizeof(double) * 2 * m.channels);
  const JoinedRows<T, 4> r(m);
  const T *center = r[0], *rate = r[1], *slope = r[2], *offset = r[3];
  std::copy_n(c.in("mean").data<T>(), m.channels, r[0]);
  repeat(m, r[0]);
  gradient_sums<T>(m, gradient, x, center, totals.as<double>());
  find_coefficients(c, m, totals.as<double>(), r);
  T* dx = c.out("dx").data<T>();
  if (stored)
    for_each_element(m, [=](int64_t i, int64_t k) {
      const T d = gradient(i, k);
      dx[i] = d * rate[k] + (x[i] - center[k]) * slope[k] + offset[k];
      stored[i] = d;
    });
  else
    apply_gradient(m, gradient, x, center, rate, slope, offset, dx);
}

PADDOCK_CPU_KERNEL(batch_norm_grad) {
  dispatch_float(c.in("x").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* dy = c.in("dy").data<T>();
    backward<T>(c, columns_of(c.in("x")), nullptr, [=](int64_t i, int64_t) { return dy[i]; });
  });
}

PADDOCK_CPU_KERNEL(batch_norm_activation_grad) {
  dispatch_float(c.in("x").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Columns m = columns_of(c.in("x"));
    const Normalization<T> n(m, c.in("scale").data<T>(), c.in("bias").data<T>(), c.in("mean").data<T>(),
                             c.in("var").data<T>(), c.attr<double>("eps"));
    const T *dy = c.in("dy").data<T>(), *x = c.in("x").data<T>();
    const T *center = n.center(), *rate = n.rate(), *offset = n.offset();
    const T slope = c.attr<T>("slope");
    dispatch_activation(c, [&](auto chosen) {
      backward<T>(c, m, nullptr, [=](int64_t i, int64_t k) {
        const T z = (x[i] - center[k]) * rate[k] + offset[k];
        return activation_gradient<decltype(chosen)::value>(dy[i], z, slope);
      });
    });
  });
}

PADDOCK_CPU_KERNEL(batch_norm_residual_grad) {
  dispatch_float(c.in("x").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *dy = c.in("dy").data<T>(), *y = c.in("y").data<T>();
    const T slope = c.attr<T>("slope");
    dispatch_activation(c, [&](auto chosen) {
      backward<T>(c, columns_of(c.in("x")), c.out("dresidual").data<T>(),
                  [=](int64_t i, int64_t) { return activation_gradient<decltype(chosen)::value>(dy[i], y[i], slope); });
    });
  });
}

}  // namespace
}  // namespace paddock::cpu
