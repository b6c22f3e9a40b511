// Elementary functions of float without branches, calls or tables, so that the compiler turns a plain loop over them
// into vector code of whatever width the instruction set has. The error of each is stated in units in the last place
// and held by tests/framework/ops/test_vec_math.py. The double overloads are the C library's.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace paddock::cpu::math {

inline constexpr float kInfF = std::numeric_limits<float>::infinity();
inline constexpr float kNanF = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kLn2Hi = 0x1.62e4p-1f;  // ln 2 in two parts; n * kLn2Hi is exact for |n| < 2^9
inline constexpr float kLn2Lo = 1.428606820e-6f;
inline constexpr float kLog2E = 0x1.715476p0f;

namespace detail {

// x = n ln 2 + r with |r| <= ln 2 / 2; `n` as a float and as an int. |x| must stay below 2^21.
struct Reduced {
  float n, r;
  int32_t exponent;
};
inline Reduced reduce_by_ln2(float x) {
  constexpr float kMagic = 0x1.8p23f;  // adding it rounds to an integer, which then stands in the low bits
  float shifted = x * kLog2E + kMagic;
  float n = shifted - kMagic;
  float r = x - n * kLn2Hi;
  r = r - n * kLn2Lo;
  return {n, r, std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kMagic)};
}

inline float power_of_two(int32_t n) { return std::bit_cast<float>((n + 127) << 23); }  // -126 <= n <= 127

// (e^r - 1 - r) / r^2 on |r| <= ln 2 / 2: a near-minimax polynomial, error 2e-10 of e^r.
inline float exp_tail(float r) {
  float p = 1.990890425e-4f;
  p = p * r + 1.393454423e-3f;
  p = p * r + 8.333284106e-3f;
  p = p * r + 4.166645678e-2f;
  p = p * r + 1.666666676e-1f;
  return p * r + 5.000000014e-1f;
}

// x = 2^e m with m in [sqrt(1/2), sqrt(2)); x positive and normal.
struct Split {
  float e, m;
};
inline Split split_exponent(float x) {
  constexpr uint32_t kSqrtHalf = 0x3f3504f3;
  uint32_t bits = std::bit_cast<uint32_t>(x);  // unsigned: the callers come here with negative x too, and mask it later
  int32_t e = static_cast<int32_t>(bits - kSqrtHalf) >> 23;
  return {static_cast<float>(e), std::bit_cast<float>(bits - (static_cast<uint32_t>(e) << 23))};
}

// log(1 + f) - f for 1 + f in [sqrt(1/2), sqrt(2)]: with s = f / (2 + f), log(1 + f) = 2 artanh(s).
inline float log_tail(float f) {
  float s = f / (2.0f + f), z = s * s;
  float r = 2.333457053e-1f;
  r = r * z + 2.855065643e-1f;
  r = r * z + 4.000012347e-1f;
  r = r * z + 6.666666655e-1f;
  float half_square = 0.5f * f * f;
  return s * (half_square + z * r) - half_square;
}

}  // namespace detail

// e^x within 1 ulp.
inline float exp(float x) {
  float clamped = x < -104.0f ? -104.0f : x;  // below, the result is 0; the comparison keeps NaN
  clamped = clamped > 89.0f ? 89.0f : clamped;
  auto [n, r, k] = detail::reduce_by_ln2(clamped);
  float y = 1.0f + (r + r * r * detail::exp_tail(r));
  int32_t half = k >> 1;  // in two steps, so that results near 2^128 and below 2^-126 come out right
  return y * detail::power_of_two(half) * detail::power_of_two(k - half);
}

// e^x - 1 within 2 ulp.
inline float expm1(float x) {
  float clamped = x < -18.0f ? -18.0f : x;  // below, the result is -1
  clamped = clamped > 89.0f ? 89.0f : clamped;
  auto [n, r, k] = detail::reduce_by_ln2(clamped);
  float p = r + r * r * detail::exp_tail(r);
  float scale = detail::power_of_two(k - 1);  // half of 2^k, which may be infinite
  float y = (p * scale + (scale - 0.5f)) * 2.0f;
  return k == 0 ? p : y;
}

