// The weights of a Winograd pass, in groups of target channels: as taps (the nine weights of each pair of channels, the
// target channels in the lanes) and transformed, as packed panels.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>

#include "core/storage.h"
#include "cpu/winograd/winograd.h"
#include "cpu/winograd/winograd_product.h"
#include "op/prepared.h"

namespace paddock::cpu {

// The weights as stored, [K, 3, 3, C], and how a pass uses them.
struct PassWeights {
  const float* w;
  int64_t C;
  bool turned;  // data gradient: the sum runs over K, and the kernel is turned by half a circle
};

// Panels of transformed weights for `depth` source and `columns` target channels: [position][panel][channel][column].
struct WeightPanels {
  float* data;
  int64_t depth, columns;  // columns is a multiple of the vector

  // An odd number of cache lines, so that the positions of one weight fall into different cache sets.
  int64_t stride() const { return ((depth * columns + 15) / 16 | 1) * 16; }
  size_t bytes(int64_t positions) const { return static_cast<size_t>(positions * stride()) * sizeof(float); }
  const float* panel(int64_t position, int64_t column) const { return data + position * stride() + depth * column; }
};

// The taps of all groups: kept as a block [group][source channel][9][target channel] for weights that never change,
// gathered where they are used for the rest.
class TapGroups {
 public:
  // A pass with C source and K target channels in groups of `width`, a multiple of every vector.
  TapGroups(const PassWeights& weights, int64_t C, int64_t K, int64_t width, const Prepared& prepared);

  int64_t groups() const { return ceil_div(K_, width_); }
  int64_t first(int64_t group) const { return group * width_; }
  int64_t targets(int64_t group) const { return std::min(width_, K_ - first(group)); }
  int64_t columns(int64_t group) const { return padded(targets(group)); }  // targets, as stored

  // Transforms source channels [c0, c0 + channels) of a group to all positions of `out`, from its channel `at` on.
  void transform(int64_t group, int64_t c0, int64_t channels, int64_t at, const WeightPanels& out) const;

 private:
  friend class TapGroup;
  float* kept(int64_t group) const {
    return kept_ ? static_cast<float*>(kept_->data()) + group * C_ * 9 * width_ : nullptr;
  }
  void gather(int64_t group, int64_t c0, int64_t channels, float* taps) const;

  PassWeights weights_;
  int64_t C_, K_, width_;
  std::shared_ptr<Storage> kept_;
};

// The taps of one group, [source channel][9][target channel].
class TapGroup {
 public:
  TapGroup(const TapGroups& all, int64_t group);

  // Makes source channels [c0, c0 + channels) available.
  void gather(int64_t c0, int64_t channels);
  const float* from(int64_t channel) const { return taps_ + channel * step_; }
  // What gather and transform of these channels will read first.
  Prefetcher prefetcher(int64_t c0, int64_t channels) const;

 private:
  const TapGroups& all_;
  int64_t group_, step_;
  Scratch own_;
  float* taps_;
};

// The two rows of positions of a pair, one after the other, as positions 0 to 11 of `out`; the rows of a pair share
// most of their arithmetic. `taps` starts with the first channel of the panels.
inline constexpr int kRowPairs[3][2] = {{0, 5}, {1, 2}, {3, 4}};
void transform_weights_pair(int pair, const float* taps, const WeightPanels& out);

}  // namespace paddock::cpu
