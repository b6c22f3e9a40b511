// Kernels of ops/regions.cc. A bin's points along both axes are merged into one weight a pixel, which a sum over whole
// pixels [C] then uses: points that share pixels cost nothing more.
#include "cpu/boxes/regions.h"

namespace paddock::cpu {
namespace {

// One region: every bin of out [size, size, C] from a map's image.
template <class T>
void read_region(const Regions& g, const AxisTaps<T>& rows, const AxisTaps<T>& columns, const T* image, int64_t width,
                 int64_t channels, std::vector<WeightedElement<T>>& taps, T* out) {
  for (int64_t p = 0; p < g.size; ++p)
    for (int64_t q = 0; q < g.size; ++q, out += channels) {
      taps.clear();
      for (int64_t i = rows.first[p]; i < rows.first[p + 1]; ++i)
        for (int64_t j = columns.first[q]; j < columns.first[q + 1]; ++j)
          taps.push_back({(rows.taps[i].at * width + columns.taps[j].at) * channels,
                          rows.taps[i].weight * columns.taps[j].weight});
      weighted_sum<false>(image, taps.data(), static_cast<int64_t>(taps.size()), out, channels);
    }
}

PADDOCK_CPU_KERNEL(roi_align) {
  if (c.out(0).numel() == 0) return;
  const int first_map = 2;
  const Regions g(c, c.input_count() - first_map);
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* boxes = c.in("boxes").data<Box<T>>();
    const int64_t channels = c.out(0).shape()[3], elements = g.size * g.size * channels;
    T* y = c.out(0).data<T>();
    parallel_for(g.images * g.each, row_grain(elements * 8), [&](int64_t begin, int64_t end) {
      AxisTaps<T> rows, columns;
      std::vector<WeightedElement<T>> taps;
      for (int64_t i = begin; i < end; ++i) {
        const Region region = g.of(boxes, i / g.each, i % g.each);
        T* out = y + i * elements;
        const Tensor& map = c.in(first_map + region.level);
        const int64_t height = map.shape()[1], width = map.shape()[2];
        if (!region.counts || height == 0 || width == 0) {
          std::fill(out, out + elements, T(0));
          continue;
        }
        rows.build(region.y, region.height, g.size, g.sampling, height);
        columns.build(region.x, region.width, g.size, g.sampling, width);
        const T* image = map.data<T>() + i / g.each * height * width * channels;
        read_region(g, rows, columns, image, width, channels, taps, out);
      }
    });
  });
}

// Rows [begin, end) of an image of a map: what one task of the gradient owns.
struct Band {
  int level;
  int64_t image, begin, end;
};

// Elements of a band: small enough for a core's cache, large enough that few regions lie in many.
constexpr int64_t kBandElements = int64_t{1} << 18;

std::vector<Band> bands_of(const KernelContext& c) {
  std::vector<Band> bands;
  for (int level = 0; level < c.output_count(); ++level) {
    const Shape& map = c.out(level).shape();
    const int64_t rows = std::max<int64_t>(1, kBandElements / std::max<int64_t>(1, map[2] * map[3]));
    for (int64_t n = 0; n < map[0]; ++n)
      for (int64_t row = 0; row < map[1]; row += rows) bands.push_back({level, n, row, std::min(map[1], row + rows)});
  }
  return bands;
}

template <class T>
class BandGradient {
 public:
  BandGradient(const Regions& g, const std::vector<Region>& regions, const T* dy, int64_t channels)
      : g_(g), regions_(regions), dy_(dy), channels_(channels), sums_(g.size * channels) {}

  // image: the first element of the band's image; height and width are the map's.
  void run(const Band& band, T* image, int64_t height, int64_t width) {
    std::fill(image + band.begin * width * channels_, image + band.end * width * channels_, T(0));
    for (int64_t r = band.image * g_.each; r < (band.image + 1) * g_.each; ++r) {
      const Region& region = regions_[r];
      if (!region.counts || region.level != band.level) continue;
      // Points reach from y to y + height, and each reads the pixels next to it; those outside go to the border.
      if (region.y > static_cast<double>(band.end) && band.end < height) continue;
      if (region.y + region.height < static_cast<double>(band.begin - 1)) continue;
      add(band, region, dy_ + r * g_.size * g_.size * channels_, image, height, width);
    }
  }

 private:
  void add(const Band& band, const Region& region, const T* dy, T* image, int64_t height, int64_t width) {
    bins_.build(region.y, region.height, g_.size, g_.sampling, height);
    rows_.invert(bins_);
    const int64_t begin = std::max(band.begin, rows_.begin), end = std::min(band.end, rows_.end);
    if (begin >= end) return;
    bins_.build(region.x, region.width, g_.size, g_.sampling, width);
    columns_.invert(bins_);
    const int64_t row_size = g_.size * channels_;
    for (WeightedElement<T>& tap : rows_.taps) tap.at *= row_size;
    for (WeightedElement<T>& tap : columns_.taps) tap.at *= channels_;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i - rows_.begin, from = rows_.first[row], readers = rows_.first[row + 1] - from;
      if (readers == 0) continue;
      weighted_sum<false>(dy, rows_.taps.data() + from, readers, sums_.data(), row_size);
      for (int64_t j = columns_.begin; j < columns_.end; ++j) {
        const int64_t k = columns_.first[j - columns_.begin], n = columns_.first[j - columns_.begin + 1] - k;
        if (n > 0)
          weighted_sum<true>(sums_.data(), columns_.taps.data() + k, n, image + (i * width + j) * channels_, channels_);
      }
    }
  }

  const Regions& g_;
  const std::vector<Region>& regions_;
  const T* dy_;
  int64_t channels_;
  std::vector<T> sums_;  // [size, C]: the rows of dy that read one row of the map
  AxisTaps<T> bins_, rows_, columns_;
};

PADDOCK_CPU_KERNEL(roi_align_grad) {
  const Regions g(c, c.output_count());
  dispatch_float(c.in("dy").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* boxes = c.in("boxes").data<Box<T>>();
    std::vector<Region> regions;
    for (int64_t n = 0; n < g.images; ++n)
      for (int64_t r = 0; r < g.each; ++r) regions.push_back(g.of(boxes, n, r));
    const std::vector<Band> bands = bands_of(c);
    const int64_t channels = c.in("dy").shape()[3];
    parallel_for(static_cast<int64_t>(bands.size()), 1, [&](int64_t begin, int64_t end) {
      BandGradient<T> gradient(g, regions, c.in("dy").data<T>(), channels);
      for (int64_t i = begin; i < end; ++i) {
        const Shape& map = c.out(bands[i].level).shape();
        T* image = c.out(bands[i].level).data<T>() + bands[i].image * map[1] * map[2] * channels;
        gradient.run(bands[i], image, map[1], map[2]);
      }
    });
  });
}

}  // namespace
}  // namespace paddock::cpu
