// Winograd convolution, forward and data gradient (the same with dy as the image and turned weights).
// Three steps, kept in the cache: transform the source, 36 products, transform back.
#include <algorithm>

#include "core/parallel.h"
#include "cpu/gemm_pack.h"
#include "cpu/winograd.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kBlockBytes = 2 << 20;  // transformed source and products of a block of tiles
constexpr int64_t kDepth = 128;           // depth of a block of the sum over channels
constexpr int64_t kTaskTiles = 8;
constexpr int64_t kGroup = 64, kGroupDepth = 128;  // target and source channels of a task with its own weights

// Where the pixels of a source tile are; pixels outside of the image point at `zeros`.
struct SourceTile {
  const float* pixels[kPositions];

  SourceTile(const TiledImage& m, const float* source, const float* zeros, int64_t tile) {
    const int64_t w0 = tile % m.tiles_w * 4 - m.pad_left, line = tile / m.tiles_w;
    const int64_t h0 = line % m.tiles_h * 4 - m.pad_top, n = line / m.tiles_h;
    for (int64_t i = 0; i < 6; ++i)
      for (int64_t j = 0; j < 6; ++j) {
        const int64_t h = h0 + i, w = w0 + j;
        const bool inside = h >= 0 && h < m.source_h && w >= 0 && w < m.source_w;
        pixels[i * 6 + j] = inside ? source + ((n * m.source_h + h) * m.source_w + w) * m.source_c : zeros;
      }
  }
};

// Part of the transformed weights: channels [row, row + rows) of the sum, [column, column + columns) of the target,
// position by position as packed panels.
struct PackedWeights {
  int64_t row, rows, column, columns;
  float* data;

  // An odd number of cache lines, so that the positions of one weight fall into different cache sets.
  static int64_t position_size(int64_t rows, int64_t columns) {
    return ((packed_size<float>(rows, columns) + 15) / 16 | 1) * 16;
  }
  static size_t bytes(int64_t rows, int64_t columns) {
    return kPositions * position_size(rows, columns) * sizeof(float);
  }
  // Element (row r, column n) of a position, counted within the part; n is a multiple of the vector.
  float* at(int64_t position, int64_t r, int64_t n) const {
    const int64_t n0 = n / kPanelWidth<float> * kPanelWidth<float>;
    const int64_t width = panel_vecs<float>(columns, n0) * V::kSize;
    return data + position * position_size(rows, columns) + panel_offset(rows, n0) + r * width + (n - n0);
  }
};

// The weights as stored, [K, 3, 3, C], and how a pass uses them.
struct Weights {
  const float* w;
  int64_t C;
  bool turned;  // data gradient: the sum runs over K, and the kernel is turned by half a circle

  void transform(const PackedWeights& u) const { turned ? transform_turned(u) : transform_straight(u); }

 private:
  // Target channels are the outer dimension of w, so squares of W x W channels are transposed.
  void transform_straight(const PackedWeights& u) const {
    const int64_t W = V::kSize, depth_blocks = ceil_div(u.rows, W);
    parallel_for(ceil_div(u.columns, W) * depth_blocks, 4, [&](int64_t begin, int64_t end) {
      alignas(kVecBytes) float square[kPositions][V::kSize][V::kSize];
      for (int64_t b = begin; b < end; ++b) {
        const int64_t k0 = b / depth_blocks * W, c0 = b % depth_blocks * W, lanes = std::min(W, u.rows - c0);
        for (int64_t k = 0; k < W; ++k) {
          const float* from = w + (u.column + k0 + k) * 9 * C + u.row + c0;
          const bool exists = k0 + k < u.columns;
          transform_square<WeightTransform, 3, 6>(
              [&](int r, int s) { return exists ? V::load_n(from + (r * 3 + s) * C, lanes) : V::zero(); },
              [&](int i, int j, V v) { v.store(square[i * 6 + j][k]); });
        }
        for (int p = 0; p < kPositions; ++p) {
          V rows[V::kSize];
#pragma GCC unroll 16
          for (int i = 0; i < V::kSize; ++i) rows[i] = V::load(square[p][i]);
          transpose(rows);
          for (int64_t i = 0; i < lanes; ++i) rows[i].store(u.at(p, c0 + i, k0));
        }
      }
    });
  }

