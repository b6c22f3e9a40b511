// Kernels of softmax and its losses.
#include <cmath>

#include "cpu/kernel.h"

namespace paddock::cpu {
namespace {

PADDOCK_CPU_KERNEL(sigmoid_cross_entropy) {
  dispatch_float(c.in("logits").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *x = c.in("logits").data<T>(), *t = c.in("targets").data<T>();
    T* loss = c.out(0).data<T>();
    parallel_for(c.in("logits").numel(), kGrain / 4, [&](int64_t begin, int64_t end) {
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i)
        loss[i] = std::max(x[i], T{0}) - x[i] * t[i] + std::log1p(std::exp(-std::abs(x[i])));
    });
  });
}

}  // namespace
}  // namespace paddock::cpu
