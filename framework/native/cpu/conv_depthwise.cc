// Depthwise convolution (one channel a group): a vector is a stretch of channels, so nothing is packed but weights.
#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "core/storage.h"
#include "cpu/conv_grid.h"
#include "cpu/gemm_tile.h"

namespace paddock::cpu {
namespace {

constexpr int kPixels = 8;                    // output pixels that share a loaded weight
constexpr int64_t kTaskOperations = 1 << 17;  // multiply-adds of a task

// weights [C, taps] -> [taps, C], so that a tap's channels are contiguous.
template <class T>
std::shared_ptr<Storage> tap_major(const T* w, int64_t C, int64_t taps, const Prepared& prepared) {
  return prepared.block("depthwise taps", C * taps * static_cast<int64_t>(sizeof(T)), [&](void* block) {
    T* out = static_cast<T*>(block);
    for (int64_t c = 0; c < C; ++c)
      for (int64_t t = 0; t < taps; ++t) out[t * C + c] = w[c * taps + t];
  });
}

// A tap of one grid row: its source pixel for column 0, its shift along the row, its weights.
template <class T>
struct RowTap {
  const T* source;
  int64_t dw;
  const T* weight;
};

// One row of a grid.
template <class T>
class DepthwiseRow {
 public:
  DepthwiseRow(const Grid& grid, const T* source, const T* weights, T* target, const Epilogue<T>& epilogue)
      : grid_(grid), source_(source), weights_(weights), target_(target), epilogue_(epilogue) {}

  void run(int64_t n, int64_t i) {
    taps_.clear();
    Range inner{0, grid_.columns};
    for (const Tap& tap : grid_.taps) {
      const int64_t h = i * grid_.step_h + tap.dh;
      if (h < 0 || h >= grid_.source_h) continue;
      const Range in = inside(grid_.columns, grid_.step_w, tap.dw, grid_.source_w);
      inner = {std::max(inner.begin, in.begin), std::min(inner.end, in.end)};
      taps_.push_back(
          {source_ + grid_.source_row(n, h) + tap.dw * grid_.source_c, tap.dw, weights_ + tap.weight * grid_.source_c});
    }
    if (inner.end < inner.begin) inner.end = inner.begin;
    line_ = target_ + grid_.target_pixel(n, i, 0);
    for (int64_t c = 0; c < grid_.source_c; c += Vec<T>::kSize) channels(c, inner);
  }

 private:
  using V = Vec<T>;

  void channels(int64_t c, Range inner) const {
    const int64_t lanes = std::min<int64_t>(V::kSize, grid_.source_c - c);
    int64_t j = inner.begin;
    for (int64_t b = 0; b < inner.begin; ++b) border(c, b, lanes);
    if (lanes == V::kSize) {
      for (; j + kPixels <= inner.end; j += kPixels) pixels<kPixels, true>(c, j, lanes);
      for (; j < inner.end; ++j) pixels<1, true>(c, j, lanes);
    } else {
      for (; j < inner.end; ++j) pixels<1, false>(c, j, lanes);
    }
    for (; j < grid_.columns; ++j) border(c, j, lanes);
  }

  template <int kCount, bool kWhole>
  PADDOCK_INLINE void pixels(int64_t c, int64_t j, int64_t lanes) const {
    V sum[kCount];
#pragma GCC unroll 8
    for (int p = 0; p < kCount; ++p) sum[p] = V::zero();
    const int64_t step = grid_.step_w * grid_.source_c;
    for (const RowTap<T>& tap : taps_) {
      const T* x = tap.source + j * step + c;
      const V w = kWhole ? V::load(tap.weight + c) : V::load_n(tap.weight + c, lanes);
#pragma GCC unroll 8
      for (int p = 0; p < kCount; ++p)
        sum[p] = fma(w, kWhole ? V::load(x + p * step) : V::load_n(x + p * step, lanes), sum[p]);
    }
#pragma GCC unroll 8
    for (int p = 0; p < kCount; ++p) store(sum[p], c, j + p, lanes);
  }

