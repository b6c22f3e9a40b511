// Boxes in kernels.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace paddock::cpu {

template <class T>
struct Box {
  T x1, y1, x2, y2;
  T area() const { return std::max(T(0), x2 - x1) * std::max(T(0), y2 - y1); }
  bool has_area() const { return x2 > x1 && y2 > y1; }  // false where a coordinate is NaN
};

template <class T>
T intersection(const Box<T>& a, const Box<T>& b) {
  const T w = std::min(a.x2, b.x2) - std::max(a.x1, b.x1), h = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  return std::max(T(0), w) * std::max(T(0), h);
}

// Where a box lies from its anchor: what box_encode and box_decode do to one box.
template <class T>
struct BoxCoder {
  T weights[4];
  T max_log_scale;

  BoxCoder(const std::vector<double>& w, double limit) : max_log_scale(static_cast<T>(limit)) {
    for (int k = 0; k < 4; ++k) weights[k] = static_cast<T>(w[k]);
  }

  Box<T> decode(const T* d, const Box<T>& anchor) const {
    const T w = anchor.x2 - anchor.x1, h = anchor.y2 - anchor.y1;
    const T x = (anchor.x1 + anchor.x2) / 2 + d[0] / weights[0] * w;
    const T y = (anchor.y1 + anchor.y2) / 2 + d[1] / weights[1] * h;
    const T half_w = w / 2 * std::exp(std::min(d[2] / weights[2], max_log_scale));
    const T half_h = h / 2 * std::exp(std::min(d[3] / weights[3], max_log_scale));
    return {x - half_w, y - half_h, x + half_w, y + half_h};
  }
};

// Cut to an image of this height and width; a NaN stays one.
template <class T>
Box<T> clipped(const Box<T>& b, T height, T width) {
  const auto cut = [](T v, T limit) { return v < 0 ? T(0) : v > limit ? limit : v; };
  return {cut(b.x1, width), cut(b.y1, height), cut(b.x2, width), cut(b.y2, height)};
}

}  // namespace paddock::cpu
