// The element types of the core, and dispatch from a run-time type to a compile-time one.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <ostream>

#include "core/error.h"

namespace paddock {

enum class DType : uint8_t { kF32, kF64, kF16, kBF16, kI8, kU8, kI32, kI64, kBool };
inline constexpr int kDTypeCount = 9;

constexpr int64_t dtype_size(DType t) {
  constexpr int64_t sizes[kDTypeCount] = {4, 8, 2, 2, 1, 1, 4, 8, 1};
  return sizes[static_cast<int>(t)];
}

constexpr const char* dtype_name(DType t) {
  constexpr const char* names[kDTypeCount] = {"float32", "float64", "float16", "bfloat16", "int8",
                                              "uint8",   "int32",   "int64",   "bool"};
  return names[static_cast<int>(t)];
}

constexpr bool is_floating(DType t) { return t <= DType::kBF16; }
constexpr bool is_integral(DType t) { return t >= DType::kI8 && t <= DType::kI64; }

// `who` asks: an operator or function, named in the error.
inline DType dtype_from_name(const std::string& name, const std::string& who) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (name == dtype_name(static_cast<DType>(i))) return static_cast<DType>(i);
  fail(ErrorKind::kDType, who, ": '", name,
       "' is not a type of the core; it has float32, float64, float16, bfloat16, int8, uint8, int32, int64, "
       "bool");
}

inline std::ostream& operator<<(std::ostream& out, DType t) { return out << dtype_name(t); }

// Storage-only 16-bit floats: arithmetic happens in float after conversion (round to nearest even).
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value) {
    uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u)
      bits = static_cast<uint16_t>((u >> 16) | 0x40);
    else
      bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

struct Float16 {
  uint16_t bits = 0;
  Float16() = default;
  explicit Float16(float value) {
    uint32_t u = std::bit_cast<uint32_t>(value), sign = (u >> 16) & 0x8000u, mag = u & 0x7fffffffu;
    if (mag > 0x7f800000u) {
      bits = static_cast<uint16_t>(sign | 0x7e00u);
    } else if (mag >= 0x47800000u) {  // 65536 and above, infinity
      bits = static_cast<uint16_t>(sign | 0x7c00u);
    } else if (mag < 0x38800000u) {  // subnormal half: let the float adder round
      float shifted = std::bit_cast<float>(mag) + 0.5f;
      bits = static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
    } else {
      uint32_t rounded = mag + 0xfffu + ((mag >> 13) & 1);
      bits = static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
    }
  }
  explicit operator float() const {
    uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16, exp = (bits >> 10) & 0x1fu, frac = bits & 0x3ffu;
    if (exp == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (frac << 13));
    if (exp == 0) {
      float magnitude = static_cast<float>(frac) * 5.9604644775390625e-8f;  // 2^-24
      return sign ? -magnitude : magnitude;
    }
    return std::bit_cast<float>(sign | ((exp + 112) << 23) | (frac << 13));
  }
};

template <class T>
struct TypeTag {
  using type = T;
};

// Calls f(TypeTag<T>{}) with the C++ type of `t`.
template <class F>
decltype(auto) dispatch_all(DType t, F&& f) {
  switch (t) {
    case DType::kF32:
      return f(TypeTag<float>{});
    case DType::kF64:
      return f(TypeTag<double>{});
    case DType::kF16:
      return f(TypeTag<Float16>{});
    case DType::kBF16:
      return f(TypeTag<BFloat16>{});
    case DType::kI8:
      return f(TypeTag<int8_t>{});
    case DType::kU8:
      return f(TypeTag<uint8_t>{});
    case DType::kI32:
      return f(TypeTag<int32_t>{});
    case DType::kI64:
      return f(TypeTag<int64_t>{});
    case DType::kBool:
      return f(TypeTag<bool>{});
  }
  fail(ErrorKind::kInternal, "dispatch_all: bad dtype");
}

// float32 and float64 only; the shape rule has already refused the rest.
template <class F>
decltype(auto) dispatch_float(DType t, F&& f) {
  if (t == DType::kF64) return f(TypeTag<double>{});
  if (t == DType::kF32) return f(TypeTag<float>{});
  fail(ErrorKind::kDType, "no kernel for ", t, "; cast to float32 or float64");
}

// int32 and int64 only, for indices.
template <class F>
decltype(auto) dispatch_index(DType t, F&& f) {
  if (t == DType::kI64) return f(TypeTag<int64_t>{});
  if (t == DType::kI32) return f(TypeTag<int32_t>{});
  fail(ErrorKind::kDType, "indices of type ", t, "; cast to int32 or int64");
}

}  // namespace paddock
