// Rows of pictures that are resized: whole numbers only, so that every instruction set has the same bits.
#include <algorithm>
#include <cstring>

#include "cpu/vec/vec_words.h"
#include "image/rows.h"

namespace paddock::cpu {
namespace {

using image::FourTaps;
using image::kBetweenBits;
using image::kWeightBits;

constexpr int kDown = kWeightBits - kBetweenBits, kAcross = kWeightBits + kBetweenBits;

// rows: four of [count] bytes; out: [count] in 64ths, -3060 to 19380.
void weigh_rows(const uint8_t* const rows[4], const int16_t weights[4], int64_t count, int16_t* out) {
  constexpr int half = 1 << (kDown - 1);
  int64_t i = 0;
  if constexpr (kWeighedBytes > 0)
    for (; i + kWeighedBytes <= count; i += kWeighedBytes) {
      const uint8_t* const at[] = {rows[0] + i, rows[1] + i, rows[2] + i, rows[3] + i};
      weigh_bytes<kDown>(at, weights, half, out + i);
    }
  for (; i < count; ++i) {
    int32_t sum = half;
    for (int k = 0; k < 4; ++k) sum += rows[k][i] * weights[k];
    out[i] = static_cast<int16_t>(sum >> kDown);
  }
}

// row: RGB words; out: [count, 3].
void weigh_pixels(const int16_t* row, const FourTaps* taps, int64_t count, uint8_t* out) {
  constexpr int half = 1 << (kAcross - 1);
  int64_t x = 0;
  if constexpr (kHasPixelPairs)
    for (; x + 3 <= count; x += 2) {  // writes one byte of the pixel after
      const FourTaps &t = taps[x], &u = taps[x + 1];
      uint32_t bytes[2];
      weigh_pixel_pair<kAcross>(row + 3 * t.first, row + 3 * u.first, t.weights, u.weights, half, bytes);
      std::memcpy(out + 3 * x, bytes, 4);
      std::memcpy(out + 3 * x + 3, bytes + 1, 4);
    }
  for (; x < count; ++x) {
    const FourTaps& t = taps[x];
    const int16_t* p = row + 3 * t.first;
    for (int c = 0; c < 3; ++c) {
      int32_t sum = half;
      for (int k = 0; k < 4; ++k) sum += p[3 * k + c] * t.weights[k];
      out[3 * x + c] = static_cast<uint8_t>(std::clamp(sum >> kAcross, 0, 255));
    }
  }
}

}  // namespace
}  // namespace paddock::cpu

extern "C" PADDOCK_API const paddock::image::PictureRows& paddock_picture_rows() {
  using namespace paddock::cpu;
  static const paddock::image::PictureRows rows{&weigh_rows, &weigh_pixels};
  return rows;
}