  // A pixel of which some taps fall outside of the image.
  void border(int64_t c, int64_t j, int64_t lanes) const {
    V sum = V::zero();
    for (const RowTap<T>& tap : taps_) {
      const int64_t w = j * grid_.step_w + tap.dw;
      if (w < 0 || w >= grid_.source_w) continue;
      const T* x = tap.source + j * grid_.step_w * grid_.source_c + c;
      sum = fma(V::load_n(tap.weight + c, lanes), V::load_n(x, lanes), sum);
    }
    store(sum, c, j, lanes);
  }

  PADDOCK_INLINE void store(V sum, int64_t c, int64_t j, int64_t lanes) const {
    T* y = line_ + j * grid_.out_step_w * grid_.target_c + c;
    if (!epilogue_.empty()) sum = finish(sum, epilogue_, c, y - target_, lanes);
    if (lanes == V::kSize)
      sum.store(y);
    else
      sum.store_n(y, lanes);
  }

  const Grid& grid_;
  const T* source_;
  const T* weights_;
  T* target_;
  const Epilogue<T>& epilogue_;
  std::vector<RowTap<T>> taps_;
  T* line_ = nullptr;
};

template <class T>
void convolve_depthwise(const Grid& grid, const T* source, const T* weights, T* target, const Epilogue<T>& epilogue) {
  const int64_t work = std::max<int64_t>(1, grid.columns * grid.source_c * static_cast<int64_t>(grid.taps.size()));
  parallel_for(grid.N * grid.rows, std::max<int64_t>(1, kTaskOperations / work), [&](int64_t begin, int64_t end) {
    DepthwiseRow<T> row(grid, source, weights, target, epilogue);
    for (int64_t i = begin; i < end; ++i) row.run(i / grid.rows, i % grid.rows);
  });
}

// Sums x * dy of kCount taps over the pixels of an output row into sums[tap * C].
template <class T, int kCount>
void correlate(const T* const* x, int64_t x_step, const T* dy, int64_t C, Range pixels, T* const* sums, int64_t c,
               int64_t lanes) {
  using V = Vec<T>;
  V sum[kCount];
  const T* at[kCount];
#pragma GCC unroll 9
  for (int t = 0; t < kCount; ++t) {
    sum[t] = V::load_n(sums[t] + c, lanes);
    at[t] = x[t] + c;
  }
  if (lanes == V::kSize) {
    for (int64_t q = pixels.begin; q < pixels.end; ++q) {
      const V d = V::load(dy + q * C + c);
#pragma GCC unroll 9
      for (int t = 0; t < kCount; ++t) sum[t] = fma(V::load(at[t] + q * x_step), d, sum[t]);
    }
  } else {
    for (int64_t q = pixels.begin; q < pixels.end; ++q) {
      const V d = V::load_n(dy + q * C + c, lanes);
      for (int t = 0; t < kCount; ++t) sum[t] = fma(V::load_n(at[t] + q * x_step, lanes), d, sum[t]);
    }
  }
#pragma GCC unroll 9
  for (int t = 0; t < kCount; ++t) sum[t].store_n(sums[t] + c, lanes);
}

// Adds one output row's part of the weight gradient to sums [taps, C].
template <class T>
class DepthwiseWeightRow {
 public:
  DepthwiseWeightRow(const Grid& grid, const T* x, const T* dy, T* sums) : grid_(grid), x_(x), dy_(dy), sums_(sums) {}

  void run(int64_t n, int64_t i) {
    const int64_t C = grid_.source_c;
    source_.clear(), into_.clear(), shift_.clear();
    Range inner{0, grid_.columns};
    for (const Tap& tap : grid_.taps) {
      const int64_t h = i * grid_.step_h + tap.dh;
      if (h < 0 || h >= grid_.source_h) continue;
      const Range in = inside(grid_.columns, grid_.step_w, tap.dw, grid_.source_w);
      inner = {std::max(inner.begin, in.begin), std::min(inner.end, in.end)};
      source_.push_back(x_ + grid_.source_row(n, h) + tap.dw * C);
      into_.push_back(sums_ + tap.weight * C);
      shift_.push_back(tap.dw);
    }
    inner.end = std::max(inner.begin, inner.end);
    const T* line = dy_ + grid_.target_pixel(n, i, 0);
    for (int64_t c = 0; c < C; c += Vec<T>::kSize) channels(c, line, inner);
  }

