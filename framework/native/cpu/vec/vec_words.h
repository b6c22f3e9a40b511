// Weighted sums of bytes and of pixels of 16-bit words, many at a time where the instruction set has the means.
#pragma once
#include "cpu/vec/vec.h"

namespace paddock::cpu {

#if defined(__AVX2__)
inline constexpr int kWeighedBytes = 16;
#else
inline constexpr int kWeighedBytes = 0;
#endif

// kWeighedBytes words: each is the sum of the bytes of four rows by four weights, plus `half`, shifted right by
// `Shift`.
template <int Shift>
PADDOCK_INLINE void weigh_bytes([[maybe_unused]] const uint8_t* const rows[4],
                                [[maybe_unused]] const int16_t weights[4], [[maybe_unused]] int half,
                                [[maybe_unused]] int16_t* out) {
  // Words of two rows side by side, in lanes of 16 bytes, which packing puts into order again.
#if defined(__AVX2__)
  __m256i x[4];
  for (int k = 0; k < 4; ++k) x[k] = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[k])));
  const auto pair = [&](int k) {
    return _mm256_set1_epi32(static_cast<uint16_t>(weights[k]) | weights[k + 1] * 65536);
  };
  const __m256i w01 = pair(0), w23 = pair(2), plus = _mm256_set1_epi32(half);
  const auto sum = [&](__m256i low, __m256i high) {
    const __m256i both = _mm256_add_epi32(_mm256_madd_epi16(low, w01), _mm256_madd_epi16(high, w23));
    return _mm256_srai_epi32(_mm256_add_epi32(both, plus), Shift);
  };
  const __m256i first = sum(_mm256_unpacklo_epi16(x[0], x[1]), _mm256_unpacklo_epi16(x[2], x[3]));
  const __m256i second = sum(_mm256_unpackhi_epi16(x[0], x[1]), _mm256_unpackhi_epi16(x[2], x[3]));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_packs_epi32(first, second));
#endif
}

#if defined(__AVX2__)
inline constexpr bool kHasPixelPairs = true;

// Two results of three channels: each is the sum of four RGB pixels that lie one behind the other, by four weights,
// plus `half`, shifted right by `Shift` and cut to a byte. Writes 8 bytes: r g b and one more, twice.
template <int Shift>
PADDOCK_INLINE void weigh_pixel_pair(const int16_t* first, const int16_t* second, const int16_t* first_weights,
                                     const int16_t* second_weights, int half, uint32_t out[2]) {
  const auto both = [](const int16_t* a, const int16_t* b) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a))),
                                   _mm_loadu_si128(reinterpret_cast<const __m128i*>(b)), 1);
  };
  // Words 0 to 7 hold the pixels 0 and 1, words 4 to 11 the pixels 2 and 3: channels side by side.
  const __m256i low = _mm256_setr_epi8(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1, 0, 1, 6, 7, 2, 3, 8, 9, 4,
                                       5, 10, 11, -1, -1, -1, -1);
  const __m256i high = _mm256_setr_epi8(4, 5, 10, 11, 6, 7, 12, 13, 8, 9, 14, 15, -1, -1, -1, -1, 4, 5, 10, 11, 6, 7,
                                        12, 13, 8, 9, 14, 15, -1, -1, -1, -1);
  const __m256i pair01 = _mm256_shuffle_epi8(both(first, second), low);
  const __m256i pair23 = _mm256_shuffle_epi8(both(first + 4, second + 4), high);
  const __m128i wa = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(first_weights));
  const __m128i wb = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(second_weights));
  const __m256i w = _mm256_inserti128_si256(_mm256_castsi128_si256(wa), wb, 1);
  const __m256i w01 = _mm256_shuffle_epi32(w, 0x00), w23 = _mm256_shuffle_epi32(w, 0x55);
  const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(_mm256_madd_epi16(pair01, w01), _mm256_madd_epi16(pair23, w23)),
                                       _mm256_set1_epi32(half));
  const __m256i words = _mm256_srai_epi32(sum, Shift);
  const __m256i packed = _mm256_packs_epi32(words, words);
  const __m256i bytes = _mm256_packus_epi16(packed, packed);
  out[0] = static_cast<uint32_t>(_mm256_cvtsi256_si32(bytes));
  out[1] = static_cast<uint32_t>(_mm_cvtsi128_si32(_mm256_extracti128_si256(bytes, 1)));
}
#else
inline constexpr bool kHasPixelPairs = false;

template <int Shift>
PADDOCK_INLINE void weigh_pixel_pair(const int16_t*, const int16_t*, const int16_t*, const int16_t*, int, uint32_t*) {}
#endif

}  // namespace paddock::cpu
