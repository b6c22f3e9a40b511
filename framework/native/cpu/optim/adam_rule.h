// Adam's loop over elements, for whole parameters (optim.cc) and for rows of tables (table_rules.cc): with the same
// numbers they make the same bits.
#pragma once
#include <cmath>
#include <cstdint>

#include "cpu/vec/vec.h"

namespace paddock::cpu {

// factor * value + scaled, spelt out so that a gradient's scale is rounded before the sum on every instruction set: a
// step with `grad_scale` has the bits of a step on gradients scaled before it.
template <class T>
PADDOCK_INLINE T plus_decay(T scaled, T factor, T value) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return std::fma(factor, value, scaled);
#else
  return scaled + factor * value;
#endif
}

template <class T>
struct AdamNumbers {
  T scale, b1, b2, new1, new2, rate, unbias, eps, l2, keep;
};

// in: value, gradient, m, v; out: value, m, v, which may be those of `in`.
template <class T>
PADDOCK_INLINE void adam_elements(const AdamNumbers<T>& numbers, const T* const* in, T* const* out, int64_t n) {
  const T *p = in[0], *g = in[1], *m = in[2], *v = in[3];
  T *param = out[0], *m_out = out[1], *v_out = out[2];
  const AdamNumbers<T> r = numbers;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T value = p[i], slope = plus_decay(r.scale * g[i], r.l2, value);
    const T mean = r.b1 * m[i] + r.new1 * slope, square = r.b2 * v[i] + r.new2 * slope * slope;
    param[i] = r.keep * value - r.rate * mean / (std::sqrt(square) * r.unbias + r.eps);
    m_out[i] = mean;
    v_out[i] = square;
  }
}

}  // namespace paddock::cpu
