// Pictures as Python's transforms make them, bit for bit: OpenCV's resizing of bytes, borders, parts, normalisation.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace paddock::pictures {

// RGB, [height, width, 3]: bytes, or floats once it is normalised.
struct Pixels {
  int height = 0, width = 0;
  std::vector<uint8_t> bytes;
  std::vector<float> floats;

  Pixels() = default;
  Pixels(int h, int w, bool is_float) : height(h), width(w) {
    is_float ? floats.resize(values()) : bytes.resize(values());
  }
  bool is_float() const { return !floats.empty(); }
  size_t row() const { return static_cast<size_t>(width) * 3; }
  size_t values() const { return static_cast<size_t>(height) * row(); }
};

enum class Interpolation { kNearest, kLinear, kArea, kCubic };

// Of bytes, to another size.
Pixels resized(const Pixels& from, int height, int width, Interpolation how);
// On a canvas of a colour (RGB in [0, 1]), its corner at (left, top).
Pixels on_canvas(const Pixels& from, int height, int width, int top, int left, const std::array<double, 3>& fill);
// The part whose corner lies at (left, top).
Pixels part_of(const Pixels& from, int height, int width, int top, int left);
// What it shows through a map of its points, as image::warp_affine does. Of bytes.
Pixels warped(const Pixels& from, int height, int width, const std::array<double, 6>& map);
// (value / 255 - mean) / std in float32; `bgr`: with its channels in the other order.
Pixels normalised(const Pixels& from, const std::array<double, 3>& mean, const std::array<double, 3>& deviation,
                  bool bgr);

}  // namespace paddock::pictures
