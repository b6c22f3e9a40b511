// Sums of products of 8-bit numbers in 32-bit lanes, exact whatever the instruction set has for them. Beside vec.h and
// vec_int.h the only file of the kernels that asks for an instruction set.
//
// The ways: VNNI multiplies four unsigned by four signed bytes a lane and adds all at once, NEON's dot product four
// signed ones; else two numbers of 16 bits a lane are multiplied and added (vpmaddwd, smlal). The byte product of older
// sets, vpmaddubsw, saturates: not used.
#pragma once
#include <bit>

#include "cpu/vec/vec.h"

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace paddock::cpu {

typedef int32_t Int32s __attribute__((vector_size(kVecBytes)));
typedef int32_t UnalignedInt32s __attribute__((vector_size(kVecBytes), aligned(4), may_alias));

// Modulo 2^32, as a sum may go on its way to a result that fits.
typedef uint32_t UInt32s __attribute__((vector_size(kVecBytes)));
PADDOCK_INLINE Int32s wrapping_sum(Int32s a, Int32s b) { return (Int32s)((UInt32s)a + (UInt32s)b); }

PADDOCK_INLINE Int32s load_int32s(const void* p) { return *static_cast<const UnalignedInt32s*>(p); }
PADDOCK_INLINE void store_int32s(Int32s x, void* p) { *static_cast<UnalignedInt32s*>(p) = x; }

typedef int16_t Words __attribute__((vector_size(kVecBytes)));
typedef uint8_t Bytes __attribute__((vector_size(kVecBytes)));
typedef uint8_t UnalignedBytes __attribute__((vector_size(kVecBytes), aligned(1), may_alias));

// A byte and a word of each lane.
typedef uint8_t LaneBytes __attribute__((vector_size(kVecBytes / 4)));
typedef int16_t LaneWords __attribute__((vector_size(kVecBytes / 2)));

// Integers in [0, 255] as bytes, those in [-32768, 32767] as words, and bytes as integers. Written out where compilers
// take the lanes one by one.
PADDOCK_INLINE LaneBytes narrowed_to_bytes(Int32s q) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  const __m128i lows = _mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m256i each = _mm256_shuffle_epi8((__m256i)q, _mm256_broadcastsi128_si256(lows));
  const __m128i all = _mm_unpacklo_epi32(_mm256_castsi256_si128(each), _mm256_extracti128_si256(each, 1));
  return std::bit_cast<LaneBytes>(_mm_cvtsi128_si64(all));
#elif defined(__SSE2__) && !defined(__AVX512F__)
  const __m128i words = _mm_packs_epi32((__m128i)q, (__m128i)q);
  return std::bit_cast<LaneBytes>(_mm_cvtsi128_si32(_mm_packus_epi16(words, words)));
#else
  return __builtin_convertvector(q, LaneBytes);
#endif
}

// Whether store_narrowed and packed_bytes cut to [0, 255] by themselves what lies outside.
#if defined(__SSE2__) && !defined(__AVX512F__)
inline constexpr bool kNarrowingCuts = true;
#else
inline constexpr bool kNarrowingCuts = false;
#endif

// The bytes of a and then of b.
PADDOCK_INLINE void store_narrowed(Int32s a, Int32s b, uint8_t* to) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  const __m256i words = _mm256_packs_epi32((__m256i)a, (__m256i)b);
  const __m256i each = _mm256_packus_epi16(words, words), places = _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(each, places)));
#elif defined(__SSE2__) && !defined(__AVX512F__)
  const __m128i words = _mm_packs_epi32((__m128i)a, (__m128i)b);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(words, words));
#else
  const LaneBytes first = narrowed_to_bytes(a), second = narrowed_to_bytes(b);
  std::memcpy(to, &first, sizeof first);
  std::memcpy(to + sizeof first, &second, sizeof second);
#endif
}

