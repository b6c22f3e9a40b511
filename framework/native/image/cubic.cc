#include "image/cubic.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "image/rows.h"

namespace paddock::image {
namespace {

constexpr int64_t kRows = 8;  // of a result that one thread makes at a time
constexpr int kBefore = 2;    // copies of the edge before a row and behind it

PictureRows active{};

// Keys' kernel at 1 + x, x, 1 - x and 2 - x from a place, for x in [0, 1).
std::vector<FourTaps> taps(int64_t from, int64_t to) {
  constexpr double a = -0.75;
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  std::vector<FourTaps> list(static_cast<size_t>(to));
  for (int64_t i = 0; i < to; ++i) {
    const double place = (static_cast<double>(i) + 0.5) * scale - 0.5, below = std::floor(place), x = place - below;
    const auto near = [](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
    const auto far = [](double d) { return ((d - 5) * d + 8) * d * a - 4 * a; };
    const double shares[] = {far(1 + x), near(x), near(1 - x), far(2 - x)};
    FourTaps& t = list[static_cast<size_t>(i)];
    t.first = static_cast<int32_t>(below) - 1;
    int rest = 1 << kWeightBits;
    for (int k = 0; k < 4; ++k) {
      t.weights[k] = static_cast<int16_t>(std::lrint(shares[k] * (1 << kWeightBits)));
      rest -= t.weights[k];
    }
    t.weights[x < 0.5 ? 1 : 2] = static_cast<int16_t>(t.weights[x < 0.5 ? 1 : 2] + rest);
  }
  return list;
}

}  // namespace

const PictureRows& picture_rows() { return active; }
void set_picture_rows(const PictureRows& rows) { active = rows; }

void resize_cubic(const View& from, uint8_t* to, int64_t height, int64_t width) {
  if (!active.weigh_rows)
    fail(ErrorKind::kNotSupported, "resize_cubic: no kernels are loaded; choose an instruction set");
  const auto down = taps(from.height, height);
  auto across = taps(from.width, width);
  for (FourTaps& t : across) t.first += kBefore;  // first is -2 or more, and at most width - 2
  const size_t inner = static_cast<size_t>(from.width) * 3;
  parallel_for(height, kRows, [&](int64_t begin, int64_t end) {
    std::vector<int16_t> line(inner + 3 * (2 * kBefore + 1) + kGap);
    int16_t* const row = line.data() + 3 * kBefore;
    for (int64_t y = begin; y < end; ++y) {
      const FourTaps& t = down[static_cast<size_t>(y)];
      const uint8_t* rows[4];
      for (int k = 0; k < 4; ++k)
        rows[k] = from.bytes + std::clamp<int64_t>(t.first + k, 0, from.height - 1) * from.row_bytes;
      active.weigh_rows(rows, t.weights, static_cast<int64_t>(inner), row);
      for (int k = 1; k <= kBefore; ++k) std::copy_n(row, 3, row - 3 * k);
      for (int k = 0; k <= kBefore; ++k) std::copy_n(row + inner - 3, 3, row + inner + static_cast<size_t>(3 * k));
      active.weigh_pixels(line.data(), across.data(), width, to + y * width * 3);
    }
  });
}

}  // namespace paddock::image
