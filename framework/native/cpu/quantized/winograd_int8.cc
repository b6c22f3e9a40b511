// The loops around the transforms of winograd_int8.h. A task takes a panel of filters through all positions of a chunk
// of tiles; it transforms their weights, kept as bytes, where it uses them.
#include "cpu/quantized/winograd_int8.h"

#include <bit>

#include "core/storage.h"
#include "cpu/gemm/int8_tile.h"
#include "cpu/winograd/winograd_tiles.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kLanes = Vec<float>::kSize;
constexpr int64_t kWords = kVecBytes / 2;  // of a vector
constexpr int kTaps = 9;
constexpr int64_t kVecTaps = 2 * kLanes;    // a tap of a pair of channels and a vector of filters, in bytes
constexpr int32_t kMiddle = 128;            // taken from pixels, so that transformed ones are words
constexpr int64_t kMostChannels = 3640;     // 128 * 128 * 9 times as many are below 2^29
constexpr int64_t kChunkBytes = 384 << 10;  // transformed pixels and sums of a chunk of tiles, in the L2 cache
constexpr int64_t kLeastTiles = 12, kMostTiles = 66;  // of a task
constexpr int64_t kLeastChannels = std::max<int64_t>(16, kWords), kLeastPixels = 40;
constexpr int64_t kOwnChunks = 4;  // from so many on each task takes whole chunks

// Windows of a dilated kernel that meet lie a whole number of dilations apart: as if each remainder were an image. So
// many remainders have a pixel:
int64_t remainders_h(const ConvGeometry& g) { return std::min(g.dil_h, g.P); }
int64_t remainders_w(const ConvGeometry& g) { return std::min(g.dil_w, g.Q); }

TiledImage tiles_of(const ConvGeometry& g) {
  const int64_t images = g.N * remainders_h(g) * remainders_w(g);
  return {images, g.H, g.W, g.C, ceil_div(g.P, g.dil_h), ceil_div(g.Q, g.dil_w), g.K, 0, 0};
}

// A tile in the image: its first row and column, and how many of its rows and columns there are.
struct Target {
  int64_t n, h, w, rows, columns;

  Target(const ConvGeometry& g, const TilePlace& place)
      : n(place.n / (remainders_h(g) * remainders_w(g))),
        h(place.h * g.dil_h + place.n / remainders_w(g) % remainders_h(g)),
        w(place.w * g.dil_w + place.n % remainders_w(g)),
        rows(std::clamp<int64_t>(ceil_div(g.P - h, g.dil_h), 0, place.rows)),
        columns(std::clamp<int64_t>(ceil_div(g.Q - w, g.dil_w), 0, place.columns)) {}
};

// [K, 3, 3, C] weights as panels: what a filter's sums start with, then [pair of channels][vector of
// filters][tap][filter][channel] of each panel.
struct TapPanels {
  int64_t K, C;
  int32_t zero;  // what stands for 0 in x
  int64_t pairs = ceil_div(C, 2), padded_filters = ceil_div(K, kLanes) * kLanes;

  int64_t starts_bytes() const { return ceil_div(padded_filters * 4, 64) * 64; }
  int64_t bytes() const { return panel(padded_filters); }
  int64_t panel(int64_t k0) const { return starts_bytes() + k0 * pairs * 2 * kTaps; }

  void pack(const int8_t* weight, void* to) const {
    parallel_for(padded_filters, 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) pack_filter(k < K ? weight + k * kTaps * C : nullptr, k, to);
    });
  }

 private:
  void pack_filter(const int8_t* from, int64_t k, void* to) const {
    const int64_t k0 = k / kInt8Width * kInt8Width, vecs = panel_vecs<float>(K, k0);
    int8_t* const place = static_cast<int8_t*>(to) + panel(k0) + (k - k0) / kLanes * kTaps * kVecTaps + k % kLanes * 2;
    int32_t sum = 0;
    for (int64_t pair = 0; pair < pairs; ++pair)
      for (int64_t tap = 0; tap < kTaps; ++tap)
        for (int64_t i = 0; i < 2; ++i) {
          const int8_t w = from && 2 * pair + i < C ? from[tap * C + 2 * pair + i] : int8_t(0);
          place[(pair * vecs * kTaps + tap) * kVecTaps + i] = w;
          sum += w;
        }
    static_cast<int32_t*>(to)[k] = (kMiddle - zero) * sum;
  }
};

