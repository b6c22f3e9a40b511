// From the type classes of ops/elementwise_table.inc to C++ types.
#pragma once
#include "core/dtype.h"

namespace paddock::cpu {

enum Types { kFloats, kNumbers, kComparable, kBool };

// Calls f with the C++ type of t, one of those that `kTypes` allows; the shape rule has refused the rest.
template <Types kTypes, class F>
void dispatch_types(DType t, F&& f) {
  if constexpr (kTypes == kBool) {
    f(TypeTag<bool>{});
  } else {
    if constexpr (kTypes != kFloats) {
      if (t == DType::kI32) return f(TypeTag<int32_t>{});
      if (t == DType::kI64) return f(TypeTag<int64_t>{});
    }
    if constexpr (kTypes == kComparable) {
      if (t == DType::kI8) return f(TypeTag<int8_t>{});
      if (t == DType::kU8 || t == DType::kBool) return f(TypeTag<uint8_t>{});
    }
    dispatch_float(t, f);
  }
}

// For kernels that move elements without looking at them: an unsigned type of the same size.
template <class F>
void dispatch_bits(DType t, F&& f) {
  switch (dtype_size(t)) {
    case 1:
      return f(TypeTag<uint8_t>{});
    case 2:
      return f(TypeTag<uint16_t>{});
    case 4:
      return f(TypeTag<uint32_t>{});
    default:
      return f(TypeTag<uint64_t>{});
  }
}

}  // namespace paddock::cpu
