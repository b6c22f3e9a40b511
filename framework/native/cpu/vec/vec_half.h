// Half types as vectors of float: loads that widen and stores that round to nearest even. Beside vec.h and vec_int.h
// the only file of the kernels that asks for an instruction set: compilers have no vector conversions for these types.
#pragma once
#include "core/dtype.h"
#include "cpu/vec/vec.h"

namespace paddock::cpu {

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

// Calls f with the C++ type of a half type.
template <class F>
decltype(auto) dispatch_half(DType t, F&& f) {
  if (t == DType::kF16) return f(TypeTag<Float16>{});
  return f(TypeTag<BFloat16>{});
}

#if defined(__AVX512F__)
// The masked forms, all lanes on, as in vec.h.
PADDOCK_INLINE Vec<float> widen(const BFloat16* p) {
  const __m512i words = _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {(Vec<float>::Native)_mm512_maskz_slli_epi32(0xffff, words, 16)};
}
PADDOCK_INLINE Vec<float> widen(const Float16* p) {
  return {(Vec<float>::Native)_mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
PADDOCK_INLINE void narrow(Vec<float> x, BFloat16* p) {
  typedef uint32_t Words __attribute__((vector_size(64)));
  const Words u = (Words)x.v, nan = (Words)(x.v != x.v);
  const Words rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16, quiet = (u >> 16) | 0x40u;
  const Words bits = (rounded & ~nan) | (quiet & nan);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_maskz_cvtepi32_epi16(0xffff, (__m512i)bits));
}
PADDOCK_INLINE void narrow(Vec<float> x, Float16* p) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_maskz_cvtps_ph(0xffff, x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
PADDOCK_INLINE Vec<float> widen(const BFloat16* p) {
  const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return {(Vec<float>::Native)_mm256_slli_epi32(words, 16)};
}
PADDOCK_INLINE Vec<float> widen(const Float16* p) {
  return {(Vec<float>::Native)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
PADDOCK_INLINE void narrow(Vec<float> x, BFloat16* p) {
  typedef uint32_t Words __attribute__((vector_size(32)));
  const Words u = (Words)x.v, nan = (Words)(x.v != x.v);
  const Words rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16, quiet = (u >> 16) | 0x40u;
  const __m256i bits = (__m256i)((rounded & ~nan) | (quiet & nan));
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(bits, bits), 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
}
PADDOCK_INLINE void narrow(Vec<float> x, Float16* p) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#elif defined(__ARM_NEON)
// Conversions of float16 belong to every aarch64; its arithmetic, which not all have, is not used.
PADDOCK_INLINE Vec<float> widen(const BFloat16* p) {
  return {(Vec<float>::Native)vshll_n_u16(vld1_u16(reinterpret_cast<const uint16_t*>(p)), 16)};
}
PADDOCK_INLINE Vec<float> widen(const Float16* p) {
  return {(Vec<float>::Native)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(reinterpret_cast<const uint16_t*>(p))))};
}
PADDOCK_INLINE void narrow(Vec<float> x, BFloat16* p) {
  typedef uint32_t Words __attribute__((vector_size(16)));
  const Words u = (Words)x.v, nan = (Words)(x.v != x.v);
  const Words rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16, quiet = (u >> 16) | 0x40u;
  vst1_u16(reinterpret_cast<uint16_t*>(p), vmovn_u32((uint32x4_t)((rounded & ~nan) | (quiet & nan))));
}
PADDOCK_INLINE void narrow(Vec<float> x, Float16* p) {
  vst1_u16(reinterpret_cast<uint16_t*>(p), vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)x.v)));
}
#else
template <class H>
PADDOCK_INLINE Vec<float> widen(const H* p) {
  Vec<float> x;
  for (int i = 0; i < Vec<float>::kSize; ++i) x.v[i] = static_cast<float>(p[i]);
  return x;
}
template <class H>
PADDOCK_INLINE void narrow(Vec<float> x, H* p) {
  for (int i = 0; i < Vec<float>::kSize; ++i) p[i] = H(x.v[i]);
}
#endif

// n elements from a half type to float, and back.
template <class H>
void widen_all(const H* from, float* to, int64_t n) {
  constexpr int kSize = Vec<float>::kSize;
  int64_t i = 0;
  for (; i + kSize <= n; i += kSize) widen(from + i).store(to + i);
  for (; i < n; ++i) to[i] = static_cast<float>(from[i]);
}
template <class H>
void narrow_all(const float* from, H* to, int64_t n) {
  constexpr int kSize = Vec<float>::kSize;
  int64_t i = 0;
  for (; i + kSize <= n; i += kSize) narrow(Vec<float>::load(from + i), to + i);
  for (; i < n; ++i) to[i] = H(from[i]);
}

}  // namespace paddock::cpu