// Natural logarithm within 1 ulp.
inline float log(float x) {
  bool subnormal = x < 0x1p-126f;
  float scaled = subnormal ? x * 0x1p23f : x;
  auto [e, m] = detail::split_exponent(scaled);
  e = subnormal ? e - 23.0f : e;
  float f = m - 1.0f;
  float y = e * kLn2Hi + (f + (e * kLn2Lo + detail::log_tail(f)));
  y = x == 0.0f ? -kInfF : y;
  y = x == kInfF ? kInfF : y;
  return x >= 0.0f ? y : kNanF;
}

// Logarithm to base 2 within 2 ulp; exact at powers of two.
inline float log2(float x) {
  bool subnormal = x < 0x1p-126f;
  float scaled = subnormal ? x * 0x1p23f : x;
  auto [e, m] = detail::split_exponent(scaled);
  e = subnormal ? e - 23.0f : e;
  constexpr float kLog2ELo = 1.9259629911266175e-8f;  // log2(e) - kLog2E
  float f = m - 1.0f, tail = detail::log_tail(f);
  float y = e + (f * kLog2E + (tail * kLog2E + (f + tail) * kLog2ELo));
  y = x == 0.0f ? -kInfF : y;
  y = x == kInfF ? kInfF : y;
  return x >= 0.0f ? y : kNanF;
}

// log(1 + x) within 2 ulp: the rounding error of 1 + x is put back as a first-order term.
inline float log1p(float x) {
  float u = 1.0f + x;
  float lost = x > 1.0f ? 1.0f - (u - x) : x - (u - 1.0f);
  float y = log(u) + (u == kInfF || u <= 0.0f ? 0.0f : lost / u);
  return x == 0.0f ? x : y;
}

// Hyperbolic tangent within 3 ulp.
inline float tanh(float x) {
  float a = std::fabs(x);
  float e = expm1(2.0f * (a > 10.0f ? 10.0f : a));
  return std::copysign(e / (e + 2.0f), x);
}

// 1 / (1 + e^-x) within 3 ulp.
inline float sigmoid(float x) {
  float e = exp(-std::fabs(x)), q = 1.0f / (1.0f + e);
  return x >= 0.0f ? q : e * q;
}

namespace detail {

// erf on |x| <= 1, as x times a near-minimax polynomial of x^2.
inline float erf_small(float x) {
  float z = x * x;
  float p = -9.641515694e-6f;
  p = p * z + 1.125694775e-4f;
  p = p * z - 8.482828821e-4f;
  p = p * z + 5.220945431e-3f;
  p = p * z - 2.686540004e-2f;
  p = p * z + 1.128378197e-1f;
  p = p * z - 3.761263843e-1f;
  return x * (p * z + 1.128379167e0f);
}

// erfc on [0.9, 10]: e^(-z^2) / (1 + 2z) times a near-minimax polynomial of t = (z - 2) / (z + 2).
inline float erfc_large(float z) {
  z = z > 10.0f ? 10.0f : z;
  float t = (z - 2.0f) / (z + 2.0f);
  float p = -1.514984777e-3f;
  p = p * t + 1.109238580e-3f;
  p = p * t + 8.763057529e-3f;
  p = p * t - 8.013057074e-3f;
  p = p * t - 5.422533665e-2f;
  p = p * t + 1.640502012e-1f;
  p = p * t - 1.660301915e-1f;
  p = p * t - 9.276381001e-2f;
  p = p * t + 1.276978380e0f;
  // The rounding error of z^2 matters in the exponent: the head's square is exact.
  float head = std::bit_cast<float>(std::bit_cast<uint32_t>(z) & 0xfffff000u), square = z * z;
  float lost = (head * head - square) + (z - head) * (z + head);
  return exp(-square) * (1.0f - lost) * p / (1.0f + 2.0f * z);
}

}  // namespace detail

// Error function within 3 ulp.
inline float erf(float x) {
  float a = std::fabs(x);
  float small = detail::erf_small(a), large = 1.0f - detail::erfc_large(a);
  return std::copysign(a < 1.0f ? small : large, x);
}

// What is known of a standard normal X at x: P(X <= x) and the density, both made of e^(-x^2 / 2).
template <class T>
struct NormalAt {
  T cdf, density;
};

