// Rows of a depthwise convolution (one channel a group): a vector is a stretch of channels, so nothing is packed but
// the weights. They go to an image, or a part of one to where the next operator reads it.
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "core/storage.h"
#include "cpu/conv/conv_grid.h"
#include "cpu/gemm/gemm_tile.h"
#include "cpu/vec/stream.h"

namespace paddock::cpu {

inline constexpr int kWideVecs = kVecRegisters == 32 ? 4 : 2;

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
inline std::vector<Segment> segments(const Grid& grid) {
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
// `target` may be null where all rows go elsewhere.
template <class T>
class DepthwiseRows {
 public:
  DepthwiseRows(const Grid& grid, const T* source, const T* weights, T* target, const Epilogue<T>& epilogue)
      : grid_(grid),
        source_(source),
        weights_(weights),
        target_(target),
        epilogue_(epilogue),
        stream_(target && worth_streaming(target, grid.target_c * static_cast<int64_t>(sizeof(T)), grid.pixels())),
        segments_(segments(grid)),
        taps_(grid.taps.size()) {}

  void run(int64_t n, int64_t i) { run(n, i, {0, grid_.columns}, target_ + grid_.target_pixel(n, i, 0)); }

  // Columns `part` of row i of image n, of which `first` is where the first one goes.
  void run(int64_t n, int64_t i, Range part, T* first) {
    const int64_t step = grid_.out_step_w * grid_.target_c;
    for (const Segment& s : segments_) {
      const Range columns{std::max(s.begin, part.begin), std::min(s.end, part.end)};
      if (columns.begin >= columns.end) continue;
      count_ = 0;
      for (int t : s.taps) {
        const Tap& tap = grid_.taps[t];
        const int64_t h = i * grid_.step_h + tap.dh;
        if (h >= 0 && h < grid_.source_h)
          taps_[count_++] = {source_ + grid_.source_row(n, h) + tap.dw * grid_.source_c,
                             weights_ + tap.weight * grid_.source_c};
      }
      int64_t j = columns.begin;
      const auto at = [&] { return first + (j - part.begin) * step; };
      for (; j + 8 <= columns.end; j += 8) group<8>(j, at());
      for (; j + 4 <= columns.end; j += 4) group<4>(j, at());
      for (; j < columns.end; ++j) group<1>(j, at());
    }
  }

 private:
  using V = Vec<T>;

  template <int kCount>
  void group(int64_t j, T* y) const {
    constexpr int kHalf = kCount == 8 ? 4 : kCount;
    const int64_t C = grid_.source_c;
    int64_t c = 0;
    for (; c + kWideVecs * V::kSize <= C; c += kWideVecs * V::kSize)
      for (int h = 0; h < kCount; h += kHalf)
        pixels<kHalf, kWideVecs, true>(c, j + h, y + h * grid_.out_step_w * grid_.target_c + c, V::kSize);
    if constexpr (kWideVecs == 4)
      for (; c + 2 * V::kSize <= C; c += 2 * V::kSize) pixels<kCount, 2, true>(c, j, y + c, V::kSize);
    for (; c + V::kSize <= C; c += V::kSize) pixels<kCount, 1, true>(c, j, y + c, V::kSize);
    if (c < C) pixels<kCount, 1, false>(c, j, y + c, C - c);
  }

  template <bool kWhole>
  static PADDOCK_INLINE V load(const T* p, int64_t lanes) {
    return kWhole ? V::load(p) : V::load_n(p, lanes);
  }

  template <int kCount, int kVecs, bool kWhole>
  void pixels(int64_t c, int64_t j, T* y, int64_t lanes) const {
    V sum[kCount][kVecs];
#pragma GCC unroll 8
    for (int p = 0; p < kCount; ++p)
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) sum[p][v] = V::zero();
    const int64_t step = grid_.step_w * grid_.source_c;
    for (int t = 0; t < count_; ++t) {
      const T *x = taps_[t].source + j * step + c, *w = taps_[t].weight + c;
      // So many streams are more than processors follow by themselves. (Not tried with wider vectors.)
      if constexpr (kWhole && kCount > 1 && kVecRegisters == 16) {
        __builtin_prefetch(x + 2 * kVecs * V::kSize);
        __builtin_prefetch(x + (kCount - 1) * step + 2 * kVecs * V::kSize);
      }
      V weight[kVecs];
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) weight[v] = load<kWhole>(w + v * V::kSize, lanes);
#pragma GCC unroll 8
      for (int p = 0; p < kCount; ++p)
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v)
          sum[p][v] = fma(weight[v], load<kWhole>(x + p * step + v * V::kSize, lanes), sum[p][v]);
    }
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
};

}  // namespace paddock::cpu
