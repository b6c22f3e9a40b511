// Every element as an int64 of the same order, so that one routine sorts all types.
#pragma once
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/dtype.h"

namespace paddock::cpu {

// Ordered as the values are; -0 and 0 are equal, and NaN is above all.
template <class Bits, class Float>
Bits sort_key(Float v) {
  if (v != v) return std::numeric_limits<Bits>::max();
  if (v == 0) return 0;
  const auto bits = std::bit_cast<Bits>(v);
  return bits < 0 ? bits ^ std::numeric_limits<Bits>::max() : bits;
}

template <class T>
int64_t sort_key_of(T v) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<int64_t>(v);
  else if constexpr (sizeof(T) > sizeof(float))
    return sort_key<int64_t>(v);
  else
    return sort_key<int32_t>(static_cast<float>(v));
}

// The same in 32 bits without a sign, for types that have no more.
template <class T>
uint32_t narrow_sort_key_of(T v) {
  static_assert(sizeof(T) <= sizeof(uint32_t));
  return static_cast<uint32_t>(sort_key_of(v)) ^ 0x80000000u;
}

}  // namespace paddock::cpu
