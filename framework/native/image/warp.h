// Crops through an affine map, exactly defined: Python's transforms and the predictor have its bits on any machine.
#pragma once
#include "image/cubic.h"

namespace paddock::image {

// What a picture shows through a map of its points, (x, y) -> (m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]), at
// `to`, [height, width, 3]; black lies outside. Pixels are squares: the centre of column i is at i + 1/2. Bilinear:
// places are rounded to 1024ths of a pixel. Throws Error where no map leads back.
PADDOCK_API void warp_affine(const View& from, const double map[6], uint8_t* to, int64_t height, int64_t width);

}  // namespace paddock::image
