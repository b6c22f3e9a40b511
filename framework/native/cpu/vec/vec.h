// Vec<T>: the widest vector of T (float, double) that this file's instruction set has, and what kernels need
// of it. Everything here is chosen by the compiler's macros: AVX-512F, AVX2 with FMA, NEON, or 16-byte vectors on
// any processor. This and the other files of this folder are the only ones that ask for an instruction set.
#pragma once
#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#define PADDOCK_INLINE inline __attribute__((always_inline))

namespace paddock::cpu {

#if defined(__AVX512F__)
inline constexpr int kVecBytes = 64;
inline constexpr int kVecRegisters = 32;
#elif defined(__AVX2__) && defined(__FMA__)
inline constexpr int kVecBytes = 32;
inline constexpr int kVecRegisters = 16;
#elif defined(__ARM_NEON)
inline constexpr int kVecBytes = 16;
inline constexpr int kVecRegisters = 32;
#else
inline constexpr int kVecBytes = 16;
inline constexpr int kVecRegisters = 16;
#endif

template <class T>
struct VecTypes;
template <>
struct VecTypes<float> {
  typedef float Native __attribute__((vector_size(kVecBytes)));
  typedef float Unaligned __attribute__((vector_size(kVecBytes), aligned(4), may_alias));
  typedef int32_t Mask __attribute__((vector_size(kVecBytes)));
};
template <>
struct VecTypes<double> {
  typedef double Native __attribute__((vector_size(kVecBytes)));
  typedef double Unaligned __attribute__((vector_size(kVecBytes), aligned(8), may_alias));
  typedef int64_t Mask __attribute__((vector_size(kVecBytes)));
};

template <class T>
struct Vec {
  using Native = typename VecTypes<T>::Native;
  using Mask = typename VecTypes<T>::Mask;  // one lane: all bits set for true, 0 for false
  static constexpr int kSize = kVecBytes / static_cast<int>(sizeof(T));

  Native v;

  static PADDOCK_INLINE Vec zero() { return {Native{}}; }
  static PADDOCK_INLINE Vec broadcast(T x) { return {x - Native{}}; }
  static PADDOCK_INLINE Vec load(const T* p) { return {*reinterpret_cast<const typename VecTypes<T>::Unaligned*>(p)}; }
  PADDOCK_INLINE void store(T* p) const { *reinterpret_cast<typename VecTypes<T>::Unaligned*>(p) = v; }

  // The first n of kSize lanes (0 <= n <= kSize); memory beyond them is not touched, lanes beyond them are 0.
  static PADDOCK_INLINE Vec load_n(const T* p, int64_t n);
  PADDOCK_INLINE void store_n(T* p, int64_t n) const;

