// Winograd convolution, forward and data gradient (the same with dy as the image and turned weights).
// A block of tiles goes through all three steps while it is in the cache: transform, 36 products, transform back.
#include <algorithm>

#include "core/parallel.h"
#include "cpu/gemm_pack.h"
#include "cpu/winograd.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kBlockBytes = 2 << 20;  // transformed source and products of a block of tiles
constexpr int64_t kDepth = 128;           // depth of a block of the sum over channels
constexpr int64_t kTaskTiles = 8;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

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

// u[position] of the weights of `rows` channels of the sum x `columns` channels of the target, as packed panels.
struct PackedWeights {
  int64_t rows, columns;
  float* data;

  int64_t position_size() const { return packed_size<float>(rows, columns); }
  // Element (row, column 0 of its vector) of a position; `column` is a multiple of the vector.
  float* at(int64_t position, int64_t row, int64_t column) const {
    const int64_t n0 = column / kPanelWidth<float> * kPanelWidth<float>;
    const int64_t width = panel_vecs<float>(columns, n0) * V::kSize;
    return data + position * position_size() + panel_offset(rows, n0) + row * width + (column - n0);
  }
};

// Forward: target channels are the outer dimension of w [K, 3, 3, C], so squares of W x W channels are transposed.
void transform_weights(const float* w, const PackedWeights& u) {
  const int64_t C = u.rows, K = u.columns, W = V::kSize, depth_blocks = ceil_div(C, W);
  parallel_for(ceil_div(K, W) * depth_blocks, 4, [&](int64_t begin, int64_t end) {
    alignas(kVecBytes) float square[kPositions][V::kSize][V::kSize];
    for (int64_t b = begin; b < end; ++b) {
      const int64_t k0 = b / depth_blocks * W, c0 = b % depth_blocks * W, lanes = std::min(W, C - c0);
      for (int64_t k = 0; k < W; ++k) {
        const float* from = w + (k0 + k) * 9 * C + c0;
        transform_square<WeightTransform, 3, 6>(
            [&](int r, int s) { return k0 + k < K ? V::load_n(from + (r * 3 + s) * C, lanes) : V::zero(); },
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

// Data gradient: the sum runs over w's outer dimension, and the kernel is turned by half a circle.
void transform_turned_weights(const float* w, const PackedWeights& u) {
  const int64_t K = u.rows, C = u.columns;
  parallel_for(K, std::max<int64_t>(1, 1024 / C), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k)
      for (int64_t c = 0; c < C; c += V::kSize) {
        const float* from = w + k * 9 * C + c;
        const int64_t lanes = std::min<int64_t>(V::kSize, C - c);
        transform_square<WeightTransform, 3, 6>(
            [&](int r, int s) { return V::load_n(from + (8 - r * 3 - s) * C, lanes); },
            [&](int i, int j, V v) { v.store(u.at(i * 6 + j, k, c)); });
      }
  });
}

// A block of tiles on its way through the three steps.
class Block {
 public:
  Block(const TiledImage& image, const PackedWeights& u, int64_t first, int64_t count)
      : image_(image),
        u_(u),
        first_(first),
        count_(count),
        v_stride_(position_stride(count, image.source_c)),
        m_stride_(position_stride(count, image.target_c)),
        v_(kPositions * v_stride_ * sizeof(float)),
        m_(kPositions * m_stride_ * sizeof(float)),
        pointers_(2 * count * sizeof(float*)) {}

  void run(const float* source, float* target, const Epilogue<float>& epilogue) {
    transform_source(image_, source, first_, count_, v_.as<float>(), v_stride_);
    multiply();
    parallel_for(count_, kTaskTiles, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) transform_back(t, target, epilogue);
    });
  }

 private:
  void multiply() {
    const float** a = pointers_.as<const float*>();
    float** c = pointers_.as<float*>() + count_;
    for (int64_t t = 0; t < count_; ++t) {
      a[t] = v_.as<float>() + t * padded(image_.source_c);
      c[t] = m_.as<float>() + t * padded(image_.target_c);
    }
    const int64_t panels = ceil_div(image_.target_c, kPanelWidth<float>);
    parallel_for(kPositions * panels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) multiply_panel(i / panels, i % panels * kPanelWidth<float>, a, c);
    });
  }

  // Products of one position and one panel of target channels.
  void multiply_panel(int64_t position, int64_t n0, const float* const* a, float* const* c) const {
    const int64_t vecs = panel_vecs<float>(image_.target_c, n0), C = image_.source_c, parts = ceil_div(C, kDepth);
    const int64_t tiles = ceil_div(count_, tile_rows(vecs));
    Tile<float> tile{};
    tile.taps = 1;
    tile.b_stride = tile.columns = vecs * V::kSize;
    tile.column = position * m_stride_ + n0;
    tile.alpha = 1;
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t k = part * C / parts;
      tile.length = (part + 1) * C / parts - k;
      tile.a_offset = position * v_stride_ + k;
      tile.b = u_.at(position, k, n0);
      tile.beta = part == 0 ? 0 : 1;
      for (int64_t i = 0; i < tiles; ++i) {
        const int64_t begin = i * count_ / tiles, rows = (i + 1) * count_ / tiles - begin;
        tile.a_rows = a + begin;
        tile.c = c + begin;
        tile_kernel_by_rows<float>(rows, vecs)(tile);
      }
    }
  }

  void transform_back(int64_t t, float* target, const Epilogue<float>& epilogue) const {
    const TiledImage& m = image_;
    const int64_t tile = first_ + t, line = tile / m.tiles_w, n = line / m.tiles_h;
    const int64_t h0 = line % m.tiles_h * 4, w0 = tile % m.tiles_w * 4, K = m.target_c;
    const int64_t rows = std::min<int64_t>(4, m.target_h - h0), columns = std::min<int64_t>(4, m.target_w - w0);
    const int64_t corner = ((n * m.target_h + h0) * m.target_w + w0) * K;
    for (int64_t k = 0; k < K; k += V::kSize) {
      const float* from = m_.as<float>() + t * padded(K) + k;
      const int64_t lanes = std::min<int64_t>(V::kSize, K - k);
      transform_square<TargetTransform, 6, 4>([&](int i, int j) { return V::load(from + (i * 6 + j) * m_stride_); },
                                              [&](int i, int j, V v) {
                                                if (i >= rows || j >= columns) return;
                                                const int64_t at = corner + (i * m.target_w + j) * K + k;
                                                if (!epilogue.empty()) v = finish(v, epilogue, k, at, lanes);
                                                v.store_n(target + at, lanes);
                                              });
    }
  }

  const TiledImage& image_;
  const PackedWeights& u_;
  int64_t first_, count_, v_stride_, m_stride_;
  Scratch v_, m_, pointers_;
};

