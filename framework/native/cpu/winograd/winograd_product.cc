// Register tiles of multiply_panel, one instance for each number of rows and vectors.
#include "cpu/winograd/winograd_product.h"

#include <array>
#include <utility>

namespace paddock::cpu {
namespace {

using V = Vec<float>;

template <int kRows, int kVecs>
void multiply_tile(const PanelProduct& p, const float* a, float* c) {
  V sum[kRows][kVecs];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j) sum[i][j] = p.add ? V::load(c + i * p.c_row + j * V::kSize) : V::zero();
  const float* rows[kRows];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) rows[i] = a + i * p.a_row;
  const float* b = p.b;
  const int64_t step = p.a_step, b_row = p.b_row;
  for (int64_t k = 0, at = 0; k < p.depth; ++k, at += step, b += b_row) {
    V row[kVecs];
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j) row[j] = V::load(b + j * V::kSize);
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      const V x = V::broadcast(rows[i][at]);
#pragma GCC unroll 4
      for (int j = 0; j < kVecs; ++j) sum[i][j] = fma(x, row[j], sum[i][j]);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j) sum[i][j].store(c + i * p.c_row + j * V::kSize);
}

using TileFunction = void (*)(const PanelProduct&, const float*, float*);

template <int kVecs, int... kRow>
TileFunction tile_of(int64_t rows, std::integer_sequence<int, kRow...>) {
  static constexpr std::array<TileFunction, sizeof...(kRow)> table{multiply_tile<kRow + 1, kVecs>...};
  return table[static_cast<size_t>(rows - 1)];
}

template <int kVecs>
void multiply(const PanelProduct& p, Prefetcher& prefetcher) {
  // Rows are dealt out evenly so that no tile is left with a row or two.
  const int64_t tiles = ceil_div(p.rows, tile_rows(kVecs));
  for (int64_t t = 0; t < tiles; ++t) {
    prefetcher.run();
    const int64_t begin = t * p.rows / tiles, end = (t + 1) * p.rows / tiles;
    tile_of<kVecs>(end - begin, std::make_integer_sequence<int, tile_rows(kVecs)>{})(p, p.a + begin * p.a_row,
                                                                                     p.c + begin * p.c_row);
  }
}

}  // namespace

void multiply_panel(const PanelProduct& p, Prefetcher& prefetcher) {
  const int64_t vecs = p.columns / V::kSize;
  if (vecs == 1) return multiply<1>(p, prefetcher);
  if constexpr (kPanelVecs > 2) {
    if (vecs == 3) return multiply<3>(p, prefetcher);
    if (vecs == 4) return multiply<4>(p, prefetcher);
  }
  multiply<2>(p, prefetcher);
}

}  // namespace paddock::cpu
