// Where regions of interest lie on feature maps, and which pixels their bins read.
#pragma once
#include <cmath>

#include "cpu/boxes/box.h"
#include "cpu/image/weighted_sum.h"
#include "cpu/kernel.h"

namespace paddock::cpu {

// What the bins of one region read along one axis: bin b the pixels taps[first[b]] ... taps[first[b + 1] - 1].
template <class T>
struct AxisTaps {
  std::vector<WeightedElement<T>> taps;
  std::vector<int64_t> first;

  // Bins over [start, start + extent) of `pixels`, with `sampling` points each, 0 for as many as they have pixels.
  void build(double start, double extent, int64_t bins, int64_t sampling, int64_t pixels) {
    constexpr double kMostPoints = 1024;
    const double bin = extent / static_cast<double>(bins);
    const auto points = sampling > 0 ? sampling : static_cast<int64_t>(std::clamp(std::ceil(bin), 1.0, kMostPoints));
    const double share = 1 / static_cast<double>(points);
    taps.clear();
    first.assign(1, 0);
    for (int64_t b = 0; b < bins; ++b) {
      for (int64_t i = 0; i < points; ++i) {
        double at = start + static_cast<double>(b) * bin + (static_cast<double>(i) + 0.5) * bin * share;
        if (!(at >= -1 && at <= static_cast<double>(pixels))) continue;
        at = std::clamp(at, 0.0, static_cast<double>(pixels - 1));
        const auto low = static_cast<int64_t>(at);
        add(low, share * (1 - (at - static_cast<double>(low))));
        add(low + 1, share * (at - static_cast<double>(low)));
      }
      first.push_back(static_cast<int64_t>(taps.size()));
    }
  }

  // The same the other way round: which bins read each pixel, a list for every pixel of [begin, end).
  void invert(const AxisTaps& other) {
    begin = end = 0;
    taps.clear();
    first.assign(1, 0);
    if (other.taps.empty()) return;
    begin = other.taps.front().at, end = other.taps.back().at + 1;
    for (const WeightedElement<T>& tap : other.taps) begin = std::min(begin, tap.at), end = std::max(end, tap.at + 1);
    first.assign(end - begin + 1, 0);
    for (const WeightedElement<T>& tap : other.taps) ++first[tap.at - begin + 1];
    for (size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
    taps.resize(other.taps.size());
    std::vector<int64_t>& next = next_;
    next.assign(first.begin(), first.end());
    for (size_t b = 0; b + 1 < other.first.size(); ++b)
      for (int64_t i = other.first[b]; i < other.first[b + 1]; ++i)
        taps[next[other.taps[i].at - begin]++] = {static_cast<int64_t>(b), other.taps[i].weight};
  }

  int64_t begin = 0, end = 0;  // the pixels of an inverted one

 private:
  // Adds to a pixel of the running bin; points come in order, so it is one of the last two, or a new one.
  void add(int64_t pixel, double weight) {
    if (weight == 0) return;
    const auto least = static_cast<size_t>(first.back());
    for (size_t back = 1; back <= 2 && least + back <= taps.size(); ++back)
      if (taps[taps.size() - back].at == pixel) {
        taps[taps.size() - back].weight += static_cast<T>(weight);
        return;
      }
    taps.push_back({pixel, static_cast<T>(weight)});
  }

  std::vector<int64_t> next_;
};

// A region in pixels of the map that it is read from.
struct Region {
  bool counts = false;
  int level = 0;
  double y = 0, x = 0, height = 0, width = 0;
};

// The attributes of roi_align, and which rows count.
class Regions {
 public:
  Regions(const KernelContext& c, int levels)
      : size(c.attr<int64_t>("size")),
        sampling(c.attr<int64_t>("sampling")),
        images(c.in("boxes").shape()[0]),
        each(c.in("boxes").shape()[1]),
        levels_(levels),
        strides_(c.attr<std::vector<double>>("strides")),
        aligned_(c.attr<bool>("aligned")),
        canonical_size_(c.attr<double>("canonical_size")),
        canonical_level_(static_cast<double>(c.attr<int64_t>("canonical_level"))) {
    counts_.assign(images, each);
    if (!c.has("count")) return;
    dispatch_index(c.in("count").dtype(), [&](auto tag) {
      const auto* given = c.in("count").template data<typename decltype(tag)::type>();
      for (int64_t n = 0; n < images; ++n) counts_[n] = given[n];
    });
  }

  // Row r of image n.
  template <class T>
  Region of(const Box<T>* boxes, int64_t n, int64_t r) const {
    const Box<T>& box = boxes[n * each + r];
    Region region;
    const double width = static_cast<double>(box.x2) - static_cast<double>(box.x1);
    const double height = static_cast<double>(box.y2) - static_cast<double>(box.y1);
    if (r >= counts_[n] || !box.has_area() || !std::isfinite(width * height)) return region;
    const double wanted = canonical_level_ + std::log2(std::sqrt(width * height) / canonical_size_) + 1e-6;
    region.level = static_cast<int>(std::clamp(std::floor(wanted), 0.0, static_cast<double>(levels_ - 1)));
    const double scale = 1 / strides_[region.level], shift = aligned_ ? 0.5 : 0, least = aligned_ ? 0 : 1;
    region.counts = true;
    region.x = static_cast<double>(box.x1) * scale - shift;
    region.y = static_cast<double>(box.y1) * scale - shift;
    region.width = std::max(width * scale, least);
    region.height = std::max(height * scale, least);
    return region;
  }

  const int64_t size, sampling, images, each;

 private:
  int levels_;
  std::vector<double> strides_;
  bool aligned_;
  double canonical_size_, canonical_level_;
  std::vector<int64_t> counts_;
};

}  // namespace paddock::cpu
