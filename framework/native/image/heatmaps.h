// Points in heatmaps, defined once for Python and the predictor: DARK (Zhang et al. 2020, arXiv:1910.06278).
#pragma once
#include <cstdint>

#include "core/api.h"

namespace paddock::image {

// Maps [height, width, count] of one input, a map a point.
struct Heatmaps {
  const float* values;
  int64_t height, width, count;
};

// The largest cell of each map, moved by a step of Newton's method on the logarithm of the smoothed map, at most one
// cell an axis. Smoothing is by a Gaussian of 2 r + 1 cells, r = 2.5 sigma rounded to even, whose deviation is 0.3 r +
// 0.5; cells outside are 0 and numbers below 1e-10 are 1e-10. The cell's middle stays at the two cells of a border,
// where the logarithm curves nowhere, and around what is no number, which counts as the largest.
// `points` [count, 2] are (x, y) in pixels of the input, whose cells have `stride` pixels; `scores` [count] are the
// heights of the cells. In float64 but for the results. Throws Error for a stride or sigma that is none.
PADDOCK_API void decode_heatmaps(const Heatmaps& maps, double stride, double sigma, float* points, float* scores);

}  // namespace paddock::image
