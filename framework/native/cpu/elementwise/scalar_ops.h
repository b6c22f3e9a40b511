// Scalar arithmetic whose result is defined for every input: whole numbers wrap around, division by 0 gives 0.
#pragma once
#include <cmath>
#include <limits>
#include <type_traits>

namespace paddock::cpu {

template <class T>
using Wrapping =
    typename std::conditional_t<std::is_floating_point_v<T>, std::type_identity<T>, std::make_unsigned<T>>::type;

template <class T>
inline T wrap_add(T a, T b) {
  return static_cast<T>(Wrapping<T>(a) + Wrapping<T>(b));
}
template <class T>
inline T wrap_sub(T a, T b) {
  return static_cast<T>(Wrapping<T>(a) - Wrapping<T>(b));
}
template <class T>
inline T multiply(T a, T b) {
  return static_cast<T>(Wrapping<T>(a) * Wrapping<T>(b));
}
template <class T>
inline T negate(T a) {
  if constexpr (std::is_floating_point_v<T>)
    return -a;
  else
    return wrap_sub(T(0), a);
}
template <class T>
inline T absolute(T a) {
  if constexpr (std::is_floating_point_v<T>)
    return std::fabs(a);
  else
    return a < 0 ? negate(a) : a;
}

namespace math {

// a - b * floor(a / b), with the sign of b.
template <class T>
inline T mod(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    T r = std::fmod(a, b);
    if (r == T(0)) return std::copysign(T(0), b);
    return (r < T(0)) != (b < T(0)) ? r + b : r;
  } else {
    if (b == T(0) || b == T(-1)) return T(0);
    T r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  }
}

// floor(a / b). For floats the quotient of the exact remainder, so that a = b * floor_div + mod holds as well as it
// can.
template <class T>
inline T floor_div(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (b == T(0)) return a / b;
    T q = (a - mod(a, b)) / b;
    return std::nearbyint(q);
  } else {
    if (b == T(0)) return T(0);
    if (b == T(-1)) return negate(a);
    T q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
  }
}

// A float as a whole number: the fraction dropped, limited to the range of To, NaN as 0.
template <class To, class From>
inline To saturate(From x) {
  constexpr To kLow = std::numeric_limits<To>::min(), kHigh = std::numeric_limits<To>::max();
  if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(x);
  } else {
    // The range's ends as floats; the upper one rounds to a power of two for wide types, just above kHigh.
    constexpr From low = static_cast<From>(kLow), high = static_cast<From>(kHigh);
    return !(x == x) ? To(0) : x <= low ? kLow : x >= high ? kHigh : static_cast<To>(x);
  }
}

}  // namespace math
}  // namespace paddock::cpu
