// Weight gradient by Winograd's adjoint form: dw = G^T [ sum over tiles of (A dy A^T) (B^T x B)^T ] G, position by
// position. Chunks of tiles are transformed, then each task sums a block of dw over the chunk.
#include <algorithm>

#include "core/parallel.h"
#include "core/storage.h"
#include "cpu/winograd/winograd_product.h"
#include "cpu/winograd/winograd_tiles.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kChunkBytes = 8 << 20;  // both transformed images of a chunk of tiles
constexpr int64_t kDepth = 128;           // tiles that a register tile sums before it goes to memory
constexpr int64_t kTasks = 8;             // blocks of dw wanted, even where that makes them less efficient

// A block of dw: target channels of block i of e times source channels of block j of v. Its sums are
// [position][row][c], positions sums_stride apart.
struct Block {
  const TiledImage& image;
  const TileBlocks &e, &v;
  int64_t i, j;
  int64_t k0 = i * e.width, c0 = j * v.width, rows = std::min(e.width, e.channels - k0), columns = v.columns(j);
  int64_t stride = sums_stride(e, v);

  static int64_t sums_stride(const TileBlocks& e, const TileBlocks& v) { return (e.width * v.width / 16 | 1) * 16; }

  // What transform_back will write: pieces so short that they are worth asking for while the sums are made.
  Prefetcher target(const float* dw) const {
    Prefetcher p(dw + k0 * 9 * v.channels + c0, v.channels, rows * 9, std::min(columns, v.channels - c0));
    p.spread(kPositions * ceil_div(rows, kMaxTileRows));
    return p;
  }

  // Adds the tiles [first, first + e.tiles) to the sums, or starts them.
  void accumulate(int64_t first, bool add, float* sums, Prefetcher prefetcher) const {
    PanelProduct p{};
    p.a_row = 1;
    p.a_step = e.columns(i);
    p.rows = rows;
    p.b_row = p.columns = p.c_row = columns;
    for (int position = 0; position < kPositions; ++position) {
      const TileRange tiles = image.with_position({first, first + e.tiles}, position / 6, position % 6);
      const int64_t count = tiles.count(), parts = ceil_div(count, kDepth);
      p.c = sums + position * stride;
      if (count == 0 && !add) std::fill_n(p.c, rows * columns, 0.0f);
      for (int64_t part = 0; part < parts; ++part) {
        const int64_t begin = tiles.begin + part * count / parts, end = tiles.begin + (part + 1) * count / parts;
        p.depth = end - begin;
        p.a = e.at(i, position) + begin * p.a_step;
        p.b = v.at(j, position) + begin * p.b_row;
        p.add = add || part > 0;
        multiply_panel(p, prefetcher);
      }
    }
  }

  // dw [K, 3, 3, C] of the sums.
  void transform_back(const float* sums, float* dw) const {
    const int64_t C = v.channels;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t c = 0; c < columns; c += V::kSize) {
        const float* from = sums + row * columns + c;
        float* to = dw + (k0 + row) * 9 * C + c0 + c;
        transform_rectangle<WeightAdjoint, WeightAdjoint>(
            [&](int a, int b) { return V::load(from + (a * 6 + b) * stride); },
            [&](int r, int s, V x) { store_lanes(x, to + (r * 3 + s) * C, C - c0 - c); });
      }
  }
};

// Target channels of a block of dw, whose sums stay in L2: fewer where there would be too few blocks to share.
int64_t block_rows(int64_t K, int64_t column_blocks) {
  const auto tasks = [&](int64_t rows) { return ceil_div(K, rows) * column_blocks; };
  return tasks(48) >= 4 * kTasks ? 48 : tasks(64) >= kTasks ? 64 : tasks(32) >= kTasks / 2 ? 32 : 16;
}

}  // namespace

void winograd_grad_weight(const ConvGeometry& g, const float* x, const float* dy, float* dw) {
  const TiledImage image{g.N, g.H, g.W, g.C, g.P, g.Q, g.K, g.pad_top, g.pad_left};
  const int64_t tile_bytes = kPositions * static_cast<int64_t>(sizeof(float)) * (padded(g.C) + padded(g.K));
  const int64_t most = std::max<int64_t>(kDepth, kChunkBytes / tile_bytes);
  const int64_t chunks = ceil_div(image.tiles, most), size = ceil_div(image.tiles, chunks);
  TileBlocks v{size, g.C, kPanelWidth<float>}, e{size, g.K, even_width(g.K, block_rows(g.K, v.blocks()))};
  Scratch v_memory(v.bytes()), e_memory(e.bytes());
  v.data = v_memory.as<float>();
  e.data = e_memory.as<float>();
  // Sums outlive a chunk only if there are several chunks.
  const int64_t tasks = e.blocks() * v.blocks(), sums_size = kPositions * Block::sums_stride(e, v);
  Scratch all_sums(static_cast<size_t>(chunks > 1 ? tasks * sums_size : 1) * sizeof(float));
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int64_t first = chunk * image.tiles / chunks;
    v.tiles = e.tiles = (chunk + 1) * image.tiles / chunks - first;
    transform_source(image, x, first, v);
    transform_gradient(image, dy, first, e);
    parallel_for(tasks, 1, [&](int64_t task, int64_t) {
      Scratch own(static_cast<size_t>(chunks > 1 ? 1 : sums_size) * sizeof(float));
      float* sums = chunks > 1 ? all_sums.as<float>() + task * sums_size : own.as<float>();
      const Block block{image, e, v, task % e.blocks(), task / e.blocks()};
      const bool last = chunk + 1 == chunks;
      block.accumulate(first, chunk > 0, sums, last ? block.target(dw) : Prefetcher());
      if (last) block.transform_back(sums, dw);
    });
  }
}

}  // namespace paddock::cpu
