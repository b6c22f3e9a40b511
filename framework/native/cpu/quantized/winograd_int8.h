// Winograd convolution F(4x4, 3x3) of 8-bit images that is exact: the transforms of winograd.h in whole numbers.
//
// With rows of the source transform doubled and divisors of the weight transform left to the end, every number on the
// way is whole: transformed pixels are at most 14 * 14 * 128 = 25,088, transformed weights 7 * 7 * 128 = 6,272, both
// words. The target transform then gives 900 times each sum (less where a tile is cut off). Its own numbers may pass 32
// bits, which does no harm: modulo 2^32 an odd factor has an inverse, and of 900 = 4 * 225 only the 4 costs bits. So
// sums of less than 2^29 come out as they are.
#pragma once
#include "cpu/quantized/conv_int8.h"
#include "cpu/winograd/winograd.h"

namespace paddock::cpu {

// Whether winograd_int8 can compute this convolution.
bool winograd_int8_applies(const Int8Conv& conv);

// Whether it is likely to be faster than products of words.
bool winograd_int8_pays(const Int8Conv& conv);

// The sums of conv2d_int8. `byte_dot`: with the processor's dot products.
void winograd_int8(const Int8Conv& conv, bool byte_dot);

// kValid + 2 pixels -> as many, the last of which belongs to the point infinity.
template <int kValid>
struct ExactSource {
  using Value = Words;
  static constexpr int kIn = kValid + 2, kOut = kValid + 2;
  static PADDOCK_INLINE void run(const Words (&d)[kIn], Words (&t)[kOut]) {
    if constexpr (kValid == 4) {
      const Words a = d[3] - d[1], b = d[4] - d[2];
      t[0] = 2 * (d[0] - d[2]) + 3 * a + 2 * b;
      t[1] = 3 * (d[2] + d[3]) + 2 * (a + b);
      t[2] = 3 * (d[3] - d[2]) + 2 * (b - a);
      t[3] = 2 * a + b;
      t[4] = 2 * b - a;
      t[5] = 2 * (d[5] - d[3] - a) + 3 * b;
    } else if constexpr (kValid == 3) {
      const Words a = d[3] - d[1], b = d[3] - d[2];
      t[0] = d[0] - d[2] + 2 * a;
      t[1] = a + d[2] + d[3];
      t[2] = 3 * b - a;
      t[3] = a;
      t[4] = 2 * (d[4] - d[2]) - a;
    } else if constexpr (kValid == 2) {
      t[0] = d[0] - d[2];
      t[1] = d[1] + d[2];
      t[2] = d[2] - d[1];
      t[3] = d[3] - d[1];
    } else {
      t[0] = d[0] - d[1];
      t[1] = d[1];
      t[2] = d[2] - d[1];
    }
  }
};

// 3 weights -> 6.
struct ExactWeights {
  static PADDOCK_INLINE void run(const Words (&g)[3], Words (&u)[6]) {
    const Words ends = g[0] + g[2];
    u[0] = g[0];
    u[1] = ends + g[1];
    u[2] = ends - g[1];
    u[3] = 4 * g[0] + 2 * g[1] + g[2];
    u[4] = g[0] - 2 * g[1] + 4 * g[2];
    u[5] = g[2];
  }
};

// kValid + 2 sums of products -> kFactor times kValid sums of the convolution.
template <int kValid>
struct ExactTarget {
  using Value = UInt32s;
  static constexpr int kIn = kValid + 2, kOut = kValid;
  static constexpr uint32_t kFactor = kValid == 4 ? 30 : kValid == 3 ? 6 : kValid == 2 ? 2 : 1;
  static PADDOCK_INLINE void run(const UInt32s (&m)[kIn], UInt32s (&y)[kOut]) {
    const UInt32s sum = m[1] + m[2], difference = m[1] - m[2];
    if constexpr (kValid == 4) {
      y[0] = 15 * m[0] + 5 * difference - 8 * m[3] + m[4];
      y[1] = 5 * sum - 4 * m[3] - 2 * m[4];
      y[2] = 5 * difference - 2 * m[3] + 4 * m[4];
      y[3] = 5 * sum - m[3] - 8 * m[4] + 15 * m[5];
    } else if constexpr (kValid == 3) {
      y[0] = 6 * m[0] + 3 * m[1] - m[2] - 4 * m[3];
      y[1] = 3 * m[1] + m[2] - 2 * m[3];
      y[2] = 3 * (m[1] + m[4]) - m[2] - m[3];
    } else if constexpr (kValid == 2) {
      y[0] = 2 * m[0] + sum;
      y[1] = difference + 2 * m[3];
    } else {
      y[0] = m[0] + sum;
    }
  }
};

}  // namespace paddock::cpu
