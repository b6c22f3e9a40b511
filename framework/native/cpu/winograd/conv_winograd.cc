// Winograd convolution, forward and data gradient (the same with dy as the image and turned weights).
// Three steps, kept in the cache: transform the source, 36 products, transform back. With many tiles a task takes a
// block of them through all steps; with few, a task takes a group of target channels.
#include <algorithm>

#include "core/parallel.h"
#include "core/storage.h"
#include "cpu/winograd/winograd_fused.h"
#include "cpu/winograd/winograd_product.h"
#include "cpu/winograd/winograd_tiles.h"
#include "cpu/winograd/winograd_weights.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kDepth = 128;             // source channels of a panel of weights
constexpr int64_t kBlockGroup = 64;         // target channels of a step of a block of tiles: their products stay in L2
constexpr int64_t kChannelGroup = 32;       // and of a task that takes all tiles
constexpr int64_t kFewTiles = 56;           // products of so few stay in L2 through the whole sum
constexpr int64_t kMostTiles = 256;         // of such a task: more would push its products out of the cache
constexpr int64_t kManyTiles = 200;         // from here on tasks are blocks of tiles,
constexpr int64_t kSharedBytes = 12 << 20;  // if all transformed weights stay in the last-level cache
constexpr int64_t kBlockBytes = 768 << 10;  // transformed source and products of a block of tiles

// Target pixels and channels [k0, k0 + m.channels) of a block of tiles from their products.
struct BackTransform {
  const TiledImage& image;
  const TileBlocks& m;  // one block of channels
  int64_t first, k0;
  float* target;
  const Epilogue<float>& epilogue;

  void run() const {
    for (int64_t t = 0; t < m.tiles; ++t) {
      const TilePlace place = image.at(first + t);
      with_valid(place.rows,
                 [&](auto rows) { with_valid(place.columns, [&](auto columns) { tile<rows, columns>(place, t); }); });
    }
  }

 private:
  template <int kRows, int kColumns>
  void tile(const TilePlace& place, int64_t t) const {
    if (epilogue.empty())
      pixels<kRows, kColumns>(place, t, [](V v, int64_t, int64_t, int64_t) { return v; });
    else
      pixels<kRows, kColumns>(place, t, [&](V v, int64_t k, int64_t at, int64_t lanes) {
        return finish(v, epilogue, k, at, std::min<int64_t>(lanes, V::kSize));
      });
  }

  template <int kRows, int kColumns, class Finish>
  PADDOCK_INLINE void pixels(const TilePlace& place, int64_t t, Finish finish_vector) const {
    const int64_t C = image.target_c, line = image.target_w * C, stride = m.stride(m.width);
    const int64_t corner = ((place.n * image.target_h + place.h) * image.target_w + place.w) * C + k0;
    const float* from = m.at(0, 0) + t * m.width;
    for (int64_t k = 0; k < m.channels; k += V::kSize)
      transform_rectangle<TargetTransform<kRows>, TargetTransform<kColumns>>(
          [&](int i, int j) { return V::load(from + k + position(kRows, kColumns, i, j) * stride); },
          [&](int i, int j, V v) {
            const int64_t at = corner + i * line + j * C + k, lanes = m.channels - k;
            store_lanes(finish_vector(v, k0 + k, at, lanes), target + at, lanes);
          });
  }
};

// One pass of a convolution.
struct Pass {
  TiledImage image;
  const float* source;
  PassWeights weights;
  float* target;
  const Epilogue<float>& epilogue;
  const Prepared& prepared;
  int64_t C = image.source_c, K = image.target_c;
  bool few = image.tiles <= kFewTiles;
  int64_t width = even_width(C, few ? kDepth / 2 : kDepth), blocks = ceil_div(C, width);

  void run() const {
    if (fused_products_apply(image) && !weights.turned) return by_vectors();
    const int64_t weight_bytes = kPositions * static_cast<int64_t>(sizeof(float)) * padded(C) * padded(K);
    if (image.tiles > kManyTiles && weight_bytes <= kSharedBytes) return by_tiles();
    const int64_t parts = ceil_div(image.tiles, kMostTiles);
    for (int64_t i = 0; i < parts; ++i) by_channels(i * image.tiles / parts, (i + 1) * image.tiles / parts);
  }

