// Weight gradient by Winograd's adjoint form: dw = G^T [ sum over tiles of (A dy A^T) (B^T x B)^T ] G, position by
// position. Chunks of tiles are transformed, then each task sums its rows of dw over the chunk.
#include <algorithm>

#include "core/parallel.h"
#include "cpu/winograd.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kChunkBytes = 12 << 20;  // both transformed images of a chunk of tiles
constexpr int64_t kDepth = 128;            // tiles that a register tile sums before it goes to memory
constexpr int64_t kTaskTiles = 8;

// out[position][tile - first][k] = A dy A^T of the 4 x 4 pixels of each tile; pixels beyond the image are 0.
void transform_gradient(const TiledImage& m, const float* dy, int64_t first, int64_t count, float* out,
                        int64_t stride) {
  const int64_t K = m.target_c;
  parallel_for(count, kTaskTiles, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t tile = first + t, line = tile / m.tiles_w, n = line / m.tiles_h;
      const int64_t h0 = line % m.tiles_h * 4, w0 = tile % m.tiles_w * 4;
      const int64_t rows = std::min<int64_t>(4, m.target_h - h0), columns = std::min<int64_t>(4, m.target_w - w0);
      const float* corner = dy + ((n * m.target_h + h0) * m.target_w + w0) * K;
      for (int64_t k = 0; k < K; k += V::kSize) {
        const int64_t lanes = std::min<int64_t>(V::kSize, K - k);
        float* to = out + t * padded(K) + k;
        transform_square<TargetAdjoint, 4, 6>(
            [&](int i, int j) {
              return i < rows && j < columns ? V::load_n(corner + (i * m.target_w + j) * K + k, lanes) : V::zero();
            },
            [&](int i, int j, V v) { v.store(to + (i * 6 + j) * stride); });
      }
    }
  });
}

// One chunk of transformed tiles: gradient e [36][count][K], image v [36][count][C].
struct Chunk {
  int64_t count, C, K;
  const float *e, *v;
  int64_t e_stride, v_stride;

  // sums[position][row][c] (+)= sum over tiles of e[position][tile][k0 + row] * v[position][tile][c].
  void accumulate(int64_t k0, int64_t rows, bool first, float* sums) const {
    const int64_t parts = ceil_div(count, kDepth), row_size = padded(C);
    float* c_rows[kMaxTileRows];
    for (int64_t position = 0; position < kPositions; ++position)
      for (int64_t part = 0; part < parts; ++part) {
        const int64_t t0 = part * count / parts, depth = (part + 1) * count / parts - t0;
        Tile<float> tile{};
        tile.taps = 1;
        tile.length = depth;
        tile.a_stride = padded(K);
        tile.b_stride = row_size;
        tile.alpha = 1;
        tile.beta = first && part == 0 ? 0 : 1;
        tile.c = c_rows;
        for (int64_t n0 = 0; n0 < C; n0 += kPanelWidth<float>) {
          const int64_t vecs = panel_vecs<float>(C, n0), tiles = ceil_div(rows, tile_rows(vecs));
          tile.column = n0;
          tile.columns = vecs * V::kSize;
          tile.b = v + position * v_stride + t0 * row_size + n0;
          for (int64_t i = 0; i < tiles; ++i) {
            const int64_t begin = i * rows / tiles, height = (i + 1) * rows / tiles - begin;
            for (int64_t r = 0; r < height; ++r) c_rows[r] = sums + (position * rows + begin + r) * row_size;
            tile.a_columns = e + position * e_stride + t0 * tile.a_stride + k0 + begin;
            tile_kernel_by_columns<float>(height, vecs)(tile);
          }
        }
      }
  }
};

// dw[k0 + row, 3, 3, C] of sums[position][row][c].
void transform_back(const float* sums, int64_t rows, int64_t C, float* dw) {
  const int64_t row_size = padded(C);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t c = 0; c < C; c += V::kSize) {
      const int64_t lanes = std::min<int64_t>(V::kSize, C - c);
      const float* from = sums + row * row_size + c;
      float* to = dw + row * 9 * C + c;
      transform_square<WeightAdjoint, 6, 3>([&](int i, int j) { return V::load(from + (i * 6 + j) * rows * row_size); },
                                            [&](int r, int s, V v) { v.store_n(to + (r * 3 + s) * C, lanes); });
    }
}

}  // namespace

void winograd_grad_weight(const ConvGeometry& g, const float* x, const float* dy, float* dw) {
  const TiledImage image{g.N, g.H, g.W, g.C, g.P, g.Q, g.K, g.pad_top, g.pad_left};
  const int64_t tiles = image.tiles(), row_size = padded(g.C);
  const int64_t most = std::max<int64_t>(kDepth, kChunkBytes / (kPositions * 4 * (row_size + padded(g.K))));
  const int64_t chunks = ceil_div(tiles, most), size = ceil_div(tiles, chunks);
  const int64_t v_stride = position_stride(size, g.C), e_stride = position_stride(size, g.K);
  Scratch v(kPositions * v_stride * sizeof(float)), e(kPositions * e_stride * sizeof(float));
  // Sums outlive a chunk only if there are several chunks.
  Scratch all_sums(chunks > 1 ? g.K * kPositions * row_size * sizeof(float) : 1);
  const int64_t task_rows = std::min<int64_t>(g.K, 24);
  for (int64_t i = 0; i < chunks; ++i) {
    const int64_t first = i * tiles / chunks, count = (i + 1) * tiles / chunks - first;
    transform_source(image, x, first, count, v.as<float>(), v_stride);
    transform_gradient(image, dy, first, count, e.as<float>(), e_stride);
    const Chunk chunk{count, g.C, g.K, e.as<float>(), v.as<float>(), e_stride, v_stride};
    parallel_for(g.K, task_rows, [&](int64_t begin, int64_t end) {
      Scratch own(chunks > 1 ? 1 : (end - begin) * kPositions * row_size * sizeof(float));
      float* sums = chunks > 1 ? all_sums.as<float>() + begin * kPositions * row_size : own.as<float>();
      chunk.accumulate(begin, end - begin, i == 0, sums);
      if (i + 1 == chunks) transform_back(sums, end - begin, g.C, dw + begin * 9 * g.C);
    });
  }
}

}  // namespace paddock::cpu
