// Kernels of ops/masks.cc.
#include <cmath>

#include "cpu/boxes/box.h"
#include "cpu/kernel.h"
#include "cpu/sequence/offsets.h"

namespace paddock::cpu {
namespace {

// Run lengths as places: where each run ends, column by column. A negative run counts as empty.
std::vector<int64_t> ends_of(const int32_t* runs, const CheckedOffsets& offsets) {
  std::vector<int64_t> ends;
  for (int64_t m = 0; m < offsets.sequences(); ++m) {
    int64_t at = 0;
    for (int64_t i = offsets.begin(m); i < offsets.end(m); ++i) {
      at += std::max(0, runs[i]);
      ends.push_back(at);
    }
  }
  return ends;
}

// A mask of height x width: its runs' ends, of which the first is outside.
struct Runs {
  const int64_t *begin, *end;
  int64_t height, width;
};

// Cuts one region out of a mask.
class MaskCutter {
 public:
  explicit MaskCutter(int64_t size) : size_(size), edges_(size + 1), below_(size + 1), area_(size * size) {}

  template <class T>
  void run(const Runs& mask, const Box<T>& box, T* out) {
    std::fill(out, out + size_ * size_, T(0));
    const double x = box.x1, y = box.y1, width = box.x2 - x, height = box.y2 - y;
    if (!box.has_area() || !std::isfinite(width * height)) return;
    const double bins = static_cast<double>(size_), bin_width = width / bins, bin_height = height / bins;
    for (int64_t p = 0; p <= size_; ++p)
      edges_[p] = std::clamp(y + static_cast<double>(p) * bin_height, 0.0, static_cast<double>(mask.height));
    std::fill(area_.begin(), area_.end(), 0.0);
    // Columns that the runs do not reach are outside of the mask.
    const int64_t total = mask.begin == mask.end ? 0 : mask.end[-1];
    const double most = static_cast<double>(std::min(mask.width, (total - 1) / mask.height + (total > 0)));
    const auto first = static_cast<int64_t>(std::floor(std::clamp(x, 0.0, most)));
    const auto last = static_cast<int64_t>(std::ceil(std::clamp(x + width, 0.0, most)));
    const int64_t* run = std::upper_bound(mask.begin, mask.end, first * mask.height);
    for (int64_t column = first; column < last; ++column) {
      run = cover(mask, column, run);
      const double left = static_cast<double>(column) - x;
      const auto q = static_cast<int64_t>(std::clamp(std::floor(left / bin_width), 0.0, bins - 1));
      for (int64_t bin = q; bin < size_ && static_cast<double>(bin) * bin_width < left + 1; ++bin) {
        const double from = std::max(left, static_cast<double>(bin) * bin_width);
        const double share = std::min(left + 1, static_cast<double>(bin + 1) * bin_width) - from;
        if (share > 0)
          for (int64_t p = 0; p < size_; ++p) area_[p * size_ + bin] += share * (below_[p + 1] - below_[p]);
      }
    }
    const double least = bin_width * bin_height / 2;
    for (int64_t i = 0; i < size_ * size_; ++i) out[i] = area_[i] >= least ? T(1) : T(0);
  }

 private:
  // below_[p]: how much of the column the mask covers above edge p. `run` is the first run that ends in the column or
  // later; returns that of the next one.
  const int64_t* cover(const Runs& mask, int64_t column, const int64_t* run) {
    const int64_t start = column * mask.height, stop = start + mask.height;
    std::fill(below_.begin(), below_.end(), 0.0);
    for (; run != mask.end; ++run) {
      const bool inside = (run - mask.begin) % 2 == 1;
      if (inside) {
        const double from = static_cast<double>(std::max(start, run[-1]) - start);
        const double to = static_cast<double>(std::min(stop, *run) - start);
        for (size_t p = 0; p < edges_.size(); ++p)
          below_[p] += std::clamp(edges_[p] - from, 0.0, std::max(0.0, to - from));
      }
      if (*run > stop) break;
    }
    return run;
  }

