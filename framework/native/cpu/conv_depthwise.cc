// Depthwise convolution (one channel a group): a vector is a stretch of channels, so nothing is packed but weights.
#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "core/storage.h"
#include "cpu/conv_grid.h"
#include "cpu/gemm_tile.h"
#include "cpu/stream.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kTaskOperations = 1 << 17;  // multiply-adds of a task
constexpr int kWideVecs = kVecRegisters == 32 ? 4 : 2;

// weights [C, taps] -> [taps, C], so that a tap's channels are contiguous.
template <class T>
std::shared_ptr<Storage> tap_major(const T* w, int64_t C, int64_t taps, const Prepared& prepared) {
  return prepared.block("depthwise taps", C * taps * static_cast<int64_t>(sizeof(T)), [&](void* block) {
    T* out = static_cast<T*>(block);
    for (int64_t c = 0; c < C; ++c)
      for (int64_t t = 0; t < taps; ++t) out[t * C + c] = w[c * taps + t];
  });
}

// Columns [begin, end) of a grid that the same taps reach: indices into grid.taps.
struct Segment {
  int64_t begin, end;
  std::vector<int> taps;
};

// A row of the grid from left to right; near the borders and with wide dilations fewer taps lie inside the image.
std::vector<Segment> segments(const Grid& grid) {
  std::vector<Range> inside_at;
  std::vector<int64_t> cuts{0, grid.columns};
  for (const Tap& tap : grid.taps) {
    const Range in = inside(grid.columns, grid.step_w, tap.dw, grid.source_w);
    inside_at.push_back(in);
    cuts.insert(cuts.end(), {in.begin, in.end});
  }
  std::sort(cuts.begin(), cuts.end());
  std::vector<Segment> found;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    if (cuts[i] == cuts[i + 1]) continue;
    Segment s{cuts[i], cuts[i + 1], {}};
    for (size_t t = 0; t < inside_at.size(); ++t)
      if (inside_at[t].begin <= s.begin && s.end <= inside_at[t].end) s.taps.push_back(static_cast<int>(t));
    found.push_back(std::move(s));
  }
  return found;
}

// A tap of one grid row: its source pixel for column 0, its weights.
template <class T>
struct RowTap {
  const T* source;
  const T* weight;
};

// Rows of one grid: pixels in groups, all channels of a group before the next, so that memory is walked in order.
template <class T>
class DepthwiseRows {
 public:
  DepthwiseRows(const Grid& grid, const T* source, const T* weights, T* target, const Epilogue<T>& epilogue)
      : grid_(grid),
        source_(source),
        weights_(weights),
        target_(target),
        epilogue_(epilogue),
        stream_(worth_streaming(target, grid.target_c * static_cast<int64_t>(sizeof(T)), grid.pixels())),
        segments_(segments(grid)),
        taps_(grid.taps.size()) {}

  void run(int64_t n, int64_t i) {
    line_ = target_ + grid_.target_pixel(n, i, 0);
    for (const Segment& s : segments_) {
      count_ = 0;
      for (int t : s.taps) {
        const Tap& tap = grid_.taps[t];
        const int64_t h = i * grid_.step_h + tap.dh;
        if (h >= 0 && h < grid_.source_h)
          taps_[count_++] = {source_ + grid_.source_row(n, h) + tap.dw * grid_.source_c,
                             weights_ + tap.weight * grid_.source_c};
      }
      int64_t j = s.begin;
      for (; j + 8 <= s.end; j += 8) group<8>(j);
      for (; j + 4 <= s.end; j += 4) group<4>(j);
      for (; j < s.end; ++j) group<1>(j);
    }
  }

 private:
  using V = Vec<T>;

  template <int kCount>
  void group(int64_t j) const {
    constexpr int kHalf = kCount == 8 ? 4 : kCount;
    const int64_t C = grid_.source_c;
    int64_t c = 0;
    for (; c + kWideVecs * V::kSize <= C; c += kWideVecs * V::kSize)
      for (int h = 0; h < kCount; h += kHalf) pixels<kHalf, kWideVecs, true>(c, j + h, V::kSize);
    if constexpr (kWideVecs == 4)
      for (; c + 2 * V::kSize <= C; c += 2 * V::kSize) pixels<kCount, 2, true>(c, j, V::kSize);
    for (; c + V::kSize <= C; c += V::kSize) pixels<kCount, 1, true>(c, j, V::kSize);
    if (c < C) pixels<kCount, 1, false>(c, j, C - c);
  }