// The nearest integers, halves to even, of values in [-2^22, 2^22].
PADDOCK_INLINE Int32s nearest(Vec<float> v) {
#if defined(__AVX512F__)
  return (Int32s)_mm512_cvtps_epi32((__m512)v.v);
#elif defined(__AVX2__)
  return (Int32s)_mm256_cvtps_epi32((__m256)v.v);
#elif defined(__SSE2__)
  return (Int32s)_mm_cvtps_epi32((__m128)v.v);
#elif defined(__ARM_NEON)
  return (Int32s)vcvtnq_s32_f32((float32x4_t)v.v);
#else
  constexpr float kMagic = 0x1.8p23f;  // adding it leaves no bits for a fraction: the integer stands in the low bits
  return (Int32s)(v + Vec<float>::broadcast(kMagic)).v - std::bit_cast<int32_t>(kMagic);
#endif
}

PADDOCK_INLINE LaneWords narrowed_to_words(Int32s q) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  const __m256i twice = _mm256_packs_epi32((__m256i)q, (__m256i)q);
  return (LaneWords)_mm256_castsi256_si128(_mm256_permute4x64_epi64(twice, 0x08));
#elif defined(__SSE2__) && !defined(__AVX512F__)
  return std::bit_cast<LaneWords>(_mm_cvtsi128_si64(_mm_packs_epi32((__m128i)q, (__m128i)q)));
#else
  return __builtin_convertvector(q, LaneWords);
#endif
}

PADDOCK_INLINE Int32s widened(LaneBytes bytes) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  return (Int32s)_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(std::bit_cast<int64_t>(bytes)));
#else
  return __builtin_convertvector(bytes, Int32s);
#endif
}

// kVecBytes / 2 bytes from memory as words.
PADDOCK_INLINE Words load_widened(const uint8_t* p) {
#if defined(__AVX512F__)
  return (Words)_mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(__AVX2__)
  return (Words)_mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#elif defined(__SSE2__)
  return (Words)_mm_unpacklo_epi8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)), _mm_setzero_si128());
#elif defined(__ARM_NEON)
  return (Words)vmovl_u8(vld1_u8(p));
#else
  Words words;
  for (int i = 0; i < kVecBytes / 2; ++i) words[i] = p[i];
  return words;
#endif
}

// The first n of kVecBytes bytes (0 < n <= kVecBytes); lanes beyond them hold anything. `end` is where readable memory
// ends.
PADDOCK_INLINE Bytes load_first_bytes(const uint8_t* p, int64_t n, const uint8_t* end) {
  if (n == kVecBytes || end - p >= kVecBytes) return *reinterpret_cast<const UnalignedBytes*>(p);
  Bytes part{};
  std::memcpy(&part, p, static_cast<size_t>(n));
  return part;
}

// Writes the first n of kVecBytes bytes.
PADDOCK_INLINE void store_first_bytes(Bytes x, uint8_t* p, int64_t n) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_epi8(p, n >= 64 ? ~__mmask64{0} : (__mmask64{1} << n) - 1, (__m512i)x);
#else
  if (n >= kVecBytes)
    *reinterpret_cast<UnalignedBytes*>(p) = x;
  else
    std::memcpy(p, &x, static_cast<size_t>(n));
#endif
}

namespace detail {
// In each 16 bytes: the lower (kHalf 0) or upper (1) 8 bytes of a and of b, kWidth bytes of one after the other.
template <int kWidth, int kHalf, int... I>
PADDOCK_INLINE Bytes interleave_bytes(Bytes a, Bytes b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(
      a, b, ((I & ~15) + kHalf * 8 + (I & 15) / (2 * kWidth) * kWidth + I % kWidth + (I / kWidth & 1) * kVecBytes)...);
}
}  // namespace detail

template <int kWidth, int kHalf>
PADDOCK_INLINE Bytes interleave(Bytes a, Bytes b) {
  return detail::interleave_bytes<kWidth, kHalf>(a, b, std::make_integer_sequence<int, kVecBytes>{});
}

namespace detail {
template <int kVec, int... I>
PADDOCK_INLINE Int32s in_order(Int32s a, Int32s b, std::integer_sequence<int, I...>) {
  constexpr int kLanes = kVecBytes / 4, kFirst = kVec * kLanes;
  return __builtin_shufflevector(a, b, ((kFirst + I) / 8 * 4 + I % 4 + (kFirst + I) / 4 % 2 * kLanes)...);
}
}  // namespace detail