void convolve(const TiledImage& image, const float* source, const PackedWeights& u, float* target,
              const Epilogue<float>& epilogue) {
  const int64_t tiles = image.tiles(), bytes = kPositions * 4 * (padded(image.source_c) + padded(image.target_c));
  int64_t block = std::clamp<int64_t>(kBlockBytes / bytes, 24, 96) / 12 * 12;
  if (tiles < 8 * block) block = tiles;  // too few to share: all threads work on one block instead
  parallel_for(tiles, block,
               [&](int64_t begin, int64_t end) { Block(image, u, begin, end - begin).run(source, target, epilogue); });
}

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
  return g.R == 3 && g.S == 3 && g.stride_h == 1 && g.stride_w == 1 && g.dil_h == 1 && g.dil_w == 1 && g.groups == 1;
}

void winograd_forward(const ConvGeometry& g, const float* x, const float* w, float* y, const Epilogue<float>& e) {
  const TiledImage image{g.N, g.H, g.W, g.C, g.P, g.Q, g.K, g.pad_top, g.pad_left};
  Scratch packed(kPositions * packed_size<float>(g.C, g.K) * sizeof(float));
  const PackedWeights u{g.C, g.K, packed.as<float>()};
  transform_weights(w, u);
  convolve(image, x, u, y, e);
}

void winograd_grad_input(const ConvGeometry& g, const float* dy, const float* w, float* dx) {
  const TiledImage image{g.N, g.P, g.Q, g.K, g.H, g.W, g.C, 2 - g.pad_top, 2 - g.pad_left};
  Scratch packed(kPositions * packed_size<float>(g.K, g.C) * sizeof(float));
  const PackedWeights u{g.K, g.C, packed.as<float>()};
  transform_turned_weights(w, u);
  convolve(image, dy, u, dx, {});
}

}  // namespace paddock::cpu