  PADDOCK_INLINE T operator[](int i) const { return v[i]; }
  PADDOCK_INLINE Vec& operator+=(Vec b) { return v += b.v, *this; }
  PADDOCK_INLINE Vec& operator-=(Vec b) { return v -= b.v, *this; }
  PADDOCK_INLINE Vec& operator*=(Vec b) { return v *= b.v, *this; }
};

template <class T>
PADDOCK_INLINE Vec<T> operator+(Vec<T> a, Vec<T> b) {
  return {a.v + b.v};
}
template <class T>
PADDOCK_INLINE Vec<T> operator-(Vec<T> a, Vec<T> b) {
  return {a.v - b.v};
}
template <class T>
PADDOCK_INLINE Vec<T> operator*(Vec<T> a, Vec<T> b) {
  return {a.v * b.v};
}
template <class T>
PADDOCK_INLINE Vec<T> operator/(Vec<T> a, Vec<T> b) {
  return {a.v / b.v};
}
template <class T>
PADDOCK_INLINE Vec<T> operator-(Vec<T> a) {
  return {-a.v};
}
template <class T>
PADDOCK_INLINE typename Vec<T>::Mask operator<(Vec<T> a, Vec<T> b) {
  return a.v < b.v;
}
template <class T>
PADDOCK_INLINE typename Vec<T>::Mask operator<=(Vec<T> a, Vec<T> b) {
  return a.v <= b.v;
}
template <class T>
PADDOCK_INLINE typename Vec<T>::Mask operator>(Vec<T> a, Vec<T> b) {
  return a.v > b.v;
}
template <class T>
PADDOCK_INLINE typename Vec<T>::Mask operator>=(Vec<T> a, Vec<T> b) {
  return a.v >= b.v;
}
template <class T>
PADDOCK_INLINE typename Vec<T>::Mask operator==(Vec<T> a, Vec<T> b) {
  return a.v == b.v;
}

// mask ? a : b, lane by lane.
template <class T>
PADDOCK_INLINE Vec<T> select(typename Vec<T>::Mask mask, Vec<T> a, Vec<T> b) {
  return {mask ? a.v : b.v};
}

// a * b + c; one rounding where the instruction set has it (the compiler contracts the expression).
template <class T>
PADDOCK_INLINE Vec<T> fma(Vec<T> a, Vec<T> b, Vec<T> c) {
  return {a.v * b.v + c.v};
}

// a < b ? a : b and a > b ? a : b: where a lane of either is NaN the result is b's lane.
#if defined(__AVX512F__)
// The masked forms, all lanes on: GCC 12 warns of the undefined operand inside the plain ones.
PADDOCK_INLINE Vec<float> min(Vec<float> a, Vec<float> b) {
  return {(Vec<float>::Native)_mm512_maskz_min_ps(0xffff, a.v, b.v)};
}
PADDOCK_INLINE Vec<float> max(Vec<float> a, Vec<float> b) {
  return {(Vec<float>::Native)_mm512_maskz_max_ps(0xffff, a.v, b.v)};
}
PADDOCK_INLINE Vec<double> min(Vec<double> a, Vec<double> b) {
  return {(Vec<double>::Native)_mm512_maskz_min_pd(0xff, a.v, b.v)};
}
PADDOCK_INLINE Vec<double> max(Vec<double> a, Vec<double> b) {
  return {(Vec<double>::Native)_mm512_maskz_max_pd(0xff, a.v, b.v)};
}
PADDOCK_INLINE Vec<float> sqrt(Vec<float> a) { return {(Vec<float>::Native)_mm512_maskz_sqrt_ps(0xffff, a.v)}; }
PADDOCK_INLINE Vec<double> sqrt(Vec<double> a) { return {(Vec<double>::Native)_mm512_maskz_sqrt_pd(0xff, a.v)}; }
#elif defined(__AVX2__) && defined(__FMA__)
PADDOCK_INLINE Vec<float> min(Vec<float> a, Vec<float> b) { return {(Vec<float>::Native)_mm256_min_ps(a.v, b.v)}; }
PADDOCK_INLINE Vec<float> max(Vec<float> a, Vec<float> b) { return {(Vec<float>::Native)_mm256_max_ps(a.v, b.v)}; }
PADDOCK_INLINE Vec<double> min(Vec<double> a, Vec<double> b) { return {(Vec<double>::Native)_mm256_min_pd(a.v, b.v)}; }
PADDOCK_INLINE Vec<double> max(Vec<double> a, Vec<double> b) { return {(Vec<double>::Native)_mm256_max_pd(a.v, b.v)}; }
PADDOCK_INLINE Vec<float> sqrt(Vec<float> a) { return {(Vec<float>::Native)_mm256_sqrt_ps(a.v)}; }
PADDOCK_INLINE Vec<double> sqrt(Vec<double> a) { return {(Vec<double>::Native)_mm256_sqrt_pd(a.v)}; }
#else
template <class T>
PADDOCK_INLINE Vec<T> min(Vec<T> a, Vec<T> b) {
  return {a.v < b.v ? a.v : b.v};
}
template <class T>
PADDOCK_INLINE Vec<T> max(Vec<T> a, Vec<T> b) {
  return {a.v > b.v ? a.v : b.v};
}
#if defined(__ARM_NEON)
PADDOCK_INLINE Vec<float> sqrt(Vec<float> a) { return {(Vec<float>::Native)vsqrtq_f32((float32x4_t)a.v)}; }
PADDOCK_INLINE Vec<double> sqrt(Vec<double> a) { return {(Vec<double>::Native)vsqrtq_f64((float64x2_t)a.v)}; }
#else
template <class T>
PADDOCK_INLINE Vec<T> sqrt(Vec<T> a) {
  for (int i = 0; i < Vec<T>::kSize; ++i)
    a.v[i] = sizeof(T) == 4 ? __builtin_sqrtf(static_cast<float>(a.v[i])) : __builtin_sqrt(a.v[i]);
  return a;
}
#endif
#endif

template <class T>
PADDOCK_INLINE Vec<T> abs(Vec<T> a) {
  using Mask = typename Vec<T>::Mask;
  Mask sign = reinterpret_cast<Mask>(-typename Vec<T>::Native{});  // -0.0: only the sign bit
  return {reinterpret_cast<typename Vec<T>::Native>(reinterpret_cast<Mask>(a.v) & ~sign)};
}

// Loads and stores of the first n lanes.
#if defined(__AVX512F__)
template <>
PADDOCK_INLINE Vec<float> Vec<float>::load_n(const float* p, int64_t n) {
  return {(Native)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p)};
}
template <>
PADDOCK_INLINE Vec<double> Vec<double>::load_n(const double* p, int64_t n) {
  return {(Native)_mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << n) - 1), p)};
}
template <>
PADDOCK_INLINE void Vec<float>::store_n(float* p, int64_t n) const {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), v);
}
template <>
PADDOCK_INLINE void Vec<double>::store_n(double* p, int64_t n) const {
  _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << n) - 1), v);
}
#elif defined(__AVX2__) && defined(__FMA__)
PADDOCK_INLINE __m256i first_lanes32(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
PADDOCK_INLINE __m256i first_lanes64(int64_t n) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}
template <>
PADDOCK_INLINE Vec<float> Vec<float>::load_n(const float* p, int64_t n) {
  return {(Native)_mm256_maskload_ps(p, first_lanes32(n))};
}
template <>
PADDOCK_INLINE Vec<double> Vec<double>::load_n(const double* p, int64_t n) {
  return {(Native)_mm256_maskload_pd(p, first_lanes64(n))};
}
// Masked stores are dozens of steps of an AMD processor: whole vectors go another way.
template <>
PADDOCK_INLINE void Vec<float>::store_n(float* p, int64_t n) const {
  if (n >= kSize) return store(p);
  _mm256_maskstore_ps(p, first_lanes32(n), v);
}
template <>
PADDOCK_INLINE void Vec<double>::store_n(double* p, int64_t n) const {
  if (n >= kSize) return store(p);
  _mm256_maskstore_pd(p, first_lanes64(n), v);
}
#elif defined(__ARM_NEON)
// Lanes by constants: one chosen at run time goes through memory.
template <class T>
PADDOCK_INLINE Vec<T> Vec<T>::load_n(const T* p, int64_t n) {
  if (n >= kSize) return load(p);
  Vec r = zero();
#pragma GCC unroll 4
  for (int i = 0; i + 1 < kSize; ++i)
    if (i < n) r.v[i] = p[i];
  return r;
}
template <class T>
PADDOCK_INLINE void Vec<T>::store_n(T* p, int64_t n) const {
  if (n >= kSize) return store(p);
#pragma GCC unroll 4
  for (int i = 0; i + 1 < kSize; ++i)
    if (i < n) p[i] = v[i];
}
#else
template <class T>
PADDOCK_INLINE Vec<T> Vec<T>::load_n(const T* p, int64_t n) {
  Vec r = zero();
  for (int i = 0; i < n; ++i) r.v[i] = p[i];
  return r;
}
template <class T>
PADDOCK_INLINE void Vec<T>::store_n(T* p, int64_t n) const {
  for (int i = 0; i < n; ++i) p[i] = v[i];
}
#endif

