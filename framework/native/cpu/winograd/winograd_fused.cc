// Positions in rows of six: a row needs three values of each weight's taps, transformed by columns, to make its six.
#include "cpu/winograd/winograd_fused.h"

#include <type_traits>

namespace paddock::cpu {
namespace {

constexpr int64_t kChunk = 32;  // source channels: their taps stay in the first-level cache for all rows of positions
constexpr int64_t kTapVectors = 9;

// WeightTransform without its factors, which the sums are multiplied by at the end.
constexpr float kFactors[6] = {1, 1.0f / 3, -1.0f / 3, -4.0f / 15, 1.0f / 15, 1};

template <int kPlace>
PADDOCK_INLINE V transformed(V g0, V g1, V g2) {
  const V two = V::broadcast(2), four = V::broadcast(4);
  switch (kPlace) {
    case 0:
      return g0;
    case 1:
      return (g0 + g2) + g1;
    case 2:
      return (g0 + g2) - g1;
    case 3:
      return fma(two, g1, fma(four, g0, g2));
    case 4:
      return fma(four, g2, g0) - two * g1;
    default:
      return g2;
  }
}

// Value `kRow` of the transformed column of taps.
template <int kRow>
PADDOCK_INLINE V of_column(const float* taps, int column) {
  const float* t = taps + column * V::kSize;
  const auto at = [&](int r) { return V::load(t + r * 3 * V::kSize); };
  if constexpr (kRow == 0) return at(0);
  if constexpr (kRow == 5) return at(2);
  return transformed<kRow>(at(0), at(1), at(2));
}

// A row of positions for a chunk of source channels.
struct RowStep {
  const float* v;      // of the row's first position, the first tile that has a value there, the chunk's first channel
  int64_t v_position;  // elements from a position to the next,
  int64_t v_tile;      // and from a tile to the next
  const float* taps;
  int64_t channels;
  const float* fetch;  // asked for: two vectors a step
  float* m;
  int64_t m_position;
  bool first, last;  // of the chunks
};

// kTiles tiles have a value at this row's positions, kWide of them at column 4 too.
template <int kRow, int kTiles, int kWide>
void row_of_positions(const RowStep& s) {
  constexpr auto tiles = [](int j) { return j == 4 ? kWide : kTiles; };
  V sum[6][kTiles];
#pragma GCC unroll 6
  for (int j = 0; j < 6; ++j)
#pragma GCC unroll 4
    for (int t = 0; t < kTiles; ++t)
      if (t < tiles(j)) sum[j][t] = s.first ? V::zero() : V::load(s.m + j * s.m_position + t * V::kSize);
  const float* v[6];
#pragma GCC unroll 6
  for (int j = 0; j < 6; ++j) v[j] = s.v + j * s.v_position;
  const int64_t v_tile = s.v_tile;
  const float *taps = s.taps, *fetch = s.fetch;
  for (int64_t c = 0; c < s.channels; ++c, taps += kTapVectors * V::kSize, fetch += 2 * V::kSize) {
    __builtin_prefetch(fetch, 0, 2);
    __builtin_prefetch(fetch + V::kSize, 0, 2);
    const V g0 = of_column<kRow>(taps, 0), g1 = of_column<kRow>(taps, 1), g2 = of_column<kRow>(taps, 2);
    const auto multiply = [&]<int kColumn>(std::integral_constant<int, kColumn>) __attribute__((always_inline)) {
      const V u = transformed<kColumn>(g0, g1, g2);
#pragma GCC unroll 4
      for (int t = 0; t < kTiles; ++t)
        if (t < tiles(kColumn)) sum[kColumn][t] = fma(V::broadcast(v[kColumn][c + t * v_tile]), u, sum[kColumn][t]);
    };
    multiply(std::integral_constant<int, 0>());
    multiply(std::integral_constant<int, 5>());
    multiply(std::integral_constant<int, 1>());
    multiply(std::integral_constant<int, 2>());
    multiply(std::integral_constant<int, 3>());
    multiply(std::integral_constant<int, 4>());
  }
#pragma GCC unroll 6
  for (int j = 0; j < 6; ++j) {
    const V factor = V::broadcast(s.last ? kFactors[kRow] * kFactors[j] : 1.0f);
#pragma GCC unroll 4
    for (int t = 0; t < kTiles; ++t)
      if (t < tiles(j)) (sum[j][t] * factor).store(s.m + j * s.m_position + t * V::kSize);
  }
}

template <int kRow>
void row_of_positions(int64_t tiles, int64_t wide, const RowStep& s) {
  if (tiles == 4) return wide == 4 ? row_of_positions<kRow, 4, 4>(s) : row_of_positions<kRow, 4, 2>(s);
  return wide == 2 ? row_of_positions<kRow, 2, 2>(s) : row_of_positions<kRow, 2, 1>(s);
}

}  // namespace

void fused_products(const TiledImage& image, const TileBlocks& v, const float* taps, const float* next,
                    const TileBlocks& m) {
  const int64_t C = v.channels, chunks = ceil_div(C, kChunk);
  for (int64_t i = 0; i < chunks; ++i) {
    const int64_t begin = i * C / chunks, end = (i + 1) * C / chunks, lines = end - begin;
    const float* chunk = taps + begin * kTapVectors * V::kSize;
    const float* following = i + 1 < chunks ? taps + end * kTapVectors * V::kSize : next ? next : chunk;
    for_rows_of_positions([&]<int kRow>(std::integral_constant<int, kRow>) {
      const TileRange range = image.with_position({0, 4}, kRow, 0), wide = image.with_position({0, 4}, kRow, 4);
      RowStep s{};
      s.v_tile = v.columns(0);
      s.v_position = v.stride(s.v_tile);
      s.v = v.at(0, kRow * 6) + range.begin * s.v_tile + begin;
      s.taps = chunk;
      s.channels = end - begin;
      s.fetch = following + kRow * 2 * lines * V::kSize;
      s.m_position = m.stride(V::kSize);
      s.m = m.at(0, kRow * 6) + range.begin * V::kSize;
      s.first = i == 0;
      s.last = i + 1 == chunks;
      if constexpr (kVecRegisters == 32) row_of_positions<kRow>(range.count(), wide.count(), s);
    });
  }
}

}  // namespace paddock::cpu
