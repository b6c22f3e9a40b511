// Pictures as Paddock prepares them in Python, bit for bit: resized as OpenCV's linear way for bytes, framed,
// normalised. A picture is read from a binary PPM; for other kinds, fill a Picture by the decoder of your choice.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace example {

struct Picture {
  int height = 0, width = 0;
  std::vector<uint8_t> pixels;  // RGB, [height, width, 3]

  Picture() = default;
  Picture(int h, int w, std::array<uint8_t, 3> fill = {}) : height(h), width(w), pixels(size_t(h) * size_t(w) * 3) {
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = fill[i % 3];
  }
  const uint8_t* row(int y) const { return pixels.data() + size_t(y) * size_t(width) * 3; }
  uint8_t* row(int y) { return pixels.data() + size_t(y) * size_t(width) * 3; }
};

// One number of a PPM's header, behind spaces and comments.
inline int header_number(std::istream& file) {
  while (std::isspace(file.peek()) || file.peek() == '#') {
    if (file.get() == '#') file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  int number = 0;
  file >> number;
  return number;
}

// A binary PPM with one byte a channel and at most 64 million pixels.
inline Picture read_ppm(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char magic[2] = {};
  file.read(magic, 2);
  if (!file || magic[0] != 'P' || magic[1] != '6') throw std::runtime_error(path + ": is no binary PPM (P6)");
  const int width = header_number(file), height = header_number(file), most = header_number(file);
  if (!file || width < 1 || height < 1 || most != 255 || int64_t{width} * height > (int64_t{1} << 26))
    throw std::runtime_error(path + ": its header states no picture of one byte a channel and up to 64 million pixels");
  file.get();  // one space
  Picture picture(height, width);
  file.read(reinterpret_cast<char*>(picture.pixels.data()), std::streamsize(picture.pixels.size()));
  if (!file) throw std::runtime_error(path + ": is cut off");
  return picture;
}

// Where an output row or column comes from: two neighbours and their weights in 2048ths.
struct Tap {
  int first, second, weights[2];
};

// Of `to` places over `from` ones. Columns beyond the edge take the edge alone; rows weigh it twice, which may round
// otherwise.
inline std::vector<Tap> taps(int from, int to, bool columns) {
  std::vector<Tap> list;
  const double scale = 1.0 / (double(to) / from);
  for (int i = 0; i < to; ++i) {
    float f = float((i + 0.5) * scale - 0.5);
    int at = int(std::floor(f));
    f -= float(at);
    if (columns && (at < 0 || at >= from - 1)) {
      f = 0;
      at = at < 0 ? 0 : from - 1;
    }
    const auto inside = [from](int n) { return std::clamp(n, 0, from - 1); };
    list.push_back({inside(at), inside(at + 1), {int(std::lrint((1 - f) * 2048)), int(std::lrint(f * 2048))}});
  }
  return list;
}

// Halved: the mean of 2 x 2 pixels.
inline Picture halved(const Picture& p) {
  Picture out(p.height / 2, p.width / 2);
  for (int y = 0; y < out.height; ++y)
    for (int x = 0; x < out.width; ++x)
      for (int c = 0; c < 3; ++c) {
        const uint8_t *a = p.row(2 * y) + 6 * x + c, *b = p.row(2 * y + 1) + 6 * x + c;
        out.row(y)[3 * x + c] = uint8_t((a[0] + a[3] + b[0] + b[3] + 2) >> 2);
      }
  return out;
}

inline Picture resized(const Picture& p, int height, int width) {
  if (p.height == 2 * height && p.width == 2 * width) return halved(p);
  const auto columns = taps(p.width, width, true), rows = taps(p.height, height, false);
  const auto across = [&](int y) {
    std::vector<int> line(size_t(width) * 3);
    const uint8_t* row = p.row(y);
    for (int x = 0; x < width; ++x) {
      const Tap& t = columns[size_t(x)];
      for (int c = 0; c < 3; ++c)
        line[size_t(x) * 3 + size_t(c)] = row[3 * t.first + c] * t.weights[0] + row[3 * t.second + c] * t.weights[1];
    }
    return line;
  };
  Picture out(height, width);
  for (int y = 0; y < height; ++y) {
    const Tap& t = rows[size_t(y)];
    const auto a = across(t.first), b = across(t.second);
    for (size_t i = 0; i < a.size(); ++i)
      out.row(y)[i] = uint8_t((((t.weights[0] * (a[i] >> 4)) >> 16) + ((t.weights[1] * (b[i] >> 4)) >> 16) + 2) >> 2);
  }
  return out;
}

// Where a picture lies in another: its point (x, y) is at (x * scale_x + left, y * scale_y + top).
struct Placement {
  double scale_x, scale_y;
  int left, top;
};

struct Placed {
  Picture picture;
  Placement placement;
};

inline Placed stretched(const Picture& p, int height, int width) {
  return {resized(p, height, width), {double(width) / p.width, double(height) / p.height, 0, 0}};
}

// Scaled to fit into the size, in the middle or at the top left of a canvas of the colour `fill` (RGB in [0, 1]).
inline Placed letterboxed(const Picture& p, int height, int width, const std::array<double, 3>& fill, bool centred) {
  const double scale = std::min(double(height) / p.height, double(width) / p.width);
  const int h = std::max(1, int(std::nearbyint(p.height * scale))),
            w = std::max(1, int(std::nearbyint(p.width * scale)));
  Placed inner = stretched(p, h, w);
  const int top = centred ? (height - h) / 2 : 0, left = centred ? (width - w) / 2 : 0;
  std::array<uint8_t, 3> colour{};
  for (size_t c = 0; c < 3; ++c) colour[c] = uint8_t(std::nearbyint(fill[c] * 255));
  Picture canvas(height, width, colour);
  for (int y = 0; y < h; ++y) std::copy_n(inner.picture.row(y), 3 * w, canvas.row(y + top) + 3 * left);
  return {std::move(canvas), {inner.placement.scale_x, inner.placement.scale_y, left, top}};
}

// (value / 255 - mean) / std in float32. Compile with -ffp-contract=off: a fused multiply-add rounds otherwise.
inline std::vector<float> normalised(const Picture& p, const std::array<double, 3>& mean,
                                     const std::array<double, 3>& std) {
  float scale[3], shift[3];
  for (int c = 0; c < 3; ++c) {
    const double s = 1 / (255 * std[size_t(c)]);
    scale[c] = float(s);
    shift[c] = float(-mean[size_t(c)] * 255 * s);
  }
  std::vector<float> out(p.pixels.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const float scaled = float(p.pixels[i]) * scale[i % 3];
    out[i] = scaled + shift[i % 3];
  }
  return out;
}

}  // namespace example
