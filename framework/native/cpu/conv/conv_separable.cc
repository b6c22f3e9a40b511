// Depthwise and 1 x 1 convolution in one: what a task of the product reads, the depthwise rows, it computes into its
// cache, so that the image between the two never reaches memory.
#include "core/storage.h"
#include "cpu/conv/depthwise_rows.h"
#include "cpu/gemm/gemm_driver.h"
#include "cpu/gemm/gemm_pack.h"
#include "op/record.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kWeightBytes = 1280 << 10;  // packed weights that each band may read again
constexpr int64_t kBandBytes = 256 << 10;     // depthwise rows of a band: they stay in the second-level cache
constexpr int64_t kMostRows = 192;

// The way without fusion.
template <class T>
void in_two_steps(const SeparableConv<T>& s) {
  const ConvGeometry& g = s.g;
  Scratch between(static_cast<size_t>(g.N * g.P * g.Q * g.C) * sizeof(T));
  conv2d_forward(g, s.x, s.depth_weight, between.as<T>(), s.depth_epilogue, ConvAlgorithm::kAuto, s.depth_prepared);
  const ConvGeometry pointwise{g.N, g.P, g.Q, g.C, s.K, 1, 1, g.P, g.Q};
  conv2d_forward(pointwise, between.as<T>(), s.weight, s.y, s.epilogue, ConvAlgorithm::kAuto, s.prepared);
  note_implementation("in two steps");
}

template <class T>
void in_bands(const SeparableConv<T>& s) {
  const ConvGeometry& g = s.g;
  const Grid grid = forward_grid(g);
  const int64_t C = g.C, size = static_cast<int64_t>(sizeof(T));
  const auto taps = tap_major(s.depth_weight, C, g.R * g.S, s.depth_prepared);
  const auto panels = s.prepared.block("forward panels", packed_size<T>(C, s.K) * size, [&](void* block) {
    pack_all(true, s.weight, C, C, s.K, static_cast<T*>(block));
  });
  const auto rows_at = [&](int64_t begin, int64_t rows, const T** a, T** c, T* scratch) {
    DepthwiseRows<T> depthwise(grid, s.x, static_cast<const T*>(taps->data()), nullptr, s.depth_epilogue);
    for (int64_t row = 0; row < rows;) {
      const int64_t pixel = begin + row, j = pixel % grid.columns, line = pixel / grid.columns;
      const int64_t count = std::min(grid.columns - j, rows - row);
      depthwise.run(line / grid.rows, line % grid.rows, {j, j + count}, scratch + row * C);
      row += count;
    }
    for (int64_t row = 0; row < rows; ++row) {
      a[row] = scratch + row * C;
      c[row] = s.y + (begin + row) * s.K;
    }
  };
  RowsProduct<T> p{grid.pixels(), s.K, 1, C, static_cast<const T*>(panels->data()), rows_at};
  p.scratch_per_row = C;
  p.band_rows = std::clamp<int64_t>(kBandBytes / (C * size), 24, kMostRows);
  p.stream = worth_streaming(s.y, s.K * size, grid.pixels());
  p.epilogue = s.epilogue;
  p.residual_shift = s.epilogue.residual ? s.epilogue.residual - s.y : 0;
  multiply_rows(p);
  note_implementation("in bands");
}

}  // namespace

template <class T>
void separable_forward(const SeparableConv<T>& s) {
  const bool in_the_way = s.epilogue.residual == s.y && s.epilogue.residual_last && !sums_at_once<T>(1, s.g.C);
  const int64_t weight_bytes = packed_size<T>(s.g.C, s.K) * static_cast<int64_t>(sizeof(T));
  if (weight_bytes <= kWeightBytes && !in_the_way && is_depthwise(s.g))
    in_bands(s);
  else
    in_two_steps(s);
}

template void separable_forward<float>(const SeparableConv<float>&);
template void separable_forward<double>(const SeparableConv<double>&);

}  // namespace paddock::cpu
