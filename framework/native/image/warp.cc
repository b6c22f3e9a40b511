// Compiled without contraction: places have the same bits on all processors.
#include "image/warp.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"

namespace paddock::image {
namespace {

constexpr int64_t kRows = 16;                    // of a result that one thread makes at a time
constexpr int kPlaceBits = 20, kShareBits = 10;  // of a pixel: those of places, and of weights
constexpr double kFar = 1LL << 38;               // beyond all pictures, and far from overflow

int64_t fixed(double place) { return std::llrint(std::clamp(place, -kFar, kFar) * (1 << kPlaceBits)); }

struct Place {
  int64_t whole;
  int share;  // 0 to 1023
};

Place place_of(int64_t fixed_place) {
  const int64_t rounded = (fixed_place + (1 << (kPlaceBits - kShareBits - 1))) >> (kPlaceBits - kShareBits);
  return {rounded >> kShareBits, static_cast<int>(rounded & ((1 << kShareBits) - 1))};
}

// One pixel between four.
void mix(const uint8_t* const taps[4], const Place& x, const Place& y, uint8_t* out) {
  constexpr int one = 1 << kShareBits;
  const int weights[] = {(one - x.share) * (one - y.share), x.share * (one - y.share), (one - x.share) * y.share,
                         x.share * y.share};
  for (int c = 0; c < 3; ++c) {
    const int sum =
        taps[0][c] * weights[0] + taps[1][c] * weights[1] + taps[2][c] * weights[2] + taps[3][c] * weights[3];
    out[c] = static_cast<uint8_t>((sum + (1 << (2 * kShareBits - 1))) >> (2 * kShareBits));
  }
}

// The same where some of the four, or all, lie outside and are black.
void mix_at_edge(const View& from, const Place& x, const Place& y, uint8_t* out) {
  static constexpr uint8_t black[3] = {};
  const auto tap = [&](int64_t row, int64_t column) {
    const bool inside = row >= 0 && row < from.height && column >= 0 && column < from.width;
    return inside ? from.bytes + row * from.row_bytes + 3 * column : black;
  };
  const uint8_t* const taps[] = {tap(y.whole, x.whole), tap(y.whole, x.whole + 1), tap(y.whole + 1, x.whole),
                                 tap(y.whole + 1, x.whole + 1)};
  mix(taps, x, y, out);
}

}  // namespace

void warp_affine(const View& from, const double map[6], uint8_t* to, int64_t height, int64_t width) {
  const double det = map[0] * map[4] - map[1] * map[3];
  if (!std::isfinite(det) || det == 0 || !std::isfinite(map[2]) || !std::isfinite(map[5]))
    fail(ErrorKind::kAttribute, "warp_affine: the map has the determinant ", det, " and the shift ", map[2], ", ",
         map[5], "; nothing leads back from it");
  const double xx = map[4] / det, xy = -map[1] / det, yx = -map[3] / det, yy = map[0] / det;
  const double x0 = -(xx * map[2] + xy * map[5]) - 0.5, y0 = -(yx * map[2] + yy * map[5]) - 0.5;
  std::vector<int64_t> columns_x(static_cast<size_t>(width)), columns_y(static_cast<size_t>(width));
  for (int64_t i = 0; i < width; ++i) {
    const double middle = static_cast<double>(i) + 0.5;
    columns_x[static_cast<size_t>(i)] = fixed(xx * middle);
    columns_y[static_cast<size_t>(i)] = fixed(yx * middle);
  }
  parallel_for(height, kRows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const double middle = static_cast<double>(row) + 0.5, x_of_row = xy * middle, y_of_row = yy * middle;
      const int64_t x = fixed(x_of_row + x0), y = fixed(y_of_row + y0);
      uint8_t* out = to + row * width * 3;
      for (size_t i = 0; i < columns_x.size(); ++i, out += 3) {
        const Place column = place_of(x + columns_x[i]), line = place_of(y + columns_y[i]);
        if (column.whole < 0 || column.whole + 1 >= from.width || line.whole < 0 || line.whole + 1 >= from.height) {
          mix_at_edge(from, column, line, out);
          continue;
        }
        const uint8_t* const above = from.bytes + line.whole * from.row_bytes + 3 * column.whole;
        const uint8_t* const below = above + from.row_bytes;
        const uint8_t* const taps[] = {above, above + 3, below, below + 3};
        mix(taps, column, line, out);
      }
    }
  });
}

}  // namespace paddock::image