  int64_t size_;
  std::vector<double> edges_, below_, area_;
};

template <class Size>
void crop(const KernelContext& c, const Size* sizes) {
  const CheckedOffsets offsets(c, "offsets", c.in("runs").numel());
  const Shape& shape = c.in("boxes").shape();
  const int64_t each = shape[1], size = c.attr<int64_t>("size");
  const int64_t masks = shape[0] ? offsets.sequences() / shape[0] : 0;
  const std::vector<int64_t> ends = ends_of(c.in("runs").data<int32_t>(), offsets);
  const auto* index = c.in("index").data<int64_t>();
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* boxes = c.in("boxes").data<Box<T>>();
    T* out = c.out(0).data<T>();
    parallel_for(shape[0] * each, row_grain(size * size * 16), [&](int64_t begin, int64_t end) {
      MaskCutter cutter(size);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t n = i / each, height = sizes[2 * n], width = sizes[2 * n + 1];
        T* to = out + i * size * size;
        if (index[i] < 0 || index[i] >= masks || height < 1 || width < 1) {
          std::fill(to, to + size * size, T(0));
          continue;
        }
        const int64_t m = n * masks + index[i];
        cutter.run({ends.data() + offsets.begin(m), ends.data() + offsets.end(m), height, width}, boxes[i], to);
      }
    });
  });
}

PADDOCK_CPU_KERNEL(crop_masks) {
  dispatch_index(c.in("sizes").dtype(), [&](auto tag) {
    using Size = typename decltype(tag)::type;
    crop(c, c.in("sizes").data<Size>());
  });
}

// Where the pixels of one axis of a picture read a mask of `size` values: low and low + 1, of which either may lie
// outside, where it counts as 0.
struct PixelTaps {
  int64_t begin = 0, end = 0;  // the pixels that read anything
  std::vector<int64_t> low;
  std::vector<double> weight;  // of low + 1

  PixelTaps(double start, double extent, int64_t size, int64_t pixels) {
    const double bins = static_cast<double>(size), most = static_cast<double>(pixels);
    const double margin = extent / bins;  // a value reaches a bin beyond its own
    begin = static_cast<int64_t>(std::clamp(std::floor(start - margin), 0.0, most));
    end = static_cast<int64_t>(std::clamp(std::ceil(start + extent + margin), 0.0, most));
    for (int64_t i = begin; i < end; ++i) {
      const double at = (static_cast<double>(i) + 0.5 - start) / extent * bins - 0.5;
      const double floor = std::clamp(std::floor(at), -2.0, bins);
      low.push_back(static_cast<int64_t>(floor));
      weight.push_back(std::clamp(at - floor, 0.0, 1.0));
    }
  }
};

// One mask into a bitmap of zeros.
template <class T>
void paste(const T* mask, int64_t size_h, int64_t size_w, const Box<T>& box, int64_t height, int64_t width,
           double threshold, uint8_t* bitmap) {
  const double box_w = static_cast<double>(box.x2) - box.x1, box_h = static_cast<double>(box.y2) - box.y1;
  if (!box.has_area() || !std::isfinite(box_w * box_h)) return;
  const PixelTaps rows(box.y1, box_h, size_h, height), columns(box.x1, box_w, size_w, width);
  std::vector<double> line(size_w + 4, 0.0);  // one row between two of the mask, with two zeros on both sides
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    const int64_t low = rows.low[i - rows.begin];
    const double down = rows.weight[i - rows.begin];
    for (int64_t k = 0; k < size_w; ++k) {
      const double top = low >= 0 && low < size_h ? static_cast<double>(mask[low * size_w + k]) : 0.0;
      const double bottom = low >= -1 && low + 1 < size_h ? static_cast<double>(mask[(low + 1) * size_w + k]) : 0.0;
      line[k + 2] = top * (1 - down) + bottom * down;
    }
    uint8_t* row = bitmap + i * width;
    for (int64_t j = columns.begin; j < columns.end; ++j) {
      const double* at = line.data() + 2 + columns.low[j - columns.begin];
      const double right = columns.weight[j - columns.begin];
      row[j] = at[0] * (1 - right) + at[1] * right >= threshold;
    }
  }
}

PADDOCK_CPU_KERNEL(paste_masks) {
  const Shape &masks = c.in("masks").shape(), &out = c.out(0).shape();
  const double threshold = c.attr<double>("threshold");
  dispatch_float(c.in("masks").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_for(out[0], 1, [&](int64_t begin, int64_t end) {
      for (int64_t d = begin; d < end; ++d) {
        uint8_t* bitmap = c.out(0).data<uint8_t>() + d * out[1] * out[2];
        std::fill(bitmap, bitmap + out[1] * out[2], uint8_t{0});
        paste(c.in("masks").data<T>() + d * masks[1] * masks[2], masks[1], masks[2], c.in("boxes").data<Box<T>>()[d],
              out[1], out[2], threshold, bitmap);
      }
    });
  });
}

}  // namespace
}  // namespace paddock::cpu
