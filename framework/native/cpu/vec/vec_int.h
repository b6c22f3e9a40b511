// Sixteen 32-bit words and their products of 64 bits, for random numbers; bytes as float. Beside vec.h the only file of
// the kernels that asks for an instruction set: compilers take the slow product of 64-bit words for it.
#pragma once
#include "cpu/vec/vec.h"

namespace paddock::cpu {

struct Words16 {
  static constexpr int kSize = 16, kParts = 64 / kVecBytes;
  typedef uint32_t Native __attribute__((vector_size(kVecBytes)));
  typedef uint32_t Unaligned __attribute__((vector_size(kVecBytes), aligned(4), may_alias));
  Native part[kParts];

  static PADDOCK_INLINE Words16 broadcast(uint32_t x) {
    Words16 w;
    for (Native& p : w.part) p = x - Native{};
    return w;
  }
  static PADDOCK_INLINE Words16 load(const uint32_t* p) {
    Words16 w;
    for (int i = 0; i < kParts; ++i) w.part[i] = *reinterpret_cast<const Unaligned*>(p + i * (kSize / kParts));
    return w;
  }
  PADDOCK_INLINE void store(uint32_t* p) const {
    for (int i = 0; i < kParts; ++i) *reinterpret_cast<Unaligned*>(p + i * (kSize / kParts)) = part[i];
  }
};

PADDOCK_INLINE Words16 operator^(Words16 a, const Words16& b) {
  for (int i = 0; i < Words16::kParts; ++i) a.part[i] ^= b.part[i];
  return a;
}

// The upper and lower halves of the products of each word with m.
PADDOCK_INLINE void multiply_wide(const Words16& a, uint32_t m, Words16& high, Words16& low) {
#if defined(__AVX512F__)
  // The masked forms, all lanes on, as in vec.h.
  const __m512i x = (__m512i)a.part[0], factor = _mm512_maskz_set1_epi64(0xff, m);
  const __m512i even = _mm512_maskz_mul_epu32(0xff, x, factor);
  const __m512i odd = _mm512_maskz_mul_epu32(0xff, _mm512_maskz_srli_epi64(0xff, x, 32), factor);
  high.part[0] = (Words16::Native)_mm512_mask_blend_epi32(0xAAAA, _mm512_maskz_srli_epi64(0xff, even, 32), odd);
  low.part[0] = (Words16::Native)_mm512_mask_blend_epi32(0xAAAA, even, _mm512_maskz_slli_epi64(0xff, odd, 32));
#elif defined(__AVX2__) && defined(__FMA__)
  const __m256i factor = _mm256_set1_epi64x(m);
  for (int i = 0; i < Words16::kParts; ++i) {
    const __m256i x = (__m256i)a.part[i], even = _mm256_mul_epu32(x, factor),
                  odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), factor);
    high.part[i] = (Words16::Native)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
    low.part[i] = (Words16::Native)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
  }
#elif defined(__ARM_NEON)
  for (int i = 0; i < Words16::kParts; ++i) {
    const uint32x4_t x = (uint32x4_t)a.part[i];
    const uint32x4_t first = vreinterpretq_u32_u64(vmull_n_u32(vget_low_u32(x), m));
    const uint32x4_t second = vreinterpretq_u32_u64(vmull_high_n_u32(x, m));
    high.part[i] = (Words16::Native)vuzp2q_u32(first, second);
    low.part[i] = (Words16::Native)vuzp1q_u32(first, second);
  }
#else
  for (int i = 0; i < Words16::kParts; ++i)
    for (int j = 0; j < Words16::kSize / Words16::kParts; ++j) {
      const uint64_t product = uint64_t{m} * a.part[i][j];
      high.part[i][j] = static_cast<uint32_t>(product >> 32);
      low.part[i][j] = static_cast<uint32_t>(product);
    }
#endif
}

// Vec<float>::kSize numbers of 8 bits as float.
PADDOCK_INLINE Vec<float> load_bytes(const int8_t* p) {
#if defined(__AVX512F__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {(Vec<float>::Native)_mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepi8_epi32(0xffff, bytes))};
#elif defined(__AVX2__) && defined(__FMA__)
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return {(Vec<float>::Native)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes))};
#elif defined(__ARM_NEON)
  int32_t bytes;
  std::memcpy(&bytes, p, sizeof bytes);
  const int16x8_t words = vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(bytes)));
  return {(Vec<float>::Native)vcvtq_f32_s32(vmovl_s16(vget_low_s16(words)))};
#else
  Vec<float> x;
  for (int i = 0; i < Vec<float>::kSize; ++i) x.v[i] = static_cast<float>(p[i]);
  return x;
#endif
}

}  // namespace paddock::cpu