// The cdf within 8 ulp, in the lower tail too, down to x = -13. With a = |x| the tail beyond a is e^(-a^2 / 2) / (a +
// 3) times a near-minimax polynomial of t = (a - 3) / (a + 3).
inline NormalAt<float> normal_at(float x) {
  float a = std::fabs(x);
  a = a > 14.5f ? 14.5f : a;  // beyond, the tail is 0; the comparison keeps NaN
  float r = 1.0f / (a + 3.0f), t = (a - 3.0f) * r;
  float p = 5.185665577e-5f;
  p = p * t - 2.038990933e-4f;
  p = p * t - 9.467510972e-4f;
  p = p * t + 1.017129282e-3f;
  p = p * t + 6.937465165e-3f;
  p = p * t - 1.046244521e-2f;
  p = p * t - 4.725819081e-2f;
  p = p * t + 2.300177068e-1f;
  p = p * t - 5.093321800e-1f;
  p = p * t + 7.290837169e-1f;
  // The rounding error of a^2 matters in the exponent: the head's square is exact.
  float head = std::bit_cast<float>(std::bit_cast<uint32_t>(a) & 0xfffff000u), square = a * a;
  float lost = (head * head - square) + (a - head) * (a + head);
  float e = exp(-0.5f * square) * (1.0f - 0.5f * lost), tail = e * (p * r);
  return {x > 0.0f ? 1.0f - tail : tail, 0.39894228f * e};
}

inline double erf(double x) { return std::erf(x); }
inline NormalAt<double> normal_at(double x) {
  return {0.5 * std::erfc(-x * 0.70710678118654752), 0.39894228040143268 * std::exp(-0.5 * x * x)};
}
inline double exp(double x) { return std::exp(x); }
inline double expm1(double x) { return std::expm1(x); }
inline double log(double x) { return std::log(x); }
inline double log2(double x) { return std::log2(x); }
inline double log1p(double x) { return std::log1p(x); }
inline double tanh(double x) { return std::tanh(x); }
inline double sigmoid(double x) {
  double e = std::exp(-std::fabs(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

// log(1 + e^x) and log(1 / (1 + e^-x)) without overflow, 3 ulp.
template <class T>
inline T softplus(T x) {
  return (x > T(0) ? x : T(0)) + log1p(exp(-std::fabs(x)));
}
template <class T>
inline T log_sigmoid(T x) {
  return (x < T(0) ? x : T(0)) - log1p(exp(-std::fabs(x)));
}

inline constexpr double kSeluScale = 1.0507009873554805, kSeluAlpha = 1.6732632423543772;

// x tanh(softplus(x)): with w = e^x, tanh(log(1 + w)) = (w^2 + 2w) / (w^2 + 2w + 2).
template <class T>
inline T mish(T x) {
  T w = exp(x > T(20) ? T(20) : x), n = w * (w + T(2));
  return x > T(20) ? x : x * (n / (n + T(2)));
}

template <class T>
inline T hardsigmoid(T x) {
  T y = x * T(1.0 / 6) + T(0.5);
  y = y < T(0) ? T(0) : y;
  return y > T(1) ? T(1) : y;
}

template <class T>
inline T silu_grad(T d, T x) {
  T s = sigmoid(x);
  return d * (s * (T(1) + x * (T(1) - s)));
}

// x P(X <= x) for a standard normal X, and its derivative.
template <class T>
inline T gelu(T x) {
  return x * normal_at(x).cdf;
}
template <class T>
inline T gelu_slope(T x) {
  const NormalAt<T> n = normal_at(x);
  return n.cdf + x * n.density;
}

// 2 sqrt(2/pi) (x + 0.044715 x^3): gelu's tanh form is x sigmoid(u), since (1 + tanh(u / 2)) / 2 = sigmoid(u).
template <class T>
inline T gelu_argument(T x) {
  return T(1.5957691216057308) * (x + T(0.044715) * x * x * x);
}
template <class T>
inline T gelu_tanh(T x) {
  return x * sigmoid(gelu_argument(x));
}
template <class T>
inline T gelu_tanh_slope(T x) {
  T s = sigmoid(gelu_argument(x));
  return s + x * s * (T(1) - s) * (T(1.5957691216057308) * (T(1) + T(3 * 0.044715) * x * x));
}

}  // namespace paddock::cpu::math