 private:
  void channels(int64_t c, const T* line, Range inner) const {
    const int64_t C = grid_.source_c, lanes = std::min<int64_t>(Vec<T>::kSize, C - c), step = grid_.step_w * C;
    const int64_t taps = static_cast<int64_t>(source_.size());
    const auto add = [&]<int kCount>(int64_t t, Range pixels) {
      correlate<T, kCount>(source_.data() + t, step, line, C, pixels, into_.data() + t, c, lanes);
    };
    for (int64_t t = 0; t < taps;) {
      if (taps - t >= 9)
        add.template operator()<9>(t, inner), t += 9;
      else if (taps - t >= 3)
        add.template operator()<3>(t, inner), t += 3;
      else
        add.template operator()<1>(t, inner), t += 1;
    }
    for (int64_t t = 0; t < taps; ++t) {
      const Range all = inside(grid_.columns, grid_.step_w, shift_[t], grid_.source_w);
      if (inner.begin == inner.end) {
        add.template operator()<1>(t, all);
      } else {
        add.template operator()<1>(t, {all.begin, inner.begin});
        add.template operator()<1>(t, {inner.end, all.end});
      }
    }
  }

  const Grid& grid_;
  const T *x_, *dy_;
  T* sums_;
  std::vector<const T*> source_;
  std::vector<T*> into_;
  std::vector<int64_t> shift_;
};

}  // namespace

template <class T>
void depthwise_forward(const ConvGeometry& g, const T* x, const T* w, T* y, const Epilogue<T>& epilogue,
                       const Prepared& prepared) {
  const auto weights = tap_major(w, g.C, g.R * g.S, prepared);
  convolve_depthwise(forward_grid(g), x, static_cast<const T*>(weights->data()), y, epilogue);
}

template <class T>
void depthwise_grad_input(const ConvGeometry& g, const T* dy, const T* w, T* dx, const Prepared& prepared) {
  const auto weights = tap_major(w, g.C, g.R * g.S, prepared);
  for (const Grid& grid : grad_input_grids(g))
    convolve_depthwise(grid, dy, static_cast<const T*>(weights->data()), dx, {});
}

template <class T>
void depthwise_grad_weight(const ConvGeometry& g, const T* x, const T* dy, T* dw) {
  const Grid grid = forward_grid(g);
  const int64_t taps = g.R * g.S, size = taps * g.C, rows = g.N * g.P;
  const int64_t work = std::max<int64_t>(1, g.Q * size);
  // At most 32 partial sums, added in order.
  const int64_t grain = std::max<int64_t>({1, (rows + 31) / 32, 4 * kTaskOperations / work});
  const int64_t parts = (rows + grain - 1) / grain;
  Scratch partial(std::max<int64_t>(1, parts * size) * sizeof(T));
  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    T* sums = partial.as<T>() + begin / grain * size;
    std::fill_n(sums, size, T(0));
    DepthwiseWeightRow<T> row(grid, x, dy, sums);
    for (int64_t i = begin; i < end; ++i) row.run(i / g.P, i % g.P);
  });
  for (int64_t c = 0; c < g.C; ++c)
    for (int64_t t = 0; t < taps; ++t) {
      T sum = T(0);
      for (int64_t i = 0; i < parts; ++i) sum += partial.as<T>()[i * size + t * g.C + c];
      dw[c * taps + t] = sum;
    }
}

#define PADDOCK_INSTANTIATE(T)                                                                         \
  template void depthwise_forward<T>(const ConvGeometry&, const T*, const T*, T*, const Epilogue<T>&,  \
                                     const Prepared&);                                                 \
  template void depthwise_grad_input<T>(const ConvGeometry&, const T*, const T*, T*, const Prepared&); \
  template void depthwise_grad_weight<T>(const ConvGeometry&, const T*, const T*, T*);
PADDOCK_INSTANTIATE(float)
PADDOCK_INSTANTIATE(double)
#undef PADDOCK_INSTANTIATE

}  // namespace paddock::cpu