// Transformed pixels of some tiles as words [position][tile][channel].
struct Pixels {
  int64_t tiles, channels;  // channels in whole vectors
  // Of a position: an odd number of cache lines, so that those of a tile fall into different cache sets.
  int64_t stride = ((tiles * channels + 31) / 32 | 1) * 32;
  int16_t* data = nullptr;

  size_t bytes() const { return static_cast<size_t>(kPositions * stride) * sizeof(int16_t); }
  Pixels part(TileRange range) const { return {range.count(), channels, stride, data + range.begin * channels}; }
};

// The end of a row of a tile, here once for all kinds of tiles.
[[gnu::noinline]] void finish_row_of_tile(const Requantize& end, const int32_t* sums, int64_t width, int64_t pixels,
                                          int64_t channel, int64_t lanes, int64_t at, int64_t stride) {
  finish_rows(end, sums, width, pixels, channel, lanes, at, stride);
}

class ExactWinograd {
 public:
  // tile: gives the register tile of so many rows and vectors.
  ExactWinograd(const Int8Conv& conv, Int8TileFn (*tile)(int64_t, int64_t))
      : conv_(conv),
        tile_(tile),
        g_(conv.g),
        image_(tiles_of(g_)),
        panels_{g_.K, g_.C, conv.x_zero},
        channels_(ceil_div(g_.C, kWords) * kWords),
        border_(static_cast<size_t>(channels_)) {}

