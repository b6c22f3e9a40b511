// Kernels of the operators of ops/shape.cc that touch memory.
#include <cstring>
#include <numeric>

#include "cpu/kernel.h"

namespace paddock::cpu {
namespace {

void fill(const Tensor& y, double value) {
  dispatch_all(y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T v;
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
      v = T(static_cast<float>(value));
    else
      v = static_cast<T>(value);
    T* out = y.data<T>();
    parallel_for(y.numel(), kGrain, [&](int64_t begin, int64_t end) { std::fill(out + begin, out + end, v); });
  });
}

PADDOCK_CPU_KERNEL(full) { fill(c.out(0), c.attr<double>("value")); }
PADDOCK_CPU_KERNEL(full_like) { fill(c.out(0), c.attr<double>("value")); }

PADDOCK_CPU_KERNEL(extent) {
  const Shape& x = c.in(0).shape();
  *c.out(0).data<int64_t>() = x[c.axis("axis", x.rank())];
}

PADDOCK_CPU_KERNEL(positions) {
  auto* y = c.out(0).data<int64_t>();
  std::iota(y, y + c.out(0).numel(), int64_t{0});
}

PADDOCK_CPU_KERNEL(copy) {
  auto* from = c.in(0).data<char>();
  auto* to = c.out(0).data<char>();
  parallel_for(c.in(0).bytes(), 4 * kGrain,
               [&](int64_t begin, int64_t end) { std::memcpy(to + begin, from + begin, end - begin); });
}

}  // namespace
}  // namespace paddock::cpu
