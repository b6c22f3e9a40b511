// Winograd products of an image of four tiles: the weights are transformed in registers, where they are multiplied.
#pragma once
#include "cpu/winograd/winograd_tiles.h"

namespace paddock::cpu {

// To write transformed weights to a cache and read them again costs more than to make them where four tiles are all
// that they are used for. The sums of six positions and what makes their weights fill 32 registers. 7 or 8 pixels each
// way.
inline bool fused_products_apply(const TiledImage& image) {
  const auto two_tiles = [](int64_t pixels) { return pixels == 7 || pixels == 8; };
  return kVecRegisters == 32 && image.N == 1 && two_tiles(image.target_h) && two_tiles(image.target_w);
}

// m = v u for one vector of target channels, whose taps are [source channel][9][vector]. v is one block of channels.
// `next` points to the taps that this thread will probably read next, or is null.
void fused_products(const TiledImage& image, const TileBlocks& v, const float* taps, const float* next,
                    const TileBlocks& m);

}  // namespace paddock::cpu
