// The tiles of a Winograd convolution: which there are, in which order, and where their transformed values lie.
#pragma once
#include <algorithm>
#include <cstdint>

#include "cpu/winograd/winograd.h"

namespace paddock::cpu {

// Half-open range of tiles.
struct TileRange {
  int64_t begin, end;

  int64_t count() const { return std::max<int64_t>(end - begin, 0); }
};

// A tile of image n: its first target pixel and how many rows and columns of it are valid.
struct TilePlace {
  int64_t n, h, w, rows, columns;
};

// A source image whose 3 x 3 windows, shifted by the padding, give the target image. Tiles are numbered by kind: those
// cut off below, whole ones, those cut off to the right, corners. So the tiles that have a value at some position are
// a range.
struct TiledImage {
  int64_t N, source_h, source_w, source_c, target_h, target_w, target_c, pad_top, pad_left;
  int64_t whole_h = target_h / 4, whole_w = target_w / 4, rest_h = target_h % 4, rest_w = target_w % 4;
  int64_t below = rest_h ? N * whole_w : 0, whole = N * whole_h * whole_w, right = rest_w ? N * whole_h : 0;
  int64_t tiles = below + whole + right + (rest_h && rest_w ? N : 0);

  TilePlace at(int64_t tile) const {
    if (tile < below) return {tile / whole_w, whole_h * 4, tile % whole_w * 4, rest_h, 4};
    tile -= below;
    if (tile < whole) {
      const int64_t line = tile / whole_w;
      return {line / whole_h, line % whole_h * 4, tile % whole_w * 4, 4, 4};
    }
    tile -= whole;
    if (tile < right) return {tile / whole_h, tile % whole_h * 4, whole_w * 4, 4, rest_w};
    return {tile - right, whole_h * 4, whole_w * 4, rest_h, rest_w};
  }

  // The tiles of `block` that have a value at position (i, j), counted from the block's first.
  TileRange with_position(TileRange block, int i, int j) const {
    const bool lower = rest_h >= kPixelsNeeded[i], outer = rest_w >= kPixelsNeeded[j];
    const int64_t begin = lower ? 0 : below, end = !outer ? below + whole : !lower ? below + whole + right : tiles;
    return {std::max(block.begin, begin) - block.begin, std::min(block.end, end) - block.begin};
  }

  // Products of one source and one target channel.
  int64_t products() const {
    int64_t sum = 0;
    for (int p = 0; p < kPositions; ++p) sum += with_position({0, tiles}, p / 6, p % 6).count();
    return sum;
  }
};

// Transformed tiles as [block of channels][position][tile][channel], each block `width` channels wide but the last.
struct TileBlocks {
  int64_t tiles, channels, width;
  float* data = nullptr;

  // Elements from one position to the next: an odd number of cache lines, so that the positions of a tile fall into
  // different cache sets.
  int64_t stride(int64_t columns) const { return ((tiles * columns + 15) / 16 | 1) * 16; }
  int64_t blocks() const { return ceil_div(channels, width); }
  // Channels of a block, as stored.
  int64_t columns(int64_t block) const { return std::min(width, padded(channels - block * width)); }
  float* at(int64_t block, int64_t position) const {
    return data + block * kPositions * stride(width) + position * stride(columns(block));
  }
  size_t bytes() const {
    const int64_t whole = (blocks() - 1) * stride(width);
    return static_cast<size_t>(kPositions * (whole + stride(columns(blocks() - 1)))) * sizeof(float);
  }
};

// The widest blocks of at most `most` channels that are about equal, in whole vectors.
inline int64_t even_width(int64_t channels, int64_t most) {
  return padded(ceil_div(channels, ceil_div(channels, most)));
}

// The transformed source of tiles [first, first + out.tiles).
void transform_source(const TiledImage& image, const float* source, int64_t first, const TileBlocks& out);

// The transformed gradient of the target, for the weight gradient.
void transform_gradient(const TiledImage& image, const float* dy, int64_t first, const TileBlocks& out);

}  // namespace paddock::cpu
