// Conversion between any two of the element types.
#include "cpu/broadcast.h"
#include "cpu/scalar_ops.h"

namespace paddock::cpu {
namespace {

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

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

PADDOCK_CPU_KERNEL(cast) {
  const Tensor &x = c.in(0), &y = c.out(0);
  dispatch_all(x.dtype(), [&](auto from) {
    dispatch_all(y.dtype(), [&](auto to) {
      using From = typename decltype(from)::type;
      using To = typename decltype(to)::type;
      map<From, To>(x, y, [](From v) { return convert<To>(v); });
    });
  });
}

}  // namespace
}  // namespace paddock::cpu