  void transform_turned(const PackedWeights& u) const {
    parallel_for(u.rows, std::max<int64_t>(1, 1024 / u.columns), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k)
        for (int64_t c = 0; c < u.columns; c += V::kSize) {
          const float* from = w + (u.row + k) * 9 * C + u.column + c;
          const int64_t lanes = std::min<int64_t>(V::kSize, u.columns - c);
          transform_square<WeightTransform, 3, 6>(
              [&](int r, int s) { return V::load_n(from + (8 - r * 3 - s) * C, lanes); },
              [&](int i, int j, V v) { v.store(u.at(i * 6 + j, k, c)); });
        }
    });
  }
};

// Pointers to the transformed source tiles and to their products, position 0.
struct TilePointers {
  Scratch memory;
  const float** a;
  float** c;

  TilePointers(int64_t count, const float* v, int64_t v_row, float* m, int64_t m_row)
      : memory(2 * count * sizeof(float*)), a(memory.as<const float*>()), c(memory.as<float*>() + count) {
    for (int64_t t = 0; t < count; ++t) {
      a[t] = v + t * v_row;
      c[t] = m + t * m_row;
    }
  }
};

// m[position][tile][n0 - first..] (+)= v[position][tile][u.row..] * u for one position and one panel of u.
struct Products {
  const PackedWeights& u;
  const TilePointers& tiles;
  int64_t count, v_stride, m_stride;

  void run(int64_t position, int64_t n0, int64_t k, int64_t depth, bool first) const {
    const int64_t vecs = panel_vecs<float>(u.columns, n0), parts = ceil_div(count, tile_rows(vecs));
    Tile<float> tile{};
    tile.taps = 1;
    tile.b_stride = tile.columns = vecs * V::kSize;
    tile.column = position * m_stride + n0;
    tile.alpha = 1;
    tile.beta = first ? 0 : 1;
    tile.length = depth;
    tile.a_offset = position * v_stride + u.row + k;
    tile.b = u.at(position, k, n0);
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t begin = i * count / parts, rows = (i + 1) * count / parts - begin;
      tile.a_rows = tiles.a + begin;
      tile.c = tiles.c + begin;
      tile_kernel_by_rows<float>(rows, vecs)(tile);
    }
  }
};

// Target pixels of tiles [first, first + count) and channels [k0, k0 + K) from m[position][tile][K].
struct BackTransform {
  const TiledImage& image;
  const float* m;
  int64_t stride, k0, K;
  float* target;
  const Epilogue<float>& epilogue;

  void run(int64_t tile, const float* from) const {
    const int64_t line = tile / image.tiles_w, n = line / image.tiles_h;
    const int64_t h0 = line % image.tiles_h * 4, w0 = tile % image.tiles_w * 4;
    const int64_t rows = std::min<int64_t>(4, image.target_h - h0);
    const int64_t columns = std::min<int64_t>(4, image.target_w - w0);
    const int64_t corner = ((n * image.target_h + h0) * image.target_w + w0) * image.target_c + k0;
    for (int64_t k = 0; k < K; k += V::kSize) {
      const int64_t lanes = std::min<int64_t>(V::kSize, K - k);
      transform_square<TargetTransform, 6, 4>([&](int i, int j) { return V::load(from + k + (i * 6 + j) * stride); },
                                              [&](int i, int j, V v) {
                                                if (i >= rows || j >= columns) return;
                                                const int64_t at =
                                                    corner + (i * image.target_w + j) * image.target_c + k;
                                                if (!epilogue.empty()) v = finish(v, epilogue, k0 + k, at, lanes);
                                                v.store_n(target + at, lanes);
                                              });
    }
  }

  void run_all(int64_t first, int64_t count) const {
    parallel_for(count, kTaskTiles, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) run(first + t, m + t * padded(K));
    });
  }
};

// One pass of a convolution.
struct Pass {
  TiledImage image;
  const float* source;
  Weights weights;
  float* target;
  const Epilogue<float>& epilogue;

  void run() const {
    const int64_t C = image.source_c, K = image.target_c, tiles = image.tiles();
    if (tiles <= 2 * K && K >= 4 * kGroup) return by_channels();
    const int64_t bytes = kPositions * 4 * (padded(C) + padded(K));
    int64_t block = std::clamp<int64_t>(kBlockBytes / bytes, 24, 96) / 12 * 12;
    if (tiles < 8 * block) block = tiles;  // too few blocks to share: the threads work on one block together
    Scratch packed(PackedWeights::bytes(C, K));
    const PackedWeights u{0, C, 0, K, packed.as<float>()};
    weights.transform(u);
    parallel_for(tiles, block, [&](int64_t begin, int64_t end) { by_tiles(u, begin, end - begin); });
  }

