// The register tile of 8-bit products and convolutions: a few rows of A times one packed panel of B, in exact 32-bit
// sums. Rows of A are pointers, one for each tap, so that they may be pixels of an image.
#pragma once
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/parallel.h"
#include "cpu/gemm/gemm_tile.h"
#include "cpu/gemm/int8_dot.h"

namespace paddock::cpu {

inline constexpr int kInt8TileRows = 6;
// Columns of a panel; the last one has as many vectors as it needs.
inline constexpr int64_t kInt8Width = kPanelVecs * Vec<float>::kSize;

// Weights [N, K] as panels. Per column what its sum starts with, (kTaken - zero) times its weights; then the panels:
// [K / kGroup] rows of `width` columns of kGroup weights each, zeros beyond N and K.
template <class D>
struct Int8Panels {
  static constexpr int64_t kLanes = Vec<float>::kSize;
  int64_t N, K;
  int32_t zero;  // what stands for 0 in A
  int64_t padded_columns = ceil_div(N, kLanes) * kLanes, padded_depth = ceil_div(K, D::kGroup) * D::kGroup;

  int64_t starts_bytes() const { return ceil_div(padded_columns * 4, 64) * 64; }
  int64_t bytes() const { return starts_bytes() + ceil_div(padded_columns * padded_depth, 64) * 64; }
  // Where the panel of column n0 starts.
  int64_t panel(int64_t n0) const { return starts_bytes() + n0 * padded_depth; }

  void pack(const int8_t* weight, void* to) const {
    const int64_t panels = ceil_div(N, kInt8Width), grain = 65536 / (kInt8Width * padded_depth + 1);
    parallel_for(panels, std::max<int64_t>(1, grain), [&](int64_t begin, int64_t end) {
      for (int64_t n = begin * kInt8Width; n < std::min(padded_columns, end * kInt8Width); ++n)
        pack_column(n < N ? weight + n * K : nullptr, n, static_cast<int8_t*>(to));
    });
  }

 private:
  void pack_column(const int8_t* from, int64_t n, int8_t* to) const {
    const int64_t n0 = n / kInt8Width * kInt8Width, width = panel_vecs<float>(N, n0) * kLanes;
    int8_t* place = to + panel(n0) + (n - n0) * D::kGroup;
    int32_t sum = 0;
    for (int64_t k = 0; k < padded_depth; k += D::kGroup, place += width * D::kGroup)
      for (int i = 0; i < D::kGroup; ++i) {
        place[i] = from && k + i < K ? from[k + i] : int8_t(0);
        sum += place[i];
      }
    // Modulo 2^32, as the sums themselves are on their way to a result that fits.
    reinterpret_cast<uint32_t*>(to)[n] = static_cast<uint32_t>(D::kTaken - zero) * static_cast<uint32_t>(sum);
  }
};

// sums [rows, vecs * lanes] = start + rows of A times a panel of B.
struct Int8Tile {
  const char* const* a;  // [taps][kInt8TileRows]
  int64_t taps, groups;  // steps of the sum: `groups` for each tap
  const int8_t* b;
  const int32_t* start;
  const int8_t* fetch;  // memory to have in the second-level cache soon, a cache line a step
  int32_t* sums;
};

template <class D, int kRows, int kVecs>
void int8_tile_of(const Int8Tile& t) {
  constexpr int64_t kLanes = Vec<float>::kSize, kVecWeights = kLanes * D::kGroup * D::kWeightBytes;
  Int32s sum[kRows][kVecs];
#pragma GCC unroll 4
  for (int j = 0; j < kVecs; ++j) {
    const Int32s start = load_int32s(t.start + j * kLanes);
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) sum[i][j] = start;
  }
  const int8_t *b = t.b, *fetch = t.fetch;
  const char* const* rows = t.a;
  for (int64_t tap = 0; tap < t.taps; ++tap, rows += kInt8TileRows) {
    const char* a[kRows];
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) a[i] = rows[i];
    for (int64_t g = 0; g < t.groups; ++g, b += kVecs * kVecWeights, fetch += 64) {
      __builtin_prefetch(fetch, 0, 2);
      Int32s row[kVecs];
#pragma GCC unroll 4
      for (int j = 0; j < kVecs; ++j) row[j] = D::weights(b + j * kVecWeights);
#pragma GCC unroll 6
      for (int i = 0; i < kRows; ++i) {
        int32_t values;
        std::memcpy(&values, a[i] + g * 4, 4);
        const auto x = D::same(values);
#pragma GCC unroll 4
        for (int j = 0; j < kVecs; ++j) sum[i][j] = D::add(sum[i][j], x, row[j]);
      }
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j) store_int32s(sum[i][j], t.sums + (i * kVecs + j) * kLanes);
}

using Int8TileFn = void (*)(const Int8Tile&);

// [rows - 1][vecs - 1]
template <class D, int... kRow>
constexpr auto int8_tile_table(std::integer_sequence<int, kRow...>) {
  const auto of_rows = []<int kRows, int... kVec>(std::integer_sequence<int, kVec...>) {
    return std::array<Int8TileFn, sizeof...(kVec)>{int8_tile_of<D, kRows, kVec + 1>...};
  };
  using Vecs = std::make_integer_sequence<int, kPanelVecs>;
  return std::array{of_rows.template operator()<kRow + 1>(Vecs{})...};
}

// The tile of 1 <= rows <= kInt8TileRows and 1 <= vecs <= kPanelVecs.
template <class D>
Int8TileFn int8_tile(int64_t rows, int64_t vecs) {
  static constexpr auto kTiles = int8_tile_table<D>(std::make_integer_sequence<int, kInt8TileRows>{});
  return kTiles[static_cast<size_t>(rows - 1)][static_cast<size_t>(vecs - 1)];
}

}  // namespace paddock::cpu
