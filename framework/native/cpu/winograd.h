// Winograd convolution F(4x4, 3x3) (Lavin and Gray, arXiv:1509.09308) for stride 1, with the points
// {0, 1, -1, 1/2, -2, infinity}: 36 products give 16 outputs instead of 144, at about 1e-6 of the largest output.
// Source tiles are 6 x 6 pixels, target tiles 4 x 4; "positions" are the 36 places of a transformed tile.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/storage.h"
#include "cpu/conv.h"
#include "cpu/gemm_tile.h"

namespace paddock::cpu {

inline constexpr int kPositions = 36;
using V = Vec<float>;

// 6 values of x -> 6.
struct SourceTransform {
  static PADDOCK_INLINE void run(const V (&d)[6], V (&t)[6]) {
    const V half = V::broadcast(0.5f), three_halves = V::broadcast(1.5f), two = V::broadcast(2.0f);
    const V a = d[3] - d[1], b = d[4] - d[2];
    t[0] = fma(three_halves, a, (d[0] - d[2]) + b);
    t[1] = fma(three_halves, d[2] + d[3], b + a);
    t[2] = fma(three_halves, d[3] - d[2], b - a);
    t[3] = fma(two, a, b);
    t[4] = b - half * a;
    t[5] = fma(three_halves, b, (d[5] - d[3]) - a);
  }
};

// 3 values of w -> 6.
struct WeightTransform {
  static PADDOCK_INLINE void run(const V (&g)[3], V (&u)[6]) {
    const V third = V::broadcast(1.0f / 3), fifteenth = V::broadcast(1.0f / 15);
    const V two = V::broadcast(2.0f), four = V::broadcast(4.0f);
    const V ends = (g[0] + g[2]) * third, middle = g[1] * third;
    u[0] = g[0];
    u[1] = middle + ends;
    u[2] = middle - ends;
    u[3] = -(four * fifteenth) * (fma(four, g[0], g[2]) + two * g[1]);
    u[4] = fifteenth * (fma(four, g[2], g[0]) - two * g[1]);
    u[5] = g[2];
  }
};

// 6 products -> 4 values of y.
struct TargetTransform {
  static PADDOCK_INLINE void run(const V (&m)[6], V (&y)[4]) {
    const V sum = m[1] + m[2], difference = m[1] - m[2];
    y[0] = (m[0] + sum) + (m[3] + m[4]);
    y[1] = difference + fma(V::broadcast(0.5f), m[3], V::broadcast(-2.0f) * m[4]);
    y[2] = sum + fma(V::broadcast(0.25f), m[3], V::broadcast(4.0f) * m[4]);
    y[3] = (difference + m[5]) + fma(V::broadcast(0.125f), m[3], V::broadcast(-8.0f) * m[4]);
  }
};

// The transposed maps, for the weight gradient: 4 values of dy -> 6, and 6 sums -> 3 values of dw.
struct TargetAdjoint {
  static PADDOCK_INLINE void run(const V (&y)[4], V (&e)[6]) {
    const V even = y[0] + y[2], odd = y[1] + y[3];
    e[0] = y[0];
    e[1] = even + odd;
    e[2] = even - odd;
    e[3] = fma(V::broadcast(0.25f), y[2], y[0]) + fma(V::broadcast(0.125f), y[3], V::broadcast(0.5f) * y[1]);
    e[4] = fma(V::broadcast(4.0f), y[2], y[0]) - fma(V::broadcast(8.0f), y[3], V::broadcast(2.0f) * y[1]);
    e[5] = y[3];
  }
};
struct WeightAdjoint {
  static PADDOCK_INLINE void run(const V (&u)[6], V (&g)[3]) {
    const V third = V::broadcast(1.0f / 3), fifteenth = V::broadcast(1.0f / 15);
    const V sum = third * (u[1] + u[2]), difference = third * (u[1] - u[2]);
    g[0] = (u[0] + difference) + fifteenth * fma(V::broadcast(-16.0f), u[3], u[4]);
    g[1] = sum - fifteenth * fma(V::broadcast(8.0f), u[3], V::broadcast(2.0f) * u[4]);
    g[2] = (u[5] + difference) + fifteenth * (V::broadcast(4.0f) * (u[4] - u[3]));
  }
};

// Applies a transform to the columns and then the rows of a kIn x kIn square of vectors.
template <class Transform, int kIn, int kOut, class Load, class Store>
PADDOCK_INLINE void transform_square(Load load, Store store) {
  V middle[kOut][kIn];
#pragma GCC unroll 6
  for (int j = 0; j < kIn; ++j) {
    V in[kIn], out[kOut];
#pragma GCC unroll 6
    for (int i = 0; i < kIn; ++i) in[i] = load(i, j);
    Transform::run(in, out);
#pragma GCC unroll 6
    for (int i = 0; i < kOut; ++i) middle[i][j] = out[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < kOut; ++i) {
    V out[kOut];
    Transform::run(middle[i], out);
#pragma GCC unroll 6
    for (int j = 0; j < kOut; ++j) store(i, j, out[j]);
  }
}

// A source image whose 3 x 3 windows, shifted by the padding, give the target image.
struct TiledImage {
  int64_t N, source_h, source_w, source_c, target_h, target_w, target_c, pad_top, pad_left;
  int64_t tiles_h = (target_h + 3) / 4, tiles_w = (target_w + 3) / 4;

  int64_t tiles() const { return N * tiles_h * tiles_w; }
};

inline int64_t padded(int64_t channels) { return (channels + V::kSize - 1) / V::kSize * V::kSize; }

// Elements from one position of `tiles` tiles to the next: an odd number of cache lines, so that the positions of a
// tile fall into different cache sets.
inline int64_t position_stride(int64_t tiles, int64_t channels) {
  return (((tiles * padded(channels) + 15) / 16) | 1) * 16;
}

// out[position][tile - first][channel] for tiles [first, first + count) of the source image.
void transform_source(const TiledImage& image, const float* source, int64_t first, int64_t count, float* out,
                      int64_t stride);

bool winograd_applies(const ConvGeometry& g);

void winograd_forward(const ConvGeometry& g, const float* x, const float* w, float* y, const Epilogue<float>& e);
void winograd_grad_input(const ConvGeometry& g, const float* dy, const float* w, float* dx);
void winograd_grad_weight(const ConvGeometry& g, const float* x, const float* dy, float* dw);

}  // namespace paddock::cpu