  template <bool kWhole>
  static PADDOCK_INLINE V load(const T* p, int64_t lanes) {
    return kWhole ? V::load(p) : V::load_n(p, lanes);
  }

  template <int kCount, int kVecs, bool kWhole>
  void pixels(int64_t c, int64_t j, int64_t lanes) const {
    V sum[kCount][kVecs];
#pragma GCC unroll 8
    for (int p = 0; p < kCount; ++p)
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) sum[p][v] = V::zero();
    const int64_t step = grid_.step_w * grid_.source_c;
    for (int t = 0; t < count_; ++t) {
      const T *x = taps_[t].source + j * step + c, *w = taps_[t].weight + c;
      V weight[kVecs];
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) weight[v] = load<kWhole>(w + v * V::kSize, lanes);
#pragma GCC unroll 8
      for (int p = 0; p < kCount; ++p)
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v)
          sum[p][v] = fma(weight[v], load<kWhole>(x + p * step + v * V::kSize, lanes), sum[p][v]);
    }
    T* y = line_ + j * grid_.out_step_w * grid_.target_c + c;
    if (!epilogue_.empty()) finish_all<kCount, kVecs, kWhole>(sum, c, y, lanes);
#pragma GCC unroll 8
    for (int p = 0; p < kCount; ++p)
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        T* to = y + p * grid_.out_step_w * grid_.target_c + v * V::kSize;
        if (!kWhole)
          sum[p][v].store_n(to, lanes);
        else if (stream_)
          stream(sum[p][v], to);
        else
          sum[p][v].store(to);
      }
  }

  // Adds bias and residual and applies the activation; `y` is where the first of the sums goes.
  template <int kCount, int kVecs, bool kWhole>
  PADDOCK_INLINE void finish_all(V (&sum)[kCount][kVecs], int64_t c, const T* y, int64_t lanes) const {
    if (epilogue_.bias) {
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        const V bias = load<kWhole>(epilogue_.bias + c + v * V::kSize, lanes);
#pragma GCC unroll 8
        for (int p = 0; p < kCount; ++p) sum[p][v] += bias;
      }
    }
    if (epilogue_.residual && !epilogue_.residual_last) add_residual<kCount, kVecs, kWhole>(sum, y, lanes);
    with_activation(epilogue_, [&](auto activation) __attribute__((always_inline)) {
#pragma GCC unroll 8
      for (int p = 0; p < kCount; ++p)
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v) sum[p][v] = activation(sum[p][v]);
    });
    if (epilogue_.residual && epilogue_.residual_last) add_residual<kCount, kVecs, kWhole>(sum, y, lanes);
  }

  template <int kCount, int kVecs, bool kWhole>
  PADDOCK_INLINE void add_residual(V (&sum)[kCount][kVecs], const T* y, int64_t lanes) const {
    const T* r = epilogue_.residual + (y - target_);
#pragma GCC unroll 8
    for (int p = 0; p < kCount; ++p)
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v)
        sum[p][v] += load<kWhole>(r + p * grid_.out_step_w * grid_.target_c + v * V::kSize, lanes);
  }

  const Grid& grid_;
  const T* source_;
  const T* weights_;
  T* target_;
  const Epilogue<T>& epilogue_;
  const bool stream_;
  const std::vector<Segment> segments_;
  std::vector<RowTap<T>> taps_;  // count_ of them
  int count_ = 0;
  T* line_ = nullptr;
};

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
  const int64_t parts = (rows + grain - 1) / grain;
  Scratch partial(std::max<int64_t>(1, parts * size) * sizeof(T));
  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    T* sums = partial.as<T>() + begin / grain * size;
    std::fill_n(sums, size, T(0));
    DepthwiseWeightRows<T> part(grid, x, dy, sums);
    for (int64_t i = begin; i < end; ++i) part.run(i / g.P, i % g.P);
  });
  if (parts == 0) std::fill_n(partial.as<T>(), size, T(0));
  sum_parts(partial.as<T>(), std::max<int64_t>(parts, 1), taps, g.C, dw);
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
