// Winograd convolution F(4x4, 3x3) (Lavin and Gray, arXiv:1509.09308) for stride 1, with the points
// {0, 1, -1, 1/2, -2, infinity}: 36 products give 16 outputs instead of 144, at about 1e-6 of the largest output.
// Source tiles are 6 x 6 pixels, target tiles 4 x 4; "positions" are the 36 places of a transformed tile.
//
// Where the target ends within a tile, its last row or column of tiles has 1 to 3 valid pixels. Such a tile takes the
// smaller F(r, 3) over the first r + 1 finite points and infinity: it reads the same transformed weights at fewer
// positions, so a ragged edge costs what it holds (10 x 10 pixels: 256 products a channel instead of 324).
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "cpu/conv/conv.h"
#include "cpu/gemm/gemm_tile.h"

namespace paddock::cpu {

inline constexpr int kPositions = 36;
using V = Vec<float>;

// kValid + 2 values of x -> as many; the last one belongs to the point infinity.
template <int kValid>
struct SourceTransform {
  using Value = V;
  static constexpr int kIn = kValid + 2, kOut = kValid + 2;
  static PADDOCK_INLINE void run(const V (&d)[kIn], V (&t)[kOut]) {
    const V half = V::broadcast(0.5f), three_halves = V::broadcast(1.5f), two = V::broadcast(2.0f);
    if constexpr (kValid == 4) {
      const V a = d[3] - d[1], b = d[4] - d[2];
      t[0] = fma(three_halves, a, (d[0] - d[2]) + b);
      t[1] = fma(three_halves, d[2] + d[3], b + a);
      t[2] = fma(three_halves, d[3] - d[2], b - a);
      t[3] = fma(two, a, b);
      t[4] = b - half * a;
      t[5] = fma(three_halves, b, (d[5] - d[3]) - a);
    } else if constexpr (kValid == 3) {
      const V a = d[3] - d[1], sum = d[2] + d[3], difference = d[3] - d[2];
      t[0] = fma(two, a, d[0] - d[2]);
      t[1] = three_halves * (a + sum);
      t[2] = fma(three_halves, difference, half * (d[1] - d[3]));
      t[3] = V::broadcast(2.5f) * a;
      t[4] = (d[4] - d[2]) - half * a;
    } else if constexpr (kValid == 2) {
      t[0] = d[0] - d[2];
      t[1] = three_halves * (d[1] + d[2]);
      t[2] = three_halves * (d[1] - d[2]);
      t[3] = d[3] - d[1];
    } else {
      t[0] = d[0] - d[1];
      t[1] = V::broadcast(3.0f) * d[1];
      t[2] = d[2] - d[1];
    }
  }
};

// 3 values of w -> 6.
struct WeightTransform {
  using Value = V;
  static constexpr int kIn = 3, kOut = 6;
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

// kValid + 2 products -> kValid values of y.
template <int kValid>
struct TargetTransform {
  using Value = V;
  static constexpr int kIn = kValid + 2, kOut = kValid;
  static PADDOCK_INLINE void run(const V (&m)[kIn], V (&y)[kOut]) {
    if constexpr (kValid == 1) {
      y[0] = (m[0] + m[1]) + m[2];
    } else {
      const V sum = m[1] + m[2], difference = m[1] - m[2];
      if constexpr (kValid == 4) {
        y[0] = (m[0] + sum) + (m[3] + m[4]);
        y[1] = difference + fma(V::broadcast(0.5f), m[3], V::broadcast(-2.0f) * m[4]);
        y[2] = sum + fma(V::broadcast(0.25f), m[3], V::broadcast(4.0f) * m[4]);
        y[3] = (difference + m[5]) + fma(V::broadcast(0.125f), m[3], V::broadcast(-8.0f) * m[4]);
      } else if constexpr (kValid == 3) {
        y[0] = (m[0] + sum) + m[3];
        y[1] = fma(V::broadcast(0.5f), m[3], difference);
        y[2] = fma(V::broadcast(0.25f), m[3], sum + m[4]);
      } else {
        y[0] = m[0] + sum;
        y[1] = difference + m[3];
      }
    }
  }
};

// The transposed maps, for the weight gradient: kValid values of dy -> kValid + 2, and 6 sums -> 3 values of dw.
template <int kValid>
struct TargetAdjoint {
  using Value = V;
  static constexpr int kIn = kValid, kOut = kValid + 2;
  static PADDOCK_INLINE void run(const V (&y)[kIn], V (&e)[kOut]) {
    e[0] = y[0];
    if constexpr (kValid == 1) {
      e[1] = y[0];
    } else {
      V even = y[0], odd = y[1];
      if constexpr (kValid > 2) even += y[2];
      if constexpr (kValid > 3) odd += y[3];
      e[1] = even + odd;
      e[2] = even - odd;
    }
    if constexpr (kValid == 3) e[3] = fma(V::broadcast(0.25f), y[2], fma(V::broadcast(0.5f), y[1], y[0]));
    if constexpr (kValid == 4) {
      e[3] = fma(V::broadcast(0.25f), y[2], y[0]) + fma(V::broadcast(0.125f), y[3], V::broadcast(0.5f) * y[1]);
      e[4] = fma(V::broadcast(4.0f), y[2], y[0]) - fma(V::broadcast(8.0f), y[3], V::broadcast(2.0f) * y[1]);
    }
    e[kOut - 1] = y[kIn - 1];
  }
};
struct WeightAdjoint {
  using Value = V;
  static constexpr int kIn = 6, kOut = 3;
  static PADDOCK_INLINE void run(const V (&u)[6], V (&g)[3]) {
    const V third = V::broadcast(1.0f / 3), fifteenth = V::broadcast(1.0f / 15);
    const V sum = third * (u[1] + u[2]), difference = third * (u[1] - u[2]);
    g[0] = (u[0] + difference) + fifteenth * fma(V::broadcast(-16.0f), u[3], u[4]);
    g[1] = sum - fifteenth * fma(V::broadcast(8.0f), u[3], V::broadcast(2.0f) * u[4]);
    g[2] = (u[5] + difference) + fifteenth * (V::broadcast(4.0f) * (u[4] - u[3]));
  }
};

// Applies Columns to the columns and then Rows to the rows of a rectangle of vectors.
template <class Columns, class Rows, class Load, class Store>
PADDOCK_INLINE void transform_rectangle(Load load, Store store) {
  using Value = typename Columns::Value;
  Value middle[Columns::kOut][Rows::kIn];
#pragma GCC unroll 6
  for (int j = 0; j < Rows::kIn; ++j) {
    Value in[Columns::kIn], out[Columns::kOut];
#pragma GCC unroll 6
    for (int i = 0; i < Columns::kIn; ++i) in[i] = load(i, j);
    Columns::run(in, out);
#pragma GCC unroll 6
    for (int i = 0; i < Columns::kOut; ++i) middle[i][j] = out[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < Columns::kOut; ++i) {
    Value out[Rows::kOut];
    Rows::run(middle[i], out);
#pragma GCC unroll 6
    for (int j = 0; j < Rows::kOut; ++j) store(i, j, out[j]);
  }
}

// The place among the 6 of a whole tile of value i of a tile with `valid` pixels: the last is infinity's.
constexpr int place(int valid, int i) { return i == valid + 1 ? 5 : i; }
constexpr int position(int valid_rows, int valid_columns, int i, int j) {
  return place(valid_rows, i) * 6 + place(valid_columns, j);
}

// Calls run(integral_constant) for the rows of positions, 0 to 5.
template <class Run>
PADDOCK_INLINE void for_rows_of_positions(Run run) {
  [&]<int... kRow>(std::integer_sequence<int, kRow...>) {
    (run(std::integral_constant<int, kRow>()), ...);
  }(std::make_integer_sequence<int, 6>());
}

// Valid pixels below which a tile has no value at a place.
constexpr int kPixelsNeeded[6] = {1, 1, 2, 3, 4, 1};

// Calls run(integral_constant) for valid in 1 to 4.
template <class Run>
PADDOCK_INLINE void with_valid(int64_t valid, Run run) {
  switch (valid) {
    case 1:
      return run(std::integral_constant<int, 1>());
    case 2:
      return run(std::integral_constant<int, 2>());
    case 3:
      return run(std::integral_constant<int, 3>());
    default:
      return run(std::integral_constant<int, 4>());
  }
}

PADDOCK_INLINE V load_lanes(const float* p, int64_t lanes) {
  return lanes >= V::kSize ? V::load(p) : V::load_n(p, lanes);
}
PADDOCK_INLINE void store_lanes(V v, float* p, int64_t lanes) {
  if (lanes >= V::kSize)
    v.store(p);
  else
    v.store_n(p, lanes);
}

inline int64_t padded(int64_t channels) { return (channels + V::kSize - 1) / V::kSize * V::kSize; }

bool winograd_applies(const ConvGeometry& g);

void winograd_forward(const ConvGeometry& g, const float* x, const float* w, float* y, const Epilogue<float>& e,
                      const Prepared& prepared = {});
void winograd_grad_input(const ConvGeometry& g, const float* dy, const float* w, float* dx,
                         const Prepared& prepared = {});
void winograd_grad_weight(const ConvGeometry& g, const float* x, const float* dy, float* dw);

}  // namespace paddock::cpu
