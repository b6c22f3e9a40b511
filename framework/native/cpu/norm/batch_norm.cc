// Batch normalisation over the rows of [rows, C]: statistics in one pass, then one pass that normalises, adds the
// residual and applies the activation.
#include "cpu/norm/batch_norm.h"

namespace paddock::cpu {
namespace {

// y = activation(normalised x + residual), or activation(normalised x) + residual where the residual comes last.
template <class T>
void apply(const KernelContext& c, const Columns& m, const T* mean, const T* var) {
  const Normalization<T> n(m, c.in("scale").data<T>(), c.in("bias").data<T>(), mean, var, c.attr<double>("eps"));
  const T *x = c.in("x").data<T>(), *residual = c.maybe<T>("residual");
  const T *center = n.center(), *rate = n.rate(), *offset = n.offset();
  const T slope = c.attr<T>("slope");
  T* y = c.out("y").data<T>();
  dispatch_activation(c, [&](auto chosen) {
    constexpr Activation kActivation = decltype(chosen)::value;
    if (!residual)
      for_each_element(m, [=](int64_t i, int64_t k) {
        y[i] = activate<kActivation>((x[i] - center[k]) * rate[k] + offset[k], slope);
      });
    else if (c.attr<bool>("residual_last"))
      for_each_element(m, [=](int64_t i, int64_t k) {
        y[i] = activate<kActivation>((x[i] - center[k]) * rate[k] + offset[k], slope) + residual[i];
      });
    else
      for_each_element(m, [=](int64_t i, int64_t k) {
        y[i] = activate<kActivation>((x[i] - center[k]) * rate[k] + offset[k] + residual[i], slope);
      });
  });
}

PADDOCK_CPU_KERNEL(batch_norm) {
  dispatch_float(c.in("x").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Columns m = columns_of(c.in("x"));
    Scratch moments = scratch(sizeof(double) * 2 * m.channels);
    double* joined = moments.as<double>();
    channel_moments(m, c.in("x").data<T>(), joined, joined + m.channels);
    T *mean = c.out("mean").data<T>(), *var = c.out("var").data<T>();
    for (int64_t k = 0; k < m.channels; ++k) {
      mean[k] = static_cast<T>(joined[k]);
      var[k] = static_cast<T>(joined[m.channels + k]);
    }
    apply<T>(c, m, mean, var);
  });
}

PADDOCK_CPU_KERNEL(batch_norm_inference) {
  dispatch_float(c.in("x").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    apply<T>(c, columns_of(c.in("x")), c.in("mean").data<T>(), c.in("var").data<T>());
  });
}

}  // namespace
}  // namespace paddock::cpu