// Vector kVec of the channels in their order, from those in the order of groups_of_words.
template <int kVec>
PADDOCK_INLINE Int32s in_order(const Int32s (&q)[2]) {
  return detail::in_order<kVec>(q[0], q[1], std::make_integer_sequence<int, kVecBytes / 4>{});
}

// Bytes of numbers in [0, 255]: lane l of q[v] becomes byte 16 (l / 4) + 4 v + l % 4, the order of interleaved rows.
PADDOCK_INLINE Bytes packed_bytes(const Int32s (&q)[4]) {
#if defined(__AVX512F__)
  return (Bytes)_mm512_packus_epi16(_mm512_packs_epi32((__m512i)q[0], (__m512i)q[1]),
                                    _mm512_packs_epi32((__m512i)q[2], (__m512i)q[3]));
#elif defined(__AVX2__)
  return (Bytes)_mm256_packus_epi16(_mm256_packs_epi32((__m256i)q[0], (__m256i)q[1]),
                                    _mm256_packs_epi32((__m256i)q[2], (__m256i)q[3]));
#elif defined(__SSE2__)
  return (Bytes)_mm_packus_epi16(_mm_packs_epi32((__m128i)q[0], (__m128i)q[1]),
                                 _mm_packs_epi32((__m128i)q[2], (__m128i)q[3]));
#elif defined(__ARM_NEON)
  const int16x8_t first = vuzp1q_s16((int16x8_t)q[0], (int16x8_t)q[1]);
  const int16x8_t second = vuzp1q_s16((int16x8_t)q[2], (int16x8_t)q[3]);
  return (Bytes)vuzp1q_u8((uint8x16_t)first, (uint8x16_t)second);
#else
  Bytes y;
  for (int v = 0; v < 4; ++v)
    for (int l = 0; l < kVecBytes / 4; ++l) y[16 * (l / 4) + 4 * v + l % 4] = static_cast<uint8_t>(q[v][l]);
  return y;
#endif
}

// The interface of all: a vector of B holds kGroup weights of as many columns as it has lanes, in an order of its own,
// and so does `groups` leave A; A by rows is given as kGroup numbers of type Row in 32 bits, each a value plus kShift,
// which `same` makes ready for all lanes. `add` takes kTaken from each number of A before it multiplies. A weight of a
// panel has kWeightBytes.
#if defined(__ARM_NEON)
// The first weights of the four columns are followed by their second ones: two multiply-adds take them without a move.
struct WideningDot {
  static constexpr const char* kName = "16-bit products";
  static constexpr int kGroup = 2, kShift = 0, kTaken = 0, kWeightBytes = 1;
  using Row = int16_t;
  struct Same {
    int16x4_t pair;  // both numbers, twice
  };

  static PADDOCK_INLINE void groups(const Bytes (&row)[kGroup], Int32s (&a)[4]) {
    const auto first = (uint8x16_t)row[0], second = (uint8x16_t)row[1];
    const auto low = (int64x2_t)vmovl_u8(vget_low_u8(first)), low2 = (int64x2_t)vmovl_u8(vget_low_u8(second));
    const auto high = (int64x2_t)vmovl_high_u8(first), high2 = (int64x2_t)vmovl_high_u8(second);
    a[0] = (Int32s)vzip1q_s64(low, low2);
    a[1] = (Int32s)vzip2q_s64(low, low2);
    a[2] = (Int32s)vzip1q_s64(high, high2);
    a[3] = (Int32s)vzip2q_s64(high, high2);
  }
  static PADDOCK_INLINE void groups_of_words(const Bytes (&row)[kGroup], Int32s (&a)[2]) {
    a[0] = (Int32s)vzip1q_s64((int64x2_t)row[0], (int64x2_t)row[1]);
    a[1] = (Int32s)vzip2q_s64((int64x2_t)row[0], (int64x2_t)row[1]);
  }

