// Depthwise convolution (one channel a group): a vector is a stretch of channels, so nothing is packed but weights.
#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "core/storage.h"
#include "cpu/conv/depthwise_rows.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kTaskOperations = 1 << 17;  // multiply-adds of a task

// Row i of every grid before row i + 1 of any: the phases of a strided gradient read the same rows of the source.
template <class T>
void convolve_depthwise(const std::vector<Grid>& grids, const T* source, const T* weights, T* target,
                        const Epilogue<T>& epilogue) {
  int64_t rows = 0, work = 1;
  for (const Grid& grid : grids) {
    rows = std::max(rows, grid.rows);
    work += grid.columns * grid.source_c * static_cast<int64_t>(grid.taps.size());
  }
  parallel_for(grids[0].N * rows, std::max<int64_t>(1, kTaskOperations / work), [&](int64_t begin, int64_t end) {
    std::vector<DepthwiseRows<T>> parts;
    for (const Grid& grid : grids) parts.emplace_back(grid, source, weights, target, epilogue);
    for (int64_t i = begin; i < end; ++i)
      for (size_t p = 0; p < parts.size(); ++p)
        if (i % rows < grids[p].rows) parts[p].run(i / rows, i % rows);
    finish_streaming();
  });
}

// A tap of one output row in the weight gradient: the pixel that column 0 sees, and its sums [C].
template <class T>
struct TapSums {
  const T* x;
  T* sums;
};

// Adds x * dy over output pixels [begin, end) of a row to the sums of kCount taps, kVecs vectors of channels from c on.
template <class T, int kCount, int kVecs, bool kWhole>
void correlate(const TapSums<T>* taps, int64_t x_step, const T* dy, int64_t C, int64_t begin, int64_t end, int64_t c,
               int64_t lanes) {
  using V = Vec<T>;
  const auto load = [lanes](const T* p) { return kWhole ? V::load(p) : V::load_n(p, lanes); };
  V sum[kCount][kVecs];
  const T* at[kCount];
#pragma GCC unroll 9
  for (int t = 0; t < kCount; ++t) {
    at[t] = taps[t].x + begin * x_step + c;
#pragma GCC unroll 2
    for (int v = 0; v < kVecs; ++v) sum[t][v] = load(taps[t].sums + c + v * V::kSize);
  }
  const T* d = dy + begin * C + c;
  for (int64_t offset = 0; begin < end; ++begin, d += C, offset += x_step) {
    V dv[kVecs];
#pragma GCC unroll 2
    for (int v = 0; v < kVecs; ++v) dv[v] = load(d + v * V::kSize);
#pragma GCC unroll 9
    for (int t = 0; t < kCount; ++t)
#pragma GCC unroll 2
      for (int v = 0; v < kVecs; ++v) sum[t][v] = fma(load(at[t] + offset + v * V::kSize), dv[v], sum[t][v]);
  }
#pragma GCC unroll 9
  for (int t = 0; t < kCount; ++t)
#pragma GCC unroll 2
    for (int v = 0; v < kVecs; ++v) {
      T* into = taps[t].sums + c + v * V::kSize;
      if (kWhole)
        sum[t][v].store(into);
      else
        sum[t][v].store_n(into, lanes);
    }
}

// Adds output rows' parts of the weight gradient to sums [taps, C]; pixels in groups, so that memory is walked in
// order.
template <class T>
class DepthwiseWeightRows {
 public:
  DepthwiseWeightRows(const Grid& grid, const T* x, const T* dy, T* sums)
      : grid_(grid), x_(x), dy_(dy), sums_(sums), segments_(segments(grid)), taps_(grid.taps.size()) {}

  void run(int64_t n, int64_t i) {
    const int64_t C = grid_.source_c;
    line_ = dy_ + grid_.target_pixel(n, i, 0);
    for (const Segment& s : segments_) {
      count_ = 0;
      for (int t : s.taps) {
        const Tap& tap = grid_.taps[t];
        const int64_t h = i * grid_.step_h + tap.dh;
        if (h >= 0 && h < grid_.source_h)
          taps_[count_++] = {x_ + grid_.source_row(n, h) + tap.dw * C, sums_ + tap.weight * C};
      }
      for (int64_t j = s.begin; j < s.end; j += kPixels) group(j, std::min(j + kPixels, s.end));
    }
  }

