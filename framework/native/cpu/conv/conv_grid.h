// A convolution seen as a matrix product: rows are the pixels of a grid, taps say which source pixel a row meets.
// Forward and data gradient are the same walk over different grids; a strided data gradient is one grid a phase.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/parallel.h"
#include "cpu/conv/conv.h"

namespace paddock::cpu {

// Source pixel of grid pixel (i, j): (i * step_h + dh, j * step_w + dw). `weight` is the tap's index r * S + s.
struct Tap {
  int64_t dh, dw, weight;
};

// Grid [N, rows, columns] that reads a source image and writes every out_step-th pixel of a target image.
struct Grid {
  int64_t N, rows, columns;
  int64_t source_h, source_w, source_c, step_h, step_w;
  int64_t target_h, target_w, target_c, out_step_h, out_step_w, out_h, out_w;
  std::vector<Tap> taps;

  int64_t pixels() const { return N * rows * columns; }
  int64_t source_row(int64_t n, int64_t h) const { return (n * source_h + h) * source_w * source_c; }
  int64_t target_pixel(int64_t n, int64_t i, int64_t j) const {
    return ((n * target_h + i * out_step_h + out_h) * target_w + j * out_step_w + out_w) * target_c;
  }
};

// Half-open range.
struct Range {
  int64_t begin, end;
};

// The indices j of [0, count) with 0 <= j * step + shift < size.
inline Range inside(int64_t count, int64_t step, int64_t shift, int64_t size) {
  const int64_t begin = shift >= 0 ? 0 : (-shift + step - 1) / step;
  const int64_t end = size > shift ? (size - shift + step - 1) / step : 0;
  const int64_t first = std::min(begin, count);
  return {first, std::clamp(end, first, count)};
}

Grid forward_grid(const ConvGeometry& g);

// One grid for each phase of the stride that has pixels; taps of a grid may be empty.
std::vector<Grid> grad_input_grids(const ConvGeometry& g);

// Calls body(group) for every group: with all threads on one group after the other, or, where the groups are small,
// with groups shared out among the threads.
inline void for_each_group(const ConvGeometry& g, FunctionRef<void(int64_t)> body) {
  const int64_t work = g.N * g.P * g.Q * (g.K / g.groups) * g.R * g.S * (g.C / g.groups);
  const bool small = g.groups >= 4 && work < (int64_t{1} << 26);
  parallel_for(g.groups, small ? 1 : g.groups, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

inline bool is_depthwise(const ConvGeometry& g) { return g.groups == g.C && g.K == g.C && g.groups > 1; }

// The direct algorithm for any geometry.
template <class T>
void direct_forward(const ConvGeometry& g, const T* x, const T* w, T* y, const Epilogue<T>& epilogue,
                    const Prepared& prepared);
template <class T>
void direct_grad_input(const ConvGeometry& g, const T* dy, const T* w, T* dx, const Prepared& prepared);
template <class T>
void direct_grad_weight(const ConvGeometry& g, const T* x, const T* dy, T* dw);

// The depthwise kernels (one channel a group, multiplier 1).
template <class T>
void depthwise_forward(const ConvGeometry& g, const T* x, const T* w, T* y, const Epilogue<T>& epilogue,
                       const Prepared& prepared);
template <class T>
void depthwise_grad_input(const ConvGeometry& g, const T* dy, const T* w, T* dx, const Prepared& prepared);
template <class T>
void depthwise_grad_weight(const ConvGeometry& g, const T* x, const T* dy, T* dw);

}  // namespace paddock::cpu
