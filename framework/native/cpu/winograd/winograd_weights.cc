// Weight transforms: the stored weights are first laid out with the target channels in the lanes ("taps"), then
// transformed, all 36 positions at once or two rows of 6 at a time.
#include "cpu/winograd/winograd_weights.h"

#include "core/parallel.h"

namespace paddock::cpu {
namespace {

// to[c * to_row + k] = from[k * from_row + c] for a square of channels.
void transpose_square(const float* from, int64_t from_row, float* to, int64_t to_row) {
  V square[V::kSize];
#pragma GCC unroll 16
  for (int64_t i = 0; i < V::kSize; ++i) square[i] = V::load(from + i * from_row);
  transpose(square);
#pragma GCC unroll 16
  for (int64_t i = 0; i < V::kSize; ++i) square[i].store(to + i * to_row);
}

// The same where only `rows` rows of `lanes` channels exist; the rest of `to` is 0.
void transpose_part(const float* from, int64_t from_row, int64_t rows, int64_t lanes, float* to, int64_t to_row) {
  alignas(kVecBytes) float whole[V::kSize * V::kSize] = {}, turned[V::kSize * V::kSize];
  for (int64_t i = 0; i < rows; ++i) load_lanes(from + i * from_row, lanes).store(whole + i * V::kSize);
  transpose_square(whole, V::kSize, turned, V::kSize);
  for (int64_t i = 0; i < lanes; ++i) V::load(turned + i * V::kSize).store(to + i * to_row);
}

// Target channels are the outer dimension of w, so squares of channels are transposed.
void gather_straight(const PassWeights& p, int64_t k0, int64_t targets, int64_t c0, int64_t channels, float* taps) {
  constexpr int64_t W = V::kSize;
  const int64_t columns = padded(targets);
  for (int64_t k = 0; k < columns; k += W)
    for (int64_t tap = 0; tap < 9; ++tap)
      for (int64_t c = 0; c < channels; c += W) {
        const int64_t lanes = std::min(W, channels - c), rows = std::min(W, targets - k);
        const float* from = p.w + ((k0 + k) * 9 + tap) * p.C + c0 + c;
        float* to = taps + (c * 9 + tap) * columns + k;
        if (lanes == W && rows == W)
          transpose_square(from, 9 * p.C, to, 9 * columns);
        else
          transpose_part(from, 9 * p.C, rows, lanes, to, 9 * columns);
      }
}

void gather_turned(const PassWeights& p, int64_t k0, int64_t targets, int64_t c0, int64_t channels, float* taps) {
  const int64_t columns = padded(targets);
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t tap = 0; tap < 9; ++tap, taps += columns) {
      const float* from = p.w + ((c0 + c) * 9 + 8 - tap) * p.C + k0;
      for (int64_t k = 0; k < columns; k += V::kSize) load_lanes(from + k, targets - k).store(taps + k);
    }
}

// Calls run(taps of a vector, its place in position 0) for `channels` channels, from channel `at` of the panels on.
template <class Run>
PADDOCK_INLINE void for_vectors(const float* taps, int64_t channels, int64_t at, const WeightPanels& out, Run run) {
  for (int64_t k0 = 0; k0 < out.columns; k0 += kPanelWidth<float>) {
    const int64_t width = std::min(kPanelWidth<float>, out.columns - k0);
    float* panel = out.data + out.depth * k0 + at * width;
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t k = 0; k < width; k += V::kSize) run(taps + c * 9 * out.columns + k0 + k, panel + c * width + k);
  }
}

template <int kFirst, int kSecond>
void transform_pair(const float* taps, const WeightPanels& out) {
  const int64_t stride = out.stride(), step = out.columns;
  for_vectors(taps, out.depth, 0, out, [&](const float* from, float* to) {
    V first[3], second[3], u[6];
#pragma GCC unroll 3
    for (int s = 0; s < 3; ++s) {
      V column[3], all[6];
#pragma GCC unroll 3
      for (int r = 0; r < 3; ++r) column[r] = V::load(from + (r * 3 + s) * step);
      WeightTransform::run(column, all);
      first[s] = all[kFirst];
      second[s] = all[kSecond];
    }
    WeightTransform::run(first, u);
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) u[j].store(to + j * stride);
    WeightTransform::run(second, u);
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) u[j].store(to + (6 + j) * stride);
  });
}

void transform_all(const float* taps, int64_t channels, int64_t at, const WeightPanels& out) {
  const int64_t stride = out.stride(), step = out.columns;
  for_vectors(taps, channels, at, out, [&](const float* from, float* to) {
    transform_rectangle<WeightTransform, WeightTransform>(
        [&](int r, int s) { return V::load(from + (r * 3 + s) * step); },
        [&](int i, int j, V v) { v.store(to + (i * 6 + j) * stride); });
  });
}

}  // namespace

TapGroups::TapGroups(const PassWeights& weights, int64_t C, int64_t K, int64_t width, const Prepared& prepared)
    : weights_(weights), C_(C), K_(K), width_(width) {
  if (!prepared.keeps()) return;
  const std::string form = cat("winograd taps", weights.turned ? ", turned, " : ", ", width);
  const int64_t bytes = C * 9 * (groups() * width) * static_cast<int64_t>(sizeof(float));
  kept_ = prepared.block(form, bytes, [&](void* block) {
    parallel_for(groups(), 1, [&](int64_t group, int64_t) {
      gather(group, 0, C_, static_cast<float*>(block) + group * C_ * 9 * width_);
    });
  });
}

void TapGroups::gather(int64_t group, int64_t c0, int64_t channels, float* taps) const {
  (weights_.turned ? gather_turned : gather_straight)(weights_, first(group), targets(group), c0, channels, taps);
}

void TapGroups::transform(int64_t group, int64_t c0, int64_t channels, int64_t at, const WeightPanels& out) const {
  if (kept_) return transform_all(kept(group) + c0 * 9 * out.columns, channels, at, out);
  Scratch taps(static_cast<size_t>(channels * 9 * out.columns) * sizeof(float));
  gather(group, c0, channels, taps.as<float>());
  transform_all(taps.as<float>(), channels, at, out);
}

TapGroup::TapGroup(const TapGroups& all, int64_t group)
    : all_(all),
      group_(group),
      step_(9 * all.columns(group)),
      own_(all.kept_ ? 1 : static_cast<size_t>(all.C_ * step_) * sizeof(float)),
      taps_(all.kept_ ? all.kept(group) : own_.as<float>()) {}

void TapGroup::gather(int64_t c0, int64_t channels) {
  if (!all_.kept_) all_.gather(group_, c0, channels, taps_ + c0 * step_);
}

Prefetcher TapGroup::prefetcher(int64_t c0, int64_t channels) const {
  const PassWeights& p = all_.weights_;
  const int64_t k0 = all_.first(group_), targets = all_.targets(group_);
  if (all_.kept_) return {from(c0), step_, channels, step_};
  if (p.turned) return {p.w + c0 * 9 * p.C + k0, p.C, 9 * channels, targets};
  return {p.w + k0 * 9 * p.C + c0, p.C, 9 * targets, channels};
}

void transform_weights_pair(int pair, const float* taps, const WeightPanels& out) {
  using Transform = void (*)(const float*, const WeightPanels&);
  static constexpr Transform pairs[3] = {transform_pair<0, 5>, transform_pair<1, 2>, transform_pair<3, 4>};
  pairs[pair](taps, out);
}

}  // namespace paddock::cpu
