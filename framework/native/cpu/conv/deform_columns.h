// What the two directions of deformable convolution share: where the taps of a pixel lie, and the matrix of what they
// read. Letters: ops/deform_conv.cc.
#pragma once
#include <cmath>

#include "cpu/image/weighted_sum.h"
#include "cpu/kernel.h"
#include "op/conv_shape.h"

namespace paddock::cpu {

// The four pixels around a place, by their element in the image (of channel 0), and their weights; a pixel outside of
// the image has weight 0 and lies at element 0. With them how the place lies between its pixels.
template <class T>
struct Corners {
  int64_t at[4];  // top left, top right, bottom left, bottom right
  T weight[4];
  bool inside[4];
  T down, right;
};

// Channels [first, first + count), which have one offset group and one group of the convolution.
struct ChannelRun {
  int64_t first, count;
  int64_t column;  // where they start in a row of columns, of tap 0
};

struct DeformGeometry {
  int64_t images, height, width, channels, rows, columns, outputs, groups, offset_groups, taps;
  ConvWindow window;

  int64_t pixels() const { return rows * columns; }               // of an image of y
  int64_t column_size() const { return taps * channels; }         // numbers a row of columns
  int64_t group_channels() const { return channels / groups; }    // read by one group of the convolution
  int64_t group_size() const { return taps * group_channels(); }  // of a row of columns
  int64_t group_outputs() const { return outputs / groups; }
  int64_t places() const { return offset_groups * taps; }  // of a pixel of y
  int64_t image_size() const { return height * width * channels; }

  // Rows of columns made at a time: a few megabytes of them.
  int64_t chunk() const { return std::max<int64_t>(64, (int64_t{1} << 21) / std::max<int64_t>(1, column_size())); }

  // The channels of an offset group, split where the groups of the convolution change.
  std::vector<ChannelRun> channel_runs(int64_t offset_group) const {
    const int64_t each = channels / offset_groups, last = (offset_group + 1) * each, own = group_channels();
    std::vector<ChannelRun> found;
    for (int64_t first = offset_group * each; first < last;) {
      const int64_t group = first / own, count = std::min(last, (group + 1) * own) - first;
      found.push_back({first, count, group * group_size() + first - group * own});
      first += count;
    }
    return found;
  }
};

inline DeformGeometry deform_geometry(const KernelContext& c, const Shape& y) {
  const Shape &x = c.in("x").shape(), &weight = c.in("weight").shape();
  const int64_t taps = weight[1] * weight[2];
  const ConvWindow window = conv_window(c, weight);
  return {x[0], x[1],  x[2], x[3], y[1], y[2], y[3], window.groups, c.in("offset").shape()[3] / (2 * taps),
          taps, window};
}

// The place of each tap of pixels [begin, end) of an image of y, [pixels, G, taps]; offset is that of the image.
template <class T>
void find_corners(const DeformGeometry& g, const T* offset, int64_t begin, int64_t end, Corners<T>* out) {
  const auto height = static_cast<double>(g.height), width = static_cast<double>(g.width);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t top = i / g.columns * g.window.h.stride - g.window.h.before;
    const int64_t left = i % g.columns * g.window.w.stride - g.window.w.before;
    for (int64_t place = 0; place < g.places(); ++place, ++out) {
      const int64_t tap = place % g.taps;
      const T* by = offset + (i * g.places() + place) * 2;
      const double y = static_cast<double>(top + tap / g.window.w.taps * g.window.h.dilation) + by[0];
      const double x = static_cast<double>(left + tap % g.window.w.taps * g.window.w.dilation) + by[1];
      *out = {};
      if (!(y > -1 && y < height && x > -1 && x < width)) continue;
      const double row = std::floor(y), column = std::floor(x), down = y - row, right = x - column;
      out->down = static_cast<T>(down);
      out->right = static_cast<T>(right);
      for (int k = 0; k < 4; ++k) {
        const auto r = static_cast<int64_t>(row) + k / 2, s = static_cast<int64_t>(column) + k % 2;
        if (r < 0 || r >= g.height || s < 0 || s >= g.width) continue;
        out->inside[k] = true;
        out->at[k] = (r * g.width + s) * g.channels;
        out->weight[k] = static_cast<T>((k / 2 ? down : 1 - down) * (k % 2 ? right : 1 - right));
      }
    }
  }
}

// Rows of columns [pixels, groups, taps, C/groups] of what the taps read; mask is that of the first pixel, or null.
template <class T>
void fill_columns(const DeformGeometry& g, const std::vector<std::vector<ChannelRun>>& runs, const T* image,
                  const Corners<T>* corners, const T* mask, int64_t pixels, T* columns) {
  for (int64_t i = 0; i < pixels; ++i, columns += g.column_size())
    for (int64_t place = 0; place < g.places(); ++place, ++corners) {
      WeightedElement<T> taps[4];
      int64_t n = 0;
      const T share = mask ? mask[i * g.places() + place] : T(1);
      for (int k = 0; k < 4; ++k)
        if (corners->inside[k]) taps[n++] = {corners->at[k], share * corners->weight[k]};
      for (const ChannelRun& s : runs[place / g.taps])
        weighted_sum<false>(image + s.first, taps, n, columns + s.column + place % g.taps * g.group_channels(),
                            s.count);
    }
}

inline std::vector<std::vector<ChannelRun>> all_channel_runs(const DeformGeometry& g) {
  std::vector<std::vector<ChannelRun>> runs;
  for (int64_t i = 0; i < g.offset_groups; ++i) runs.push_back(g.channel_runs(i));
  return runs;
}

// Pixels that a thread takes at a time.
inline int64_t deform_grain(const DeformGeometry& g) { return row_grain(g.column_size()); }

}  // namespace paddock::cpu