 private:
  int64_t depth(int64_t block) const { return std::min(width, C - block * width); }

  // m (+)= v * u for the tiles of a block that have a value at position (i, j); u holds it as number `at`.
  void multiply(const TileBlocks& v, int64_t block, const WeightPanels& u, int64_t at, TileRange tiles, int i, int j,
                const TileBlocks& m, Prefetcher& prefetcher) const {
    const TileRange range = image.with_position(tiles, i, j);
    PanelProduct p{};
    p.a_row = v.columns(block);
    p.a_step = 1;
    p.rows = range.count();
    p.a = v.at(block, i * 6 + j) + range.begin * p.a_row;
    p.depth = u.depth;
    p.c_row = m.width;
    p.add = block > 0;
    for (int64_t column = 0; column < u.columns; column += kPanelWidth<float>) {
      p.columns = p.b_row = std::min(kPanelWidth<float>, u.columns - column);
      p.b = u.panel(at, column);
      p.c = m.at(0, i * 6 + j) + range.begin * m.width + column;
      multiply_panel(p, prefetcher);
    }
  }

  // Many tiles: the weights are transformed once, then each task takes a block of tiles through all steps.
  void by_tiles() const {
    const TapGroups taps(weights, C, K, kBlockGroup, prepared);
    const int64_t size = WeightPanels{nullptr, width, kBlockGroup}.stride() * kPositions;
    Scratch all(static_cast<size_t>(taps.groups() * blocks * size) * sizeof(float));
    const auto panels = [&](int64_t group, int64_t block) {
      return WeightPanels{all.as<float>() + (group * blocks + block) * size, depth(block), taps.columns(group)};
    };
    const int64_t steps = ceil_div(width, V::kSize);
    parallel_for(taps.groups() * blocks * steps, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t group = i / (blocks * steps), block = i / steps % blocks, c = i % steps * V::kSize;
        const WeightPanels u = panels(group, block);
        const int64_t channels = std::min<int64_t>(V::kSize, u.depth - c);
        if (channels > 0) taps.transform(group, block * width + c, channels, c, u);
      }
    });
    const int64_t tile_bytes = kPositions * static_cast<int64_t>(sizeof(float)) * (padded(C) + kBlockGroup);
    const int64_t most = std::clamp<int64_t>(kBlockBytes / tile_bytes, 28, 48);
    const int64_t parts = ceil_div(ceil_div(image.tiles, most), 4) * 4;  // equal blocks, dealt out evenly
    parallel_for(parts, 1, [&](int64_t i, int64_t) {
      block_of_tiles({i * image.tiles / parts, (i + 1) * image.tiles / parts}, taps, panels);
    });
  }

  template <class Panels>
  void block_of_tiles(TileRange tiles, const TapGroups& taps, Panels panels) const {
    TileBlocks v{tiles.count(), C, width};
    Scratch v_memory(v.bytes()), m_memory(TileBlocks{tiles.count(), kBlockGroup, kBlockGroup}.bytes());
    v.data = v_memory.as<float>();
    transform_source(image, source, tiles.begin, v);
    Prefetcher none;
    for (int64_t group = 0; group < taps.groups(); ++group) {
      const TileBlocks m{tiles.count(), taps.targets(group), taps.columns(group), m_memory.as<float>()};
      for (int at = 0; at < kPositions; ++at)
        for (int64_t block = 0; block < blocks; ++block)
          multiply(v, block, panels(group, block), at, tiles, at / 6, at % 6, m, none);
      BackTransform{image, m, tiles.begin, taps.first(group), target, epilogue}.run();
    }
  }

  // Four tiles: a task takes a vector of target channels.
  void by_vectors() const {
    TileBlocks v{image.tiles, C, padded(C)};
    Scratch v_memory(v.bytes());
    v.data = v_memory.as<float>();
    transform_source(image, source, 0, v);
    const TapGroups taps(weights, C, K, V::kSize, prepared);
    parallel_for(taps.groups(), 1, [&](int64_t group, int64_t) {
      TileBlocks m{image.tiles, taps.targets(group), V::kSize};
      Scratch m_memory(m.bytes());
      m.data = m_memory.as<float>();
      TapGroup own(taps, group);
      own.gather(0, C);
      const bool more = prepared.keeps() && group + 1 < taps.groups();
      fused_products(image, v, own.from(0), more ? TapGroup(taps, group + 1).from(0) : nullptr, m);
      BackTransform{image, m, 0, taps.first(group), target, epilogue}.run();
    });
  }

  // Few tiles and many weights: a task transforms the weights of its target channels where it uses them, a part of
  // the positions and of the sum at a time, so that the large transformed weights never leave the second-level cache.
  void by_channels(int64_t first, int64_t end) const {
    TileBlocks v{end - first, C, width};
    Scratch v_memory(v.bytes());
    v.data = v_memory.as<float>();
    transform_source(image, source, first, v);
    // Wider groups read the images less often; the data gradient would read its weights in worse order for it.
    const bool wide = few && !weights.turned && kVecRegisters == 32 && K >= 8 * kChannelGroup;
    const TapGroups taps(weights, C, K, wide ? 2 * kChannelGroup : kChannelGroup, prepared);
    parallel_for(taps.groups(), 1, [&](int64_t group, int64_t) { group_of_channels({first, end}, v, taps, group); });
  }

  void group_of_channels(TileRange tiles, const TileBlocks& v, const TapGroups& taps, int64_t group) const {
    const int64_t columns = taps.columns(group);
    TileBlocks m{v.tiles, taps.targets(group), columns};
    Scratch m_memory(m.bytes()), u_memory(WeightPanels{nullptr, width, columns}.bytes(12));
    m.data = m_memory.as<float>();
    TapGroup own(taps, group);
    Prefetcher next;
    // Few tiles: a part of the sum at a time, the products staying in L2. Else two rows of positions at a time.
    for (int64_t step = 0; step < 3 * blocks; ++step) {
      const int pair = static_cast<int>(few ? step % 3 : step / blocks);
      const int64_t block = few ? step / 3 : step % blocks;
      if (pair == 0) own.gather(block * width, depth(block));
      const WeightPanels u{u_memory.as<float>(), depth(block), columns};
      transform_weights_pair(pair, own.from(block * width), u);
      if (pair == 0) {
        next = Prefetcher();
        if (block + 1 < blocks) next = own.prefetcher((block + 1) * width, depth(block + 1));
        next.spread((few ? 36 : 12) * ceil_div(columns, kPanelWidth<float>) * ceil_div(v.tiles, kMaxTileRows));
      }
      for (int at = 0; at < 12; ++at) multiply(v, block, u, at, tiles, kRowPairs[pair][at / 6], at % 6, m, next);
    }
    BackTransform{image, m, tiles.begin, taps.first(group), target, epilogue}.run();
  }
};

}  // namespace

bool winograd_applies(const ConvGeometry& g) {
  return g.R == 3 && g.S == 3 && g.stride_h == 1 && g.stride_w == 1 && g.dil_h == 1 && g.dil_w == 1 && g.groups == 1 &&
         g.N * g.P * g.Q > 0;
}

void winograd_forward(const ConvGeometry& g, const float* x, const float* w, float* y, const Epilogue<float>& e,
                      const Prepared& prepared) {
  Pass{{g.N, g.H, g.W, g.C, g.P, g.Q, g.K, g.pad_top, g.pad_left}, x, {w, g.C, false}, y, e, prepared}.run();
}

void winograd_grad_input(const ConvGeometry& g, const float* dy, const float* w, float* dx, const Prepared& prepared) {
  Pass{{g.N, g.P, g.Q, g.K, g.H, g.W, g.C, 2 - g.pad_top, 2 - g.pad_left}, dy, {w, g.C, true}, dx, {}, prepared}.run();
}

}  // namespace paddock::cpu
