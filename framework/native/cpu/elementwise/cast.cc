// Conversion between any two of the element types.
#include "cpu/elementwise/micro_op.h"
#include "cpu/elementwise/scalar_ops.h"
#include "cpu/vec/vec_half.h"

namespace paddock::cpu {
namespace {

template <class To, class From>
To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (kIsHalf<From>) {
    return convert<To>(static_cast<float>(x));
  } else if constexpr (kIsHalf<To>) {
    return To(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return math::saturate<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <class To, class From>
void cast_run(const void* const* in, void* y, int64_t n, const double*) {
  const From* from = static_cast<const From*>(in[0]);
  To* to = static_cast<To*>(y);
  if constexpr (kIsHalf<From> && std::is_same_v<To, float>) {
    widen_all(from, to, n);
  } else if constexpr (std::is_same_v<From, float> && kIsHalf<To>) {
    narrow_all(from, to, n);
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) to[i] = convert<To>(from[i]);
  }
}

MicroRun loop_of(DType from, DType to) {
  return dispatch_all(from, [&](auto a) {
    return dispatch_all(
        to, [&](auto b) -> MicroRun { return cast_run<typename decltype(b)::type, typename decltype(a)::type>; });
  });
}

MicroRegistrar every_pair() {
  for (int from = 0; from < kDTypeCount; ++from)
    for (int to = 0; to < kDTypeCount; ++to) {
      const auto a = static_cast<DType>(from), b = static_cast<DType>(to);
      add_micro_op({"cast", a, b, loop_of(a, b)});
    }
  return {};
}
const MicroRegistrar cast_micro = every_pair();

PADDOCK_CPU_KERNEL(cast) { run_whole(c, loop_of(c.in(0).dtype(), c.out(0).dtype())); }

}  // namespace
}  // namespace paddock::cpu