 private:
  // Many tiles: a block of them goes through all steps, with weights that were transformed once.
  void by_tiles(const PackedWeights& u, int64_t first, int64_t count) const {
    const int64_t C = image.source_c, K = image.target_c, panels = ceil_div(K, kPanelWidth<float>);
    const int64_t v_stride = position_stride(count, C), m_stride = position_stride(count, K);
    Scratch v(kPositions * v_stride * sizeof(float)), m(kPositions * m_stride * sizeof(float));
    transform_source(image, source, first, count, v.as<float>(), v_stride);
    const TilePointers pointers(count, v.as<float>(), padded(C), m.as<float>(), padded(K));
    const Products products{u, pointers, count, v_stride, m_stride};
    const int64_t parts = ceil_div(C, kDepth);
    parallel_for(kPositions * panels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t part = 0; part < parts; ++part) {
          const int64_t k = part * C / parts, depth = (part + 1) * C / parts - k;
          products.run(i / panels, i % panels * kPanelWidth<float>, k, depth, part == 0);
        }
    });
    BackTransform{image, m.as<float>(), m_stride, 0, K, target, epilogue}.run_all(first, count);
  }

  // Few tiles and many weights: a task transforms the weights of its target channels where it uses them, a stretch of
  // the sum at a time, so that the large transformed weights never leave the cache.
  void by_channels() const {
    const int64_t C = image.source_c, count = image.tiles(), v_stride = position_stride(count, C);
    Scratch v(kPositions * v_stride * sizeof(float));
    transform_source(image, source, 0, count, v.as<float>(), v_stride);
    parallel_for(image.target_c, kGroup, [&](int64_t begin, int64_t end) {
      const int64_t K = end - begin, m_stride = position_stride(count, K);
      Scratch m(kPositions * m_stride * sizeof(float));
      Scratch packed(PackedWeights::bytes(kGroupDepth, K));
      const TilePointers pointers(count, v.as<float>(), padded(C), m.as<float>(), padded(K));
      for (int64_t row = 0; row < C; row += kGroupDepth) {
        const PackedWeights u{row, std::min(kGroupDepth, C - row), begin, K, packed.as<float>()};
        weights.transform(u);
        const Products products{u, pointers, count, v_stride, m_stride};
        for (int64_t position = 0; position < kPositions; ++position)
          for (int64_t n0 = 0; n0 < K; n0 += kPanelWidth<float>) products.run(position, n0, 0, u.rows, row == 0);
      }
      BackTransform{image, m.as<float>(), m_stride, begin, K, target, epilogue}.run_all(0, count);
    });
  }
};

}  // namespace

void transform_source(const TiledImage& image, const float* source, int64_t first, int64_t count, float* out,
                      int64_t stride) {
  const int64_t C = image.source_c;
  Scratch zero(C * sizeof(float));
  std::fill_n(zero.as<float>(), C, 0.0f);
  parallel_for(count, kTaskTiles, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const SourceTile tile(image, source, zero.as<float>(), first + t);
      for (int64_t c = 0; c < C; c += V::kSize) {
        float* to = out + t * padded(C) + c;
        const auto store = [&](int i, int j, V v) { v.store(to + (i * 6 + j) * stride); };
        if (c + V::kSize <= C)
          transform_square<SourceTransform, 6, 6>([&](int i, int j) { return V::load(tile.pixels[i * 6 + j] + c); },
                                                  store);
        else
          transform_square<SourceTransform, 6, 6>(
              [&](int i, int j) { return V::load_n(tile.pixels[i * 6 + j] + c, C - c); }, store);
      }
    }
  });
}

bool winograd_applies(const ConvGeometry& g) {
  return g.R == 3 && g.S == 3 && g.stride_h == 1 && g.stride_w == 1 && g.dil_h == 1 && g.dil_w == 1 && g.groups == 1 &&
         g.N * g.P * g.Q > 0;
}

void winograd_forward(const ConvGeometry& g, const float* x, const float* w, float* y, const Epilogue<float>& e) {
  Pass{{g.N, g.H, g.W, g.C, g.P, g.Q, g.K, g.pad_top, g.pad_left}, x, {w, g.C, false}, y, e}.run();
}

void winograd_grad_input(const ConvGeometry& g, const float* dy, const float* w, float* dx) {
  Pass{{g.N, g.P, g.Q, g.K, g.H, g.W, g.C, 2 - g.pad_top, 2 - g.pad_left}, dy, {w, g.C, true}, dx, {}}.run();
}

}  // namespace paddock::cpu