namespace detail {
// Lane i of the result is lane i ^ kStep of a.
template <int kStep, class T, int... I>
PADDOCK_INLINE Vec<T> butterfly(Vec<T> a, std::integer_sequence<int, I...>) {
  return {__builtin_shufflevector(a.v, a.v, (I ^ kStep)...)};
}

template <int kStep, class T, class Op>
PADDOCK_INLINE T reduce(Vec<T> a, Op op) {
  if constexpr (kStep == 0) {
    return a.v[0];
  } else {
    a = op(a, butterfly<kStep>(a, std::make_integer_sequence<int, Vec<T>::kSize>{}));
    return reduce<kStep / 2>(a, op);
  }
}

// Blocks of kStep lanes: even blocks of a and of b interleaved (kOdd 0), or their odd blocks (kOdd 1).
template <int kStep, int kOdd, class T, int... I>
PADDOCK_INLINE Vec<T> interleave(Vec<T> a, Vec<T> b, std::integer_sequence<int, I...>) {
  return {__builtin_shufflevector(
      a.v, b.v, ((I & kStep) ? Vec<T>::kSize + ((I & ~kStep) | (kOdd * kStep)) : (I | (kOdd * kStep)))...)};
}

template <int kStep, class T>
PADDOCK_INLINE void transpose_step(Vec<T>* rows) {
  constexpr int n = Vec<T>::kSize;
  if constexpr (kStep < n) {
    constexpr auto lanes = std::make_integer_sequence<int, n>{};
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) {
      if (i & kStep) continue;
      Vec<T> a = rows[i], b = rows[i + kStep];
      rows[i] = interleave<kStep, 0>(a, b, lanes);
      rows[i + kStep] = interleave<kStep, 1>(a, b, lanes);
    }
    transpose_step<kStep * 2>(rows);
  }
}
}  // namespace detail

// Sums, maxima and minima over the lanes, as a tree: the same order every time.
template <class T>
PADDOCK_INLINE T reduce_add(Vec<T> a) {
  return detail::reduce<Vec<T>::kSize / 2>(a, [](Vec<T> x, Vec<T> y) { return x + y; });
}
template <class T>
PADDOCK_INLINE T reduce_max(Vec<T> a) {
  return detail::reduce<Vec<T>::kSize / 2>(a, [](Vec<T> x, Vec<T> y) { return max(x, y); });
}
template <class T>
PADDOCK_INLINE T reduce_min(Vec<T> a) {
  return detail::reduce<Vec<T>::kSize / 2>(a, [](Vec<T> x, Vec<T> y) { return min(x, y); });
}

// Transposes a square of kSize vectors in registers.
template <class T>
PADDOCK_INLINE void transpose(Vec<T> (&rows)[Vec<T>::kSize]) {
  detail::transpose_step<1>(rows);
}

}  // namespace paddock::cpu
