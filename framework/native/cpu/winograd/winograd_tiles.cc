// Transforms of image tiles: 6 x 6 source pixels to 36 positions, and for the weight gradient 4 x 4 target pixels.
#include "cpu/winograd/winograd_tiles.h"

#include "core/parallel.h"
#include "core/storage.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kTaskTiles = 8;

// Writes a transformed tile's vector of channels; `first` is that of position 0.
struct TileWriter {
  float* first;
  int64_t stride;

  PADDOCK_INLINE void operator()(int position, V v) const { v.store(first + position * stride); }
};

// Calls run(channel, lanes, writer) for the vectors of channels of a tile.
template <class Run>
PADDOCK_INLINE void for_channels(const TileBlocks& out, int64_t tile, Run run) {
  for (int64_t block = 0; block < out.blocks(); ++block) {
    const int64_t columns = out.columns(block), stride = out.stride(columns);
    float* to = out.at(block, 0) + tile * columns;
    for (int64_t c = 0; c < columns; c += V::kSize) {
      const int64_t channel = block * out.width + c;
      run(channel, out.channels - channel, TileWriter{to + c, stride});
    }
  }
}

// Where the pixels of a source tile are; pixels outside of the image point at `zeros`.
struct SourcePixels {
  const float* pixels[kPositions];

  SourcePixels(const TiledImage& m, const float* source, const float* zeros, const TilePlace& tile) {
    for (int64_t i = 0; i < 6; ++i)
      for (int64_t j = 0; j < 6; ++j) {
        const int64_t h = tile.h - m.pad_top + i, w = tile.w - m.pad_left + j;
        const bool inside = h >= 0 && h < m.source_h && w >= 0 && w < m.source_w;
        pixels[i * 6 + j] = inside ? source + ((tile.n * m.source_h + h) * m.source_w + w) * m.source_c : zeros;
      }
  }
};

void transform_source_edge(const TiledImage& m, const float* source, const float* zeros, const TilePlace& place,
                           int64_t tile, const TileBlocks& out) {
  const SourcePixels from(m, source, zeros, place);
  with_valid(place.rows, [&](auto rows) {
    with_valid(place.columns, [&](auto columns) {
      for_channels(out, tile, [&](int64_t c, int64_t lanes, TileWriter to) {
        transform_rectangle<SourceTransform<rows>, SourceTransform<columns>>(
            [&](int i, int j) { return load_lanes(from.pixels[i * 6 + j] + c, lanes); },
            [&](int i, int j, V v) { to(position(rows, columns, i, j), v); });
      });
    });
  });
}

void transform_source_inside(const TiledImage& m, const float* source, const TilePlace& place, int64_t tile,
                             const TileBlocks& out) {
  const int64_t C = m.source_c, line = m.source_w * C;
  const float* corner = source + ((place.n * m.source_h + place.h - m.pad_top) * m.source_w + place.w - m.pad_left) * C;
  for_channels(out, tile, [&](int64_t c, int64_t lanes, TileWriter to) {
    transform_rectangle<SourceTransform<4>, SourceTransform<4>>(
        [&](int i, int j) { return load_lanes(corner + i * line + j * C + c, lanes); },
        [&](int i, int j, V v) { to(i * 6 + j, v); });
  });
}

}  // namespace

void transform_source(const TiledImage& m, const float* source, int64_t first, const TileBlocks& out) {
  Scratch zero(static_cast<size_t>(m.source_c) * sizeof(float));
  std::fill_n(zero.as<float>(), m.source_c, 0.0f);
  parallel_for(out.tiles, kTaskTiles, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const TilePlace place = m.at(first + t);
      const int64_t h = place.h - m.pad_top, w = place.w - m.pad_left;
      const bool inside = h >= 0 && w >= 0 && h + 6 <= m.source_h && w + 6 <= m.source_w;
      if (inside && place.rows == 4 && place.columns == 4)
        transform_source_inside(m, source, place, t, out);
      else
        transform_source_edge(m, source, zero.as<float>(), place, t, out);
    }
  });
}

void transform_gradient(const TiledImage& m, const float* dy, int64_t first, const TileBlocks& out) {
  const int64_t K = m.target_c;
  parallel_for(out.tiles, kTaskTiles, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const TilePlace place = m.at(first + t);
      const float* corner = dy + ((place.n * m.target_h + place.h) * m.target_w + place.w) * K;
      with_valid(place.rows, [&](auto rows) {
        with_valid(place.columns, [&](auto columns) {
          for_channels(out, t, [&](int64_t k, int64_t lanes, TileWriter to) {
            transform_rectangle<TargetAdjoint<rows>, TargetAdjoint<columns>>(
                [&](int i, int j) { return load_lanes(corner + (i * m.target_w + j) * K + k, lanes); },
                [&](int i, int j, V v) { to(position(rows, columns, i, j), v); });
          });
        });
      });
    }
  });
}

}  // namespace paddock::cpu