 private:
  using V = Vec<T>;
  static constexpr int64_t kPixels = 16;  // their rows of x and dy stay in the first-level cache
  static constexpr int kVecs = kVecRegisters == 32 ? 2 : 1;

  void group(int64_t begin, int64_t end) const {
    const int64_t C = grid_.source_c;
    int64_t c = 0;
    for (; c + kVecs * V::kSize <= C; c += kVecs * V::kSize) all_taps<kVecs, true>(begin, end, c, V::kSize);
    for (; c + V::kSize <= C; c += V::kSize) all_taps<1, true>(begin, end, c, V::kSize);
    if (c < C) all_taps<1, false>(begin, end, c, C - c);
  }

  template <int kWidth, bool kWhole>
  void all_taps(int64_t begin, int64_t end, int64_t c, int64_t lanes) const {
    const auto add = [&]<int kCount>(int t) {
      correlate<T, kCount, kWidth, kWhole>(taps_.data() + t, grid_.step_w * grid_.source_c, line_, grid_.source_c,
                                           begin, end, c, lanes);
    };
    int t = 0;
    for (; t + 9 <= count_; t += 9) add.template operator()<9>(t);
    for (; t + 3 <= count_; t += 3) add.template operator()<3>(t);
    for (; t < count_; ++t) add.template operator()<1>(t);
  }

  const Grid& grid_;
  const T *x_, *dy_;
  T* sums_;
  const std::vector<Segment> segments_;
  std::vector<TapSums<T>> taps_;  // count_ of them
  int count_ = 0;
  const T* line_ = nullptr;
};

// dw [C, taps] = the sum over parts, in order, of partial [parts, taps, C].
template <class T>
void sum_parts(T* partial, int64_t parts, int64_t taps, int64_t C, T* dw) {
  const int64_t size = taps * C;
  parallel_for(size, std::max<int64_t>(256, 65536 / parts), [&](int64_t begin, int64_t end) {
    for (int64_t i = 1; i < parts; ++i)
      for (int64_t k = begin; k < end; ++k) partial[k] += partial[i * size + k];
  });
  for (int64_t c = 0; c < C; ++c)
    for (int64_t t = 0; t < taps; ++t) dw[c * taps + t] = partial[t * C + c];
}

}  // namespace

template <class T>
void depthwise_forward(const ConvGeometry& g, const T* x, const T* w, T* y, const Epilogue<T>& epilogue,
                       const Prepared& prepared) {
  const auto weights = tap_major(w, g.C, g.R * g.S, prepared);
  convolve_depthwise<T>({forward_grid(g)}, x, static_cast<const T*>(weights->data()), y, epilogue);
}

template <class T>
void depthwise_grad_input(const ConvGeometry& g, const T* dy, const T* w, T* dx, const Prepared& prepared) {
  const auto weights = tap_major(w, g.C, g.R * g.S, prepared);
  convolve_depthwise<T>(grad_input_grids(g), dy, static_cast<const T*>(weights->data()), dx, {});
}

template <class T>
void depthwise_grad_weight(const ConvGeometry& g, const T* x, const T* dy, T* dw) {
  const Grid grid = forward_grid(g);
  const int64_t taps = g.R * g.S, size = taps * g.C, rows = g.N * g.P;
  const int64_t work = std::max<int64_t>(1, g.Q * size);
  // At most 32 partial sums, added in order.
  const int64_t grain = std::max<int64_t>({1, (rows + 31) / 32, 4 * kTaskOperations / work});
  const int64_t parts = std::max<int64_t>(1, (rows + grain - 1) / grain);  // without a row one, of zeros
  Scratch partial(parts * size * sizeof(T));
  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    T* sums = partial.as<T>() + begin / grain * size;
    std::fill_n(sums, size, T(0));
    DepthwiseWeightRows<T> part(grid, x, dy, sums);
    for (int64_t i = begin; i < end; ++i) part.run(i / g.P, i % g.P);
  });
  if (rows == 0) std::fill_n(partial.as<T>(), size, T(0));
  sum_parts(partial.as<T>(), parts, taps, g.C, dw);
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