  static PADDOCK_INLINE Int32s weights(const int8_t* p) {
    const int8x8_t bytes = vld1_s8(p);
    const auto first = vreinterpret_s32_s8(vuzp1_s8(bytes, bytes)),
               second = vreinterpret_s32_s8(vuzp2_s8(bytes, bytes));
    return (Int32s)vmovl_s8(vreinterpret_s8_s32(vzip1_s32(first, second)));
  }
  static PADDOCK_INLINE Same same(int32_t values) { return {vreinterpret_s16_s32(vdup_n_s32(values))}; }
  static PADDOCK_INLINE Int32s add(Int32s sum, Same a, Int32s b) {
    const auto weights = (int16x8_t)b;
    const int32x4_t first = vmlal_lane_s16((int32x4_t)sum, vget_low_s16(weights), a.pair, 0);
    return (Int32s)vmlal_high_lane_s16(first, weights, a.pair, 1);
  }
  static PADDOCK_INLINE Int32s add(Int32s sum, Int32s a, Int32s b) {
    const auto values = (int16x8_t)a, weights = (int16x8_t)b;
    const int32x4_t first = vmlal_s16((int32x4_t)sum, vget_low_s16(values), vget_low_s16(weights));
    return (Int32s)vmlal_high_s16(first, values, weights);
  }
};
#else
struct WideningDot {
  static constexpr const char* kName = "16-bit products";
  static constexpr int kGroup = 2, kShift = 0, kTaken = 0, kWeightBytes = 1;
  using Row = int16_t;

