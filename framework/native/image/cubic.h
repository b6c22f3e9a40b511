// Cubic interpolation of pictures, exactly defined: Python's transforms and the predictor have its bits on any machine.
#pragma once
#include <cstdint>

#include "core/api.h"

namespace paddock::image {

// RGB bytes: rows that lie `row_bytes` apart.
struct View {
  const uint8_t* bytes;
  int64_t height, width, row_bytes;
};

// Stretches a picture to [height, width, 3] at `to`: Keys' kernel (1981) with a = -0.75, pixels' centres at halves,
// pixels beyond the edge are those of the edge. Weights are rounded to 16384ths that sum to 1, columns are summed and
// rounded to 64ths, rows then to bytes. All sides are 1 to 2^24.
PADDOCK_API void resize_cubic(const View& from, uint8_t* to, int64_t height, int64_t width);

}  // namespace paddock::image
