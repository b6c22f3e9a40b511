// Follows OpenCV's own order of operations, since that decides how a value rounds. Compiled without contraction.
#include "predictor/pictures/pixels.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "image/warp.h"

namespace paddock::pictures {
namespace {

constexpr int64_t kRows = 16;  // of a result that one thread makes at a time

// Places along one axis: `from` pixels become `to`.
struct Axis {
  Axis(int from_count, int to_count)
      : from(from_count), to(to_count), inverse(static_cast<double>(to_count) / from_count), scale(1.0 / inverse) {}
  bool is_whole() const { return std::abs(scale - std::rint(scale)) < 2.220446049250313e-16; }
  int from, to;
  double inverse, scale;
};

// Where a row or column comes from: two neighbours and their weights in 2048ths.
struct Tap {
  int first, second, weights[2];
};

// Columns beyond the edge take the edge alone; rows weigh it twice, which may round otherwise. `area`: what OpenCV
// calls so where a side grows.
std::vector<Tap> taps(const Axis& axis, bool columns, bool area) {
  std::vector<Tap> list;
  list.reserve(static_cast<size_t>(axis.to));
  for (int i = 0; i < axis.to; ++i) {
    float f = 0;
    int at = 0;
    if (area) {
      at = static_cast<int>(std::floor(i * axis.scale));
      f = static_cast<float>((i + 1) - (at + 1) * axis.inverse);
      f = f <= 0 ? 0 : f - std::floor(f);
    } else {
      f = static_cast<float>((i + 0.5) * axis.scale - 0.5);
      at = static_cast<int>(std::floor(f));
      f -= static_cast<float>(at);
    }
    if (columns && (at < 0 || at >= axis.from - 1)) {
      f = 0;
      at = at < 0 ? 0 : axis.from - 1;
    }
    const auto inside = [&](int n) { return std::clamp(n, 0, axis.from - 1); };
    const auto weight = [](float share) { return static_cast<int>(std::lrint(share * 2048)); };
    list.push_back({inside(at), inside(at + 1), {weight(1 - f), weight(f)}});
  }
  return list;
}

void resize_linear(const Pixels& from, Pixels& to, const Axis& rows, const Axis& columns, bool area) {
  const auto across = taps(columns, true, area), down = taps(rows, false, area);
  parallel_for(to.height, kRows, [&](int64_t begin, int64_t end) {
    std::vector<int> lines[2];
    int held[2] = {-1, -1};
    const auto line = [&](int y, int other) -> int {  // its place; that at `other` stays
      for (int i = 0; i < 2; ++i)
        if (held[i] == y) return i;
      const int place = other == 0 ? 1 : 0;
      lines[place].resize(to.row());
      const uint8_t* source = from.bytes.data() + static_cast<size_t>(y) * from.row();
      int* out = lines[place].data();
      for (const Tap& t : across) {
        const uint8_t *a = source + 3 * t.first, *b = source + 3 * t.second;
        for (int c = 0; c < 3; ++c) *out++ = a[c] * t.weights[0] + b[c] * t.weights[1];
      }
      held[place] = y;
      return place;
    };
    for (int64_t y = begin; y < end; ++y) {
      const Tap& t = down[static_cast<size_t>(y)];
      const int a = line(t.first, held[0] == t.second ? 0 : held[1] == t.second ? 1 : -1), b = line(t.second, a);
      const int *first = lines[a].data(), *second = lines[b].data();
      uint8_t* out = to.bytes.data() + static_cast<size_t>(y) * to.row();
      for (size_t i = 0; i < to.row(); ++i)
        out[i] = static_cast<uint8_t>(
            (((t.weights[0] * (first[i] >> 4)) >> 16) + ((t.weights[1] * (second[i] >> 4)) >> 16) + 2) >> 2);
    }
  });
}

void resize_nearest(const Pixels& from, Pixels& to, const Axis& rows, const Axis& columns) {
  const auto place = [](const Axis& axis, int64_t i) {
    const auto at = static_cast<int>(std::floor(static_cast<double>(i) * axis.scale));
    return static_cast<size_t>(std::min(at, axis.from - 1));
  };
  parallel_for(to.height, kRows, [&](int64_t begin, int64_t end) {
    for (int64_t y = begin; y < end; ++y) {
      const uint8_t* source = from.bytes.data() + place(rows, y) * from.row();
      uint8_t* out = to.bytes.data() + static_cast<size_t>(y) * to.row();
      for (int x = 0; x < to.width; ++x, out += 3) std::copy_n(source + 3 * place(columns, x), 3, out);
    }
  });
}

// Both sides shrink to a whole share: means of whole blocks.
void resize_blocks(const Pixels& from, Pixels& to, int down, int across) {
  const float share = 1.f / static_cast<float>(down * across);
  const bool halves = down == 2 && across == 2;
  parallel_for(to.height, kRows, [&](int64_t begin, int64_t end) {
    for (int64_t y = begin; y < end; ++y) {
      uint8_t* out = to.bytes.data() + static_cast<size_t>(y) * to.row();
      for (int x = 0; x < to.width; ++x)
        for (int c = 0; c < 3; ++c) {
          int sum = 0;
          for (int v = 0; v < down; ++v) {
            const uint8_t* source = from.bytes.data() + (static_cast<size_t>(y) * down + v) * from.row() +
                                    static_cast<size_t>(x) * across * 3 + c;
            for (int u = 0; u < across; ++u) sum += source[3 * u];
          }
          *out++ = static_cast<uint8_t>(halves ? (sum + 2) >> 2 : std::lrint(static_cast<float>(sum) * share));
        }
    }
  });
}

// What one result takes of a source row or column.
struct Share {
  int from;
  float weight;
};

std::vector<std::vector<Share>> shares(const Axis& axis) {
  std::vector<std::vector<Share>> list(static_cast<size_t>(axis.to));
  for (int i = 0; i < axis.to; ++i) {
    auto& of = list[static_cast<size_t>(i)];
    const double begin = i * axis.scale, end = begin + axis.scale;
    const double covered = std::min(axis.scale, axis.from - begin);
    const int last = std::min(static_cast<int>(std::floor(end)), axis.from - 1);
    const int first = std::min(static_cast<int>(std::ceil(begin)), last);
    if (first - begin > 1e-3) of.push_back({first - 1, static_cast<float>((first - begin) / covered)});
    for (int at = first; at < last; ++at) of.push_back({at, static_cast<float>(1.0 / covered)});
    if (end - last > 1e-3)
      of.push_back({last, static_cast<float>(std::min(std::min(end - last, 1.0), covered) / covered)});
  }
  return list;
}

void resize_area(const Pixels& from, Pixels& to, const Axis& rows, const Axis& columns) {
  const auto down = shares(rows), across = shares(columns);
  parallel_for(to.height, kRows, [&](int64_t begin, int64_t end) {
    std::vector<float> line(to.row()), sum(to.row());
    for (int64_t y = begin; y < end; ++y) {
      std::fill(sum.begin(), sum.end(), 0.f);
      bool is_first = true;
      for (const Share& v : down[static_cast<size_t>(y)]) {
        const uint8_t* source = from.bytes.data() + static_cast<size_t>(v.from) * from.row();
        float* out = line.data();
        for (const auto& of : across) {
          float total[3] = {};
          for (const Share& u : of)
            for (int c = 0; c < 3; ++c) total[c] += static_cast<float>(source[3 * u.from + c]) * u.weight;
          out = std::copy_n(total, 3, out);
        }
        for (size_t i = 0; i < line.size(); ++i) sum[i] = is_first ? line[i] * v.weight : sum[i] + line[i] * v.weight;
        is_first = false;
      }
      uint8_t* out = to.bytes.data() + static_cast<size_t>(y) * to.row();
      for (const float value : sum) *out++ = static_cast<uint8_t>(std::clamp(std::lrint(value), 0L, 255L));
    }
  });
}

image::View view_of(const Pixels& from) {
  return {from.bytes.data(), from.height, from.width, static_cast<int64_t>(from.row())};
}

}  // namespace

Pixels warped(const Pixels& from, int height, int width, const std::array<double, 6>& map) {
  Pixels to(height, width, false);
  image::warp_affine(view_of(from), map.data(), to.bytes.data(), height, width);
  return to;
}

Pixels resized(const Pixels& from, int height, int width, Interpolation how) {
  Pixels to(height, width, false);
  if (how == Interpolation::kCubic) {
    image::resize_cubic(view_of(from), to.bytes.data(), height, width);
    return to;
  }
  const Axis rows(from.height, height), columns(from.width, width);
  const bool shrinks = rows.scale >= 1 && columns.scale >= 1;
  const bool blocks = shrinks && rows.is_whole() && columns.is_whole();
  const int down = static_cast<int>(std::lrint(rows.scale)), across = static_cast<int>(std::lrint(columns.scale));
  if (how == Interpolation::kNearest)
    resize_nearest(from, to, rows, columns);
  else if (how == Interpolation::kLinear)
    blocks&& down == 2 && across == 2 ? resize_blocks(from, to, 2, 2) : resize_linear(from, to, rows, columns, false);
  else if (blocks)
    resize_blocks(from, to, down, across);
  else if (shrinks)
    resize_area(from, to, rows, columns);
  else
    resize_linear(from, to, rows, columns, true);
  return to;
}

Pixels on_canvas(const Pixels& from, int height, int width, int top, int left, const std::array<double, 3>& fill) {
  Pixels to(height, width, from.is_float());
  const auto draw = [&](const auto& source, auto& target, const auto& colour) {
    for (size_t i = 0; i < target.size(); ++i) target[i] = colour[i % 3];
    for (int y = 0; y < from.height; ++y)
      std::copy_n(source.data() + static_cast<size_t>(y) * from.row(), from.row(),
                  target.data() + static_cast<size_t>(y + top) * to.row() + static_cast<size_t>(left) * 3);
  };
  std::array<uint8_t, 3> bytes{};
  std::array<float, 3> floats{};
  for (size_t c = 0; c < 3; ++c) {
    bytes[c] = static_cast<uint8_t>(std::clamp(std::nearbyint(fill[c] * 255), 0.0, 255.0));
    floats[c] = static_cast<float>(fill[c]);
  }
  from.is_float() ? draw(from.floats, to.floats, floats) : draw(from.bytes, to.bytes, bytes);
  return to;
}

Pixels part_of(const Pixels& from, int height, int width, int top, int left) {
  Pixels to(height, width, from.is_float());
  const auto take = [&](const auto& source, auto& target) {
    for (int y = 0; y < height; ++y)
      std::copy_n(source.data() + static_cast<size_t>(y + top) * from.row() + static_cast<size_t>(left) * 3, to.row(),
                  target.data() + static_cast<size_t>(y) * to.row());
  };
  from.is_float() ? take(from.floats, to.floats) : take(from.bytes, to.bytes);
  return to;
}

Pixels normalised(const Pixels& from, const std::array<double, 3>& mean, const std::array<double, 3>& deviation,
                  bool bgr) {
  float scale[3], shift[3];
  for (size_t c = 0; c < 3; ++c) {
    const double s = 1 / (255 * deviation[c]);
    scale[c] = static_cast<float>(s);
    shift[c] = static_cast<float>(-mean[c] * 255 * s);
  }
  Pixels to(from.height, from.width, true);
  parallel_for(from.height, kRows, [&](int64_t begin, int64_t end) {
    const uint8_t* in = from.bytes.data() + static_cast<size_t>(begin) * from.row();
    float* out = to.floats.data() + static_cast<size_t>(begin) * from.row();
    for (int64_t i = 0; i < (end - begin) * from.width; ++i, in += 3, out += 3)
      for (int c = 0; c < 3; ++c) {
        const float scaled = static_cast<float>(in[c]) * scale[c];
        out[bgr ? 2 - c : c] = scaled + shift[c];
      }
  });
  return to;
}

}  // namespace paddock::pictures
