// Compiled without contraction: points have the same bits on all processors, as far as exp and log of libm have.
#include "image/heatmaps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/error.h"

namespace paddock::image {
namespace {

constexpr double kLeast = 1e-10;         // of a map before its logarithm, and of the curvature's determinant
constexpr double kMostSigma = 4096;      // cells
constexpr double kMostStride = 1 << 24;  // pixels
constexpr int64_t kReach = 2;            // cells to either side that the derivatives look at
constexpr int64_t kCells = 2 * kReach + 1;

// One side of the Gaussian from its middle on, [r + 1], whose whole sums to 1.
std::vector<double> gaussian(double sigma) {
  const auto radius = static_cast<int64_t>(std::nearbyint(2.5 * sigma));
  const double deviation = 0.3 * static_cast<double>(radius) + 0.5;
  std::vector<double> weights;
  double sum = 0;
  for (int64_t i = 0; i <= radius; ++i) {
    const double share = static_cast<double>(i) / deviation;
    weights.push_back(std::exp(-0.5 * share * share));
    sum += i ? 2 * weights.back() : weights.back();
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

struct Peak {
  int64_t y, x;
  float height;
};

// Whether `value` counts as larger: what is no number does, once.
bool above(float value, float best) { return value > best || (std::isnan(value) && !std::isnan(best)); }

std::vector<Peak> peaks_of(const Heatmaps& maps) {
  std::vector<Peak> peaks(static_cast<size_t>(maps.count));
  for (size_t k = 0; k < peaks.size(); ++k) peaks[k] = {0, 0, maps.values[k]};
  const float* value = maps.values;
  for (int64_t y = 0; y < maps.height; ++y)
    for (int64_t x = 0; x < maps.width; ++x)
      for (Peak& peak : peaks) {
        if (above(*value, peak.height)) peak = {y, x, *value};
        ++value;
      }
  return peaks;
}

using Window = std::array<std::array<double, kCells>, kCells>;

// Logarithms of a smoothed map around a cell that is two or more cells away from the border.
Window logarithms(const Heatmaps& maps, int64_t map, const Peak& at, const std::vector<double>& weights) {
  const int64_t radius = static_cast<int64_t>(weights.size()) - 1;
  Window sums{};
  const int64_t first = std::max<int64_t>(at.y - kReach - radius, 0);
  const int64_t last = std::min(at.y + kReach + radius, maps.height - 1);
  for (int64_t row = first; row <= last; ++row) {
    const float* line = maps.values + row * maps.width * maps.count + map;
    std::array<double, kCells> across{};
    for (int64_t j = 0; j < kCells; ++j) {
      const int64_t middle = at.x - kReach + j;
      const int64_t begin = std::max<int64_t>(middle - radius, 0), end = std::min(middle + radius, maps.width - 1);
      for (int64_t column = begin; column <= end; ++column)
        across[static_cast<size_t>(j)] +=
            weights[static_cast<size_t>(std::abs(column - middle))] * static_cast<double>(line[column * maps.count]);
    }
    for (int64_t i = 0; i < kCells; ++i) {
      const int64_t away = std::abs(row - (at.y - kReach + i));
      if (away > radius) continue;
      for (size_t j = 0; j < kCells; ++j)
        sums[static_cast<size_t>(i)][j] += weights[static_cast<size_t>(away)] * across[j];
    }
  }
  for (auto& row : sums)
    for (double& sum : row) sum = std::log(sum < kLeast ? kLeast : sum);  // what is no number stays none
  return sums;
}

// From the middle of the window to where a parabola through it is largest, (x, y).
std::array<double, 2> step(const Window& logs) {
  const auto at = [&](int dy, int dx) {
    return logs[static_cast<size_t>(kReach + dy)][static_cast<size_t>(kReach + dx)];
  };
  const double dx = 0.5 * (at(0, 1) - at(0, -1)), dy = 0.5 * (at(1, 0) - at(-1, 0));
  const double dxx = 0.25 * (at(0, 2) - 2 * at(0, 0) + at(0, -2)), dyy = 0.25 * (at(2, 0) - 2 * at(0, 0) + at(-2, 0));
  const double dxy = 0.25 * (at(1, 1) - at(-1, 1) - at(1, -1) + at(-1, -1));
  const double det = dxx * dyy - dxy * dxy;
  if (!(det > kLeast) || !std::isfinite(det)) return {0, 0};
  const double x = (dxy * dy - dyy * dx) / det, y = (dxy * dx - dxx * dy) / det;
  if (!std::isfinite(x) || !std::isfinite(y)) return {0, 0};
  return {std::clamp(x, -1.0, 1.0), std::clamp(y, -1.0, 1.0)};
}

}  // namespace

void decode_heatmaps(const Heatmaps& maps, double stride, double sigma, float* points, float* scores) {
  if (!(stride > 0) || !(stride <= kMostStride) || !(sigma > 0) || !(sigma <= kMostSigma))
    fail(ErrorKind::kAttribute, "decode_heatmaps: stride is ", stride, " and sigma ", sigma,
         "; both are above 0, the stride is at most 2^24 pixels and sigma ", kMostSigma, " cells");
  if (maps.height < 1 || maps.width < 1)
    fail(ErrorKind::kShape, "decode_heatmaps: maps are ", maps.height, "x", maps.width,
         " (height x width); they need a cell");
  const std::vector<double> weights = gaussian(sigma);
  const auto peaks = peaks_of(maps);
  for (size_t k = 0; k < peaks.size(); ++k) {
    const Peak& peak = peaks[k];
    std::array<double, 2> moved{};
    if (peak.x >= kReach && peak.x < maps.width - kReach && peak.y >= kReach && peak.y < maps.height - kReach)
      moved = step(logarithms(maps, static_cast<int64_t>(k), peak, weights));
    points[2 * k] = static_cast<float>((static_cast<double>(peak.x) + moved[0] + 0.5) * stride);
    points[2 * k + 1] = static_cast<float>((static_cast<double>(peak.y) + moved[1] + 0.5) * stride);
    scores[k] = peak.height;
  }
}

}  // namespace paddock::image
