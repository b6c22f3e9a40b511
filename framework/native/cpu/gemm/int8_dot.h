// Sums of products of 8-bit numbers in 32-bit lanes, exact whatever the instruction set has for them. Beside vec.h and
// vec_int.h the only file of the kernels that asks for an instruction set.
//
// The two ways: VNNI multiplies four unsigned by four signed bytes a lane and adds all at once; else two numbers of 16
// bits a lane are multiplied and added (vpmaddwd). The byte product of older sets, vpmaddubsw, saturates: not used.
#pragma once
#include "cpu/vec/vec.h"

namespace paddock::cpu {

typedef int32_t Int32s __attribute__((vector_size(kVecBytes)));
typedef int32_t UnalignedInt32s __attribute__((vector_size(kVecBytes), aligned(4), may_alias));

PADDOCK_INLINE Int32s load_int32s(const void* p) { return *static_cast<const UnalignedInt32s*>(p); }
PADDOCK_INLINE void store_int32s(Int32s x, void* p) { *static_cast<UnalignedInt32s*>(p) = x; }

// The interface of both: a lane of a vector of B holds kGroup weights of a column, A is given as kGroup numbers of type
// Row in 32 bits, each a value plus kShift.
struct WideningDot {
  static constexpr const char* kName = "16-bit products";
  static constexpr int kGroup = 2, kShift = 0;
  using Row = int16_t;

#if defined(__AVX512F__)
  static PADDOCK_INLINE Int32s weights(const int8_t* p) {
    return (Int32s)_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static PADDOCK_INLINE Int32s add(Int32s sum, Int32s a, Int32s b) {
    return sum + (Int32s)_mm512_madd_epi16((__m512i)a, (__m512i)b);
  }
#elif defined(__AVX2__)
  static PADDOCK_INLINE Int32s weights(const int8_t* p) {
    return (Int32s)_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static PADDOCK_INLINE Int32s add(Int32s sum, Int32s a, Int32s b) {
    return sum + (Int32s)_mm256_madd_epi16((__m256i)a, (__m256i)b);
  }
#elif defined(__SSE2__)
  static PADDOCK_INLINE Int32s weights(const int8_t* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return (Int32s)_mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
  }
  static PADDOCK_INLINE Int32s add(Int32s sum, Int32s a, Int32s b) {
    return sum + (Int32s)_mm_madd_epi16((__m128i)a, (__m128i)b);
  }
#else
  static PADDOCK_INLINE Int32s weights(const int8_t* p) {
    int16_t wide[kVecBytes / 2];
    for (int i = 0; i < kVecBytes / 2; ++i) wide[i] = p[i];
    return load_int32s(wide);
  }
  static PADDOCK_INLINE Int32s add(Int32s sum, Int32s a, Int32s b) {
    int16_t x[kVecBytes / 2], y[kVecBytes / 2];
    store_int32s(a, x);
    store_int32s(b, y);
    for (int i = 0; i < kVecBytes / 4; ++i) sum[i] += x[2 * i] * y[2 * i] + x[2 * i + 1] * y[2 * i + 1];
    return sum;
  }
#endif
};

#if defined(__AVX2__)
// The instruction is written out: it is used on the processors that have it, in a library for all that have AVX2 or
// AVX-512.
struct VnniDot {
  static constexpr const char* kName = "VNNI";
  static constexpr int kGroup = 4, kShift = 128;
  using Row = uint8_t;

  static PADDOCK_INLINE Int32s weights(const int8_t* p) { return load_int32s(p); }
  static PADDOCK_INLINE Int32s add(Int32s sum, Int32s a, Int32s b) {
#if defined(__AVX512F__)
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
#else
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
#endif
    return sum;
  }
};
#endif

// Whether this processor has the instruction of VnniDot.
inline bool has_vnni() {
#if defined(__AVX512F__)
  return __builtin_cpu_supports("avx512vnni");
#elif defined(__AVX2__)
  unsigned a = 7, b = 0, c = 1, d = 0;  // leaf 7, subleaf 1: bit 4 of eax is AVX-VNNI
  asm("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return a >> 4 & 1;
#else
  return false;
#endif
}

}  // namespace paddock::cpu