  // Channels of kGroup rows as vectors of A, in the order of packed_bytes.
  static PADDOCK_INLINE void groups(const Bytes (&row)[kGroup], Int32s (&a)[4]) {
    const Bytes low = interleave<1, 0>(row[0], row[1]), high = interleave<1, 1>(row[0], row[1]), none{};
    a[0] = (Int32s)interleave<1, 0>(low, none);
    a[1] = (Int32s)interleave<1, 1>(low, none);
    a[2] = (Int32s)interleave<1, 0>(high, none);
    a[3] = (Int32s)interleave<1, 1>(high, none);
  }
  // The same of rows of words: lane l of a[v] is channel 8 (l / 4) + 4 v + l % 4; see in_order.
  static PADDOCK_INLINE void groups_of_words(const Bytes (&row)[kGroup], Int32s (&a)[2]) {
    a[0] = (Int32s)interleave<2, 0>(row[0], row[1]);
    a[1] = (Int32s)interleave<2, 1>(row[0], row[1]);
  }
  static PADDOCK_INLINE Int32s same(int32_t values) { return values - Int32s{}; }

#if defined(__AVX512F__)
  static PADDOCK_INLINE Int32s weights(const int8_t* p) {
    return (Int32s)_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static PADDOCK_INLINE Int32s add(Int32s sum, Int32s a, Int32s b) {
    return wrapping_sum(sum, (Int32s)_mm512_madd_epi16((__m512i)a, (__m512i)b));
  }
#elif defined(__AVX2__)
  static PADDOCK_INLINE Int32s weights(const int8_t* p) {
    return (Int32s)_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static PADDOCK_INLINE Int32s add(Int32s sum, Int32s a, Int32s b) {
    return wrapping_sum(sum, (Int32s)_mm256_madd_epi16((__m256i)a, (__m256i)b));
  }
#elif defined(__SSE2__)
  static PADDOCK_INLINE Int32s weights(const int8_t* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return (Int32s)_mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
  }
  static PADDOCK_INLINE Int32s add(Int32s sum, Int32s a, Int32s b) {
    return wrapping_sum(sum, (Int32s)_mm_madd_epi16((__m128i)a, (__m128i)b));
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
    Int32s products;
    for (int i = 0; i < kVecBytes / 4; ++i) products[i] = x[2 * i] * y[2 * i] + x[2 * i + 1] * y[2 * i + 1];
    return wrapping_sum(sum, products);
  }
#endif
};
#endif

// Bytes of four rows as vectors of A, a lane a channel, in the order of packed_bytes.
PADDOCK_INLINE void groups_of_four(const Bytes (&row)[4], Int32s (&a)[4]) {
  const Bytes low = interleave<1, 0>(row[0], row[1]), low2 = interleave<1, 0>(row[2], row[3]);
  const Bytes high = interleave<1, 1>(row[0], row[1]), high2 = interleave<1, 1>(row[2], row[3]);
  a[0] = (Int32s)interleave<2, 0>(low, low2);
  a[1] = (Int32s)interleave<2, 1>(low, low2);
  a[2] = (Int32s)interleave<2, 0>(high, high2);
  a[3] = (Int32s)interleave<2, 1>(high, high2);
}

// PADDOCK_BYTE_DOT: this library holds code for dot products of bytes. MatrixDot is the one for rows that are rounded
// for it, ImageDot that for unsigned bytes as they lie in an image, WordDot that for words; has_byte_dot says whether
// the processor has it. The instruction is written out: it is used on the processors that have it, in a library for all
// that have AVX2, AVX-512 or NEON.
#if defined(__AVX2__)
#define PADDOCK_BYTE_DOT 1
struct VnniDot {
  static constexpr const char* kName = "VNNI";
  static constexpr int kGroup = 4, kShift = 128, kTaken = 0, kWeightBytes = 1;
  using Row = uint8_t;

  static PADDOCK_INLINE void groups(const Bytes (&row)[kGroup], Int32s (&a)[4]) { groups_of_four(row, a); }
  static PADDOCK_INLINE Int32s same(int32_t values) { return values - Int32s{}; }
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
using MatrixDot = VnniDot;
using ImageDot = VnniDot;

// Numbers of 16 bits with weights of 8: as WideningDot, but one instruction adds too. On the processors of VnniDot.
struct WordVnniDot : WideningDot {
  static constexpr const char* kName = "VNNI of 16 bits";

  static PADDOCK_INLINE Int32s add(Int32s sum, Int32s a, Int32s b) {
#if defined(__AVX512F__)
    asm("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
#else
    asm("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
#endif
    return sum;
  }
};
using WordDot = WordVnniDot;
#elif defined(__aarch64__)
#define PADDOCK_BYTE_DOT 1
using WordDot = WideningDot;
struct MatrixDot {
  static constexpr const char* kName = "dot products";
  static constexpr int kGroup = 4, kShift = 0, kTaken = 0, kWeightBytes = 1;
  using Row = int8_t;

  static PADDOCK_INLINE Int32s weights(const int8_t* p) { return load_int32s(p); }
  static PADDOCK_INLINE Int32s same(int32_t values) { return values - Int32s{}; }
  static PADDOCK_INLINE Int32s add(Int32s sum, Int32s a, Int32s b) {
#if defined(__ARM_FEATURE_DOTPROD)
    return (Int32s)vdotq_s32((int32x4_t)sum, (int8x16_t)a, (int8x16_t)b);
#else
    asm(".arch armv8.2-a+dotprod\n\tsdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(a), "w"(b));
    return sum;
#endif
  }
};

// Unsigned bytes with the upper bit turned over are signed ones, 128 less.
struct ImageDot : MatrixDot {
  static constexpr int kTaken = 128;
  using Row = uint8_t;

  static PADDOCK_INLINE void groups(const Bytes (&row)[kGroup], Int32s (&a)[4]) {
    const Bytes turned[] = {row[0] ^ 0x80, row[1] ^ 0x80, row[2] ^ 0x80, row[3] ^ 0x80};
    groups_of_four(turned, a);
  }
  static PADDOCK_INLINE Int32s same(int32_t values) {
    return MatrixDot::same(values ^ static_cast<int32_t>(0x80808080u));
  }
};
#endif

// A dot product of words with weights that are words already, in the order of its vectors.
template <class D>
struct OfWords : D {
  static constexpr int kWeightBytes = 2;
  static PADDOCK_INLINE Int32s weights(const int8_t* p) { return load_int32s(p); }
  static PADDOCK_INLINE Int32s widened_weights(const int8_t* p) { return D::weights(p); }
};

#if defined(PADDOCK_BYTE_DOT)
inline bool has_byte_dot() {
#if defined(__aarch64__) && defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#elif defined(__aarch64__) && defined(__APPLE__)
  return true;  // since the M1
#elif defined(__aarch64__)
  return false;
#elif defined(__AVX512F__)
  return __builtin_cpu_supports("avx512vnni");
#else
  unsigned a = 7, b = 0, c = 1, d = 0;  // leaf 7, subleaf 1: bit 4 of eax is AVX-VNNI
  asm("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return a >> 4 & 1;
#endif
}
#endif

}  // namespace paddock::cpu