  void run() {
    weights_ = conv_.prepared.block("int8 taps", panels_.bytes(), [&](void* to) { panels_.pack(conv_.weight, to); });
    std::fill_n(border_.as<uint8_t>(), channels_, static_cast<uint8_t>(conv_.x_zero));
    const int64_t tile_bytes = kPositions * (2 * channels_ + 4 * kInt8Width);
    const int64_t room = std::clamp<int64_t>(kChunkBytes / tile_bytes, 24, kMostTiles);
    if (image_.tiles <= (kOwnChunks - 1) * room) return part_of({0, image_.tiles}, num_threads());
    const int64_t chunks = ceil_div(image_.tiles, room);
    parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) part_of(share(i, chunks, image_.tiles), 1);
    });
  }

 private:
  static TileRange share(int64_t i, int64_t parts, int64_t tiles) {
    return {i * tiles / parts, (i + 1) * tiles / parts};
  }

  // These tiles by so many threads; within a task the loops run in it.
  void part_of(TileRange tiles, int64_t threads) const {
    Pixels v{tiles.count(), channels_};
    const Scratch memory(v.bytes());
    v.data = memory.as<int16_t>();
    parallel_for(v.tiles, 4, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) transform_tile(tiles.begin + t, t, v);
    });
    // Enough tasks for the threads. Each transforms its weights, which pays for twelve tiles.
    const int64_t filters = ceil_div(g_.K, kInt8Width), wanted = ceil_div(2 * threads, filters);
    const int64_t parts = std::clamp(wanted, ceil_div(v.tiles, kMostTiles), ceil_div(v.tiles, kLeastTiles));
    parallel_for(filters * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const TileRange own = share(i % parts, parts, v.tiles);
        panel_of({tiles.begin + own.begin, tiles.begin + own.end}, v.part(own), i / parts * kInt8Width);
      }
    });
  }

  // -- pixels
  void transform_tile(int64_t tile, int64_t t, const Pixels& v) const {
    const TilePlace place = image_.at(tile);
    const Target target(g_, place);
    const uint8_t* pixels[kPositions];
    for (int64_t i = 0; i < 6; ++i)
      for (int64_t j = 0; j < 6; ++j) {
        const int64_t h = target.h - g_.pad_top + i * g_.dil_h, w = target.w - g_.pad_left + j * g_.dil_w;
        const bool inside = h >= 0 && h < g_.H && w >= 0 && w < g_.W;
        pixels[i * 6 + j] = inside ? conv_.x + ((target.n * g_.H + h) * g_.W + w) * g_.C : border_.as<uint8_t>();
      }
    with_valid(place.rows, [&](auto rows) {
      with_valid(place.columns, [&](auto columns) { transform_pixels<rows, columns>(pixels, t, v); });
    });
  }

  template <int kRows, int kColumns>
  void transform_pixels(const uint8_t* const (&pixels)[kPositions], int64_t t, const Pixels& v) const {
    const int64_t stride = v.stride, whole = g_.C / kWords * kWords;
    int16_t* const to = v.data + t * channels_;
    const auto run = [&](int64_t c, const auto& load) {
      transform_rectangle<ExactSource<kRows>, ExactSource<kColumns>>(
          [&](int i, int j) { return load(pixels[i * 6 + j] + c) - static_cast<int16_t>(kMiddle); },
          [&](int i, int j, Words value) {
            std::memcpy(to + position(kRows, kColumns, i, j) * stride + c, &value, sizeof value);
          });
    };
    for (int64_t c = 0; c < whole; c += kWords) run(c, load_widened);
    if (whole == g_.C) return;
    if (whole > 0) return run(g_.C - kWords, load_widened);
    run(0, [&](const uint8_t* p) {
      uint8_t some[kWords] = {};
      std::memcpy(some, p, static_cast<size_t>(g_.C));
      return load_widened(some);
    });
  }

  // -- weights
  // Row kRow of the positions of a panel, [position][pair of channels][vector], `stride` bytes from one to the next.
  template <int kRow>
  void transform_row(const int8_t* taps, int64_t vecs, char* to, int64_t stride) const {
    for (int64_t pair = 0; pair < panels_.pairs; ++pair, to += vecs * kVecBytes)
      for (int64_t vec = 0; vec < vecs; ++vec, taps += kTaps * kVecTaps) {
        Words column[3], row[6];
#pragma GCC unroll 3
        for (int s = 0; s < 3; ++s) {
          Words tap[3], all[6];
#pragma GCC unroll 3
          for (int r = 0; r < 3; ++r) tap[r] = (Words)WideningDot::weights(taps + (r * 3 + s) * kVecTaps);
          ExactWeights::run(tap, all);
          column[s] = all[kRow];
        }
        ExactWeights::run(column, row);
#pragma GCC unroll 6
        for (int j = 0; j < 6; ++j) std::memcpy(to + j * stride + vec * kVecBytes, &row[j], kVecBytes);
      }
  }

  // -- products
  void multiply(TileRange tiles, const Pixels& v, const int8_t* taps, int64_t vecs, int32_t* sums) const {
    const int64_t stride = panels_.pairs * vecs * kVecBytes + 64, width = vecs * kLanes;
    const Scratch memory(static_cast<size_t>(6 * stride));
    char* const u = memory.as<char>();
    for_rows_of_positions([&]<int kRow>(std::integral_constant<int, kRow>) {
      transform_row<kRow>(taps, vecs, u, stride);
      for (int j = 0; j < 6; ++j) {
        const int64_t at = kRow * 6 + j;
        const TileRange range = image_.with_position(tiles, kRow, j);
        multiply_tiles(v.data + at * v.stride, range, reinterpret_cast<const int8_t*>(u + j * stride), vecs,
                       sums + at * v.tiles * width);
      }
    });
  }

  void multiply_tiles(const int16_t* v, TileRange range, const int8_t* u, int64_t vecs, int32_t* sums) const {
    static constexpr int32_t kNone[kInt8Width] = {};
    const int64_t count = ceil_div(range.count(), kInt8TileRows);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t begin = range.begin + i * range.count() / count,
                    end = range.begin + (i + 1) * range.count() / count;
      const char* rows[kInt8TileRows];
      for (int64_t t = begin; t < end; ++t) rows[t - begin] = reinterpret_cast<const char*>(v + t * channels_);
      const auto* next = reinterpret_cast<const int8_t*>(v + end * channels_);
      tile_(end - begin, vecs)({rows, 1, panels_.pairs, u, kNone, next, sums + begin * vecs * kLanes});
    }
  }

  // -- y
  void panel_of(TileRange tiles, const Pixels& v, int64_t k0) const {
    const auto* weights = static_cast<const char*>(weights_->data());
    const auto* taps = reinterpret_cast<const int8_t*>(weights + panels_.panel(k0));
    const auto* start = reinterpret_cast<const int32_t*>(weights) + k0;
    const int64_t vecs = panel_vecs<float>(g_.K, k0), width = vecs * kLanes;
    const Scratch memory(static_cast<size_t>(kPositions * v.tiles * width) * sizeof(int32_t));
    auto* sums = memory.as<int32_t>();
    multiply(tiles, v, taps, vecs, sums);
    for (int64_t t = 0; t < v.tiles; ++t) {
      const TilePlace place = image_.at(tiles.begin + t);
      with_valid(place.rows, [&](auto rows) {
        with_valid(place.columns, [&](auto columns) {
          back<rows, columns>(place, sums + t * width, v.tiles * width, start, k0, width);
        });
      });
    }
  }

  // The pixels of a tile: `sums` of its first position, those of the next `stride` behind.
  template <int kRows, int kColumns>
  void back(const TilePlace& place, const int32_t* sums, int64_t stride, const int32_t* start, int64_t k0,
            int64_t width) const {
    constexpr uint32_t kFactor = ExactTarget<kRows>::kFactor * ExactTarget<kColumns>::kFactor;
    constexpr int kShift = std::countr_zero(kFactor);
    constexpr uint32_t kInverse = inverse(kFactor >> kShift);
    alignas(kVecBytes) int32_t y[kRows * kColumns * kInt8Width];
    for (int64_t k = 0; k < width; k += kLanes) {
      const Int32s from = load_int32s(start + k);
      transform_rectangle<ExactTarget<kRows>, ExactTarget<kColumns>>(
          [&](int i, int j) { return (UInt32s)load_int32s(sums + position(kRows, kColumns, i, j) * stride + k); },
          [&](int i, int j, UInt32s value) {
            store_int32s(wrapping_sum((Int32s)(value * kInverse) >> kShift, from), y + (i * kColumns + j) * width + k);
          });
    }
    const int64_t lanes = std::min(width, g_.K - k0);
    const Target target(g_, place);
    for (int64_t i = 0; i < target.rows; ++i) {
      const int64_t at = ((target.n * g_.P + target.h + i * g_.dil_h) * g_.Q + target.w) * g_.K + k0;
      finish_row_of_tile(conv_.end, y + i * kColumns * width, width, target.columns, k0, lanes, at, g_.dil_w * g_.K);
    }
  }

  // Of an odd number, modulo 2^32: each step of Newton's doubles the bits that are right.
  static constexpr uint32_t inverse(uint32_t odd) {
    uint32_t x = odd;
    for (int i = 0; i < 4; ++i) x *= 2 - odd * x;
    return x;
  }

  const Int8Conv& conv_;
  Int8TileFn (*const tile_)(int64_t, int64_t);
  const ConvGeometry& g_;
  const TiledImage image_;
  const TapPanels panels_;
  const int64_t channels_;  // in whole vectors of words
  const Scratch border_;
  std::shared_ptr<Storage> weights_;
};

}  // namespace

bool winograd_int8_applies(const Int8Conv& conv) {
  const ConvGeometry& g = conv.g;
  return g.R == 3 && g.S == 3 && g.stride_h == 1 && g.stride_w == 1 && g.groups == 1 && g.N * g.P * g.Q > 0 &&
         !conv.words() && g.C <= kMostChannels;
}

bool winograd_int8_pays(const Int8Conv& conv) {
  if (!winograd_int8_applies(conv)) return false;
  const ConvGeometry& g = conv.g;
  const int64_t pixels = g.N * g.P * g.Q;
  // Fewer pixels or channels do not make up for the transforms (measured on AVX2).
  return g.C >= kLeastChannels && pixels >= kLeastPixels && 2 * tiles_of(g).products() <= kTaps * pixels;
}

void winograd_int8(const Int8Conv& conv, [[maybe_unused]] bool byte_dot) {
#if defined(PADDOCK_BYTE_DOT)
  if (byte_dot) return ExactWinograd(conv, int8_tile<OfWords<WordDot>>).run();
#endif
  ExactWinograd(conv, int8_tile<OfWords<WideningDot>>).run();
}

}  // namespace paddock::cpu
