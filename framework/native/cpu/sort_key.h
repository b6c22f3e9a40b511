// Every element as an int64 of the same order, so that one routine sorts all types.
#pragma once
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/dtype.h"

namespace paddock::cpu {

// Ordered as the values are; -0 and 0 are equal, and NaN is above all.
inline int64_t sort_key(double v) {
  if (v != v) return std::numeric_limits<int64_t>::max();
  if (v == 0) return 0;
  const auto bits = std::bit_cast<int64_t>(v);
  return bits < 0 ? bits ^ std::numeric_limits<int64_t>::max() : bits;
}

template <class T>
int64_t sort_key_of(T v) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<int64_t>(v);
  else if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
    return sort_key(static_cast<float>(v));
  else
    return sort_key(v);
}

}  // namespace paddock::cpu
