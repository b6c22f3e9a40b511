// What resizing of pictures does with single rows: loops that each instruction set compiles, with the same bits in all.
#pragma once
#include <cstdint>

#include "core/api.h"

namespace paddock::image {

constexpr int kWeightBits = 14;  // weights of four neighbours are 16384ths and sum to 16384
constexpr int kBetweenBits = 6;  // what stands between the two directions has 64ths
constexpr int kGap = 16;         // words that may be read behind a row

// Of one result, the number of the first of four pixels in a row, and their weights.
struct FourTaps {
  int32_t first;
  int16_t weights[4];
};

// out[i] = the weighted sum of rows[k][i], in 64ths; `count` bytes.
using WeighRows = void (*)(const uint8_t* const rows[4], const int16_t weights[4], int64_t count, int16_t* out);
// RGB bytes of `count` results from a row of RGB words, behind which kGap words may be read.
using WeighPixels = void (*)(const int16_t* row, const FourTaps* taps, int64_t count, uint8_t* out);

// What an instruction set's library hands over.
struct PictureRows {
  WeighRows weigh_rows;
  WeighPixels weigh_pixels;
};

// Those of the instruction set in use; none before one is.
PADDOCK_API const PictureRows& picture_rows();
PADDOCK_API void set_picture_rows(const PictureRows& rows);

}  // namespace paddock::image
