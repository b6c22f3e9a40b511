// Convolution as a product of pixels with panels of weights: a tap of a pixel is a row of A that lies in the image.
// Where a tap's channels do not fill whole groups of the dot product (an RGB image), pixels are gathered first.
#include "cpu/quantized/conv_int8.h"

#include <vector>

#include "core/storage.h"
#include "cpu/gemm/int8_product.h"
#include "cpu/gemm/int8_tile.h"
#include "cpu/kernel.h"
#include "cpu/quantized/winograd_int8.h"
#include "op/record.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kBandPixels = 192;          // of y in a task
constexpr int64_t kTasksWanted = 32;          // enough to even out the threads of a large machine
constexpr int64_t kTaskOperations = 1 << 21;  // multiply-adds that make a task worth its start
constexpr int64_t kTilesTogether = 4;         // whose sums are finished together
constexpr int64_t kCopy = 16;                 // bytes that a short copy moves at a time

// Whether the image with the borders that windows reach is not much larger than without.
bool has_small_borders(const ConvGeometry& g) {
  const int64_t height = (g.P - 1) * g.stride_h + (g.R - 1) * g.dil_h + 1,
                width = (g.Q - 1) * g.stride_w + (g.S - 1) * g.dil_w + 1;
  return height <= 4 * g.H + 64 && width <= 4 * g.W + 64;
}

template <class D>
class PixelProduct {
  using Row = typename D::Row;

 public:
  explicit PixelProduct(const Int8Conv& conv)
      : conv_(conv),
        g_(conv.g),
        channels_(g_.C / g_.groups),
        filters_(g_.K / g_.groups),
        in_rows_(sizeof(Row) > 1 && !conv.words() && channels_ % D::kGroup != 0 && g_.groups == 1 && g_.dil_w == 1 &&
                 has_small_borders(g_)),
        gathered_(channels_ % D::kGroup != 0 && !in_rows_),
        height_(in_rows_ ? (g_.P - 1) * g_.stride_h + (g_.R - 1) * g_.dil_h + 1 : g_.H),
        width_(in_rows_ ? (g_.Q - 1) * g_.stride_w + g_.S : g_.W),
        top_(in_rows_ ? 0 : g_.pad_top),
        left_(in_rows_ ? 0 : g_.pad_left),
        columns_(in_rows_ ? 1 : g_.S),
        tap_(in_rows_ ? ceil_div(g_.S * channels_, D::kGroup) * D::kGroup : channels_),
        depth_(g_.R * columns_ * tap_),
        pixels_(g_.N * g_.P * g_.Q),
        work_(pixels_ * filters_ * depth_ * g_.groups),
        bands_(ceil_div(pixels_, kBandPixels)),
        parts_(std::min(ceil_div(filters_, kInt8Width),
                        ceil_div(std::clamp<int64_t>(work_ / kTaskOperations, 1, kTasksWanted), bands_ * g_.groups))),
        in_bands_(sizeof(Row) > 1 && !conv.words() && !gathered_ && !in_rows_ && g_.groups == 1 && parts_ <= 2 &&
                  g_.R * g_.S == 1 && g_.P == g_.H && g_.Q == g_.W && g_.stride_h == 1 && g_.stride_w == 1),
        panels_{filters_, depth_, conv.x_zero},
        count_(g_.N * height_ * width_ * g_.C),
        wide_(sizeof(Row) == 1 || in_bands_ ? 0 : static_cast<size_t>(count_ + D::kGroup) * sizeof(Row)),
        border_(static_cast<size_t>(channels_) * sizeof(Row)) {}

  void run() {
    const int64_t size = panels_.bytes();
    weights_ = conv_.prepared.block(cat("int8 filters for ", D::kName), g_.groups * size, [&](void* to) {
      if (conv_.words()) expect_exact_sums("quantized_conv2d", conv_.weight, g_.K, depth_, conv_.x_most);
      if (in_rows_) return panels_.pack(weights_in_rows().data(), to);
      for (int64_t i = 0; i < g_.groups; ++i)
        panels_.pack(conv_.weight + i * filters_ * depth_, static_cast<char*>(to) + i * size);
    });
    std::fill_n(border_.template as<Row>(), channels_, Row(conv_.x_zero));
    image_ = conv_.x;
    image_end_ = reinterpret_cast<const char*>(conv_.x + count_);
    if (sizeof(Row) > 1 && !in_bands_) {
      image_ = wide_.template as<Row>();
      image_end_ = reinterpret_cast<const char*>(wide_.template as<Row>() + count_);
      in_rows_ ? widen_rows() : widen();
    }
    const int64_t panels = ceil_div(filters_, kInt8Width), tasks = bands_ * g_.groups * parts_;
    parallel_for(tasks, std::max<int64_t>(1, kTaskOperations / std::max<int64_t>(1, work_ / tasks) / 8),
                 [&](int64_t first, int64_t last) {
                   for (int64_t i = first; i < last; ++i) {
                     const int64_t band = i / (g_.groups * parts_), group = i / parts_ % g_.groups, part = i % parts_;
                     band_of(group, band * pixels_ / bands_, (band + 1) * pixels_ / bands_, part * panels / parts_,
                             (part + 1) * panels / parts_);
                   }
                 });
  }

 private:
  void widen() {
    Row* to = wide_.template as<Row>();
    if (conv_.words()) return round_to_words(conv_, count_, reinterpret_cast<int16_t*>(to));
    parallel_for(count_, 1 << 16,
                 [&](int64_t begin, int64_t end) { std::copy(conv_.x + begin, conv_.x + end, to + begin); });
  }

  // With the borders that windows reach, so that each row of a window is one stretch.
  void widen_rows() {
    Row* const to = wide_.template as<Row>();
    const Row zero(conv_.x_zero);
    const int64_t left = std::min(g_.pad_left, width_), right = std::clamp<int64_t>(g_.W + left, left, width_);
    parallel_for(g_.N * height_, row_grain(width_ * g_.C), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t h = i % height_ - g_.pad_top;
        const bool inside = h >= 0 && h < g_.H;
        const uint8_t* from = conv_.x + (i / height_ * g_.H + h) * g_.W * g_.C;
        Row* row = std::fill_n(to + i * width_ * g_.C, (inside ? left : width_) * g_.C, zero);
        if (!inside) continue;
        row = std::copy_n(from, (right - left) * g_.C, row);
        std::fill_n(row, (width_ - right) * g_.C, zero);
      }
    });
    std::fill_n(to + count_, D::kGroup, Row(0));  // the last stretch is read in whole groups
  }

  // Each row of a filter, with zeros up to whole groups.
  std::vector<int8_t> weights_in_rows() const {
    const int64_t line = g_.S * channels_;
    std::vector<int8_t> rows(static_cast<size_t>(filters_ * depth_));
    for (int64_t i = 0; i < filters_ * g_.R; ++i) std::copy_n(conv_.weight + i * line, line, rows.data() + i * tap_);
    return rows;
  }

  // Output pixels [begin, end) of a group's filters, panels [first, last).
  void band_of(int64_t group, int64_t begin, int64_t end, int64_t first, int64_t last) const {
    const int64_t tiles = ceil_div(end - begin, kInt8TileRows), taps = gathered_ ? 1 : g_.R * columns_;
    const int64_t stride = panels_.padded_depth * static_cast<int64_t>(sizeof(Row));
    const Scratch gathered(gathered_ ? static_cast<size_t>((end - begin) * stride + kCopy) : 1);
    const Scratch table(static_cast<size_t>(tiles * taps * kInt8TileRows) * sizeof(char*));
    const char** rows = table.as<const char*>();
    const Scratch starts(static_cast<size_t>(tiles + 1) * sizeof(int64_t));
    auto* const start = starts.as<int64_t>();
    for (int64_t i = 0; i <= tiles; ++i) start[i] = begin + i * (end - begin) / tiles;
    const Scratch wide(in_bands_ ? static_cast<size_t>((end - begin) * g_.C) * sizeof(Row) : 1);
    if (in_bands_) std::copy(conv_.x + begin * g_.C, conv_.x + end * g_.C, wide.as<Row>());
    Pixel pixel = pixel_of(begin);
    for (int64_t i = 0; i < tiles; ++i)
      for (int64_t m = start[i], stop = start[i + 1]; m < stop; ++m, advance(pixel)) {
        const char** at = rows + i * taps * kInt8TileRows + (m - start[i]);
        if (in_bands_) {
          *at = reinterpret_cast<const char*>(wide.as<Row>() + (m - begin) * g_.C);
        } else if (gathered_) {
          *at = gathered.as<char>() + (m - begin) * stride;
          gather(pixel, group, reinterpret_cast<Row*>(gathered.as<char>() + (m - begin) * stride));
        } else {
          point(pixel, group, at);
        }
      }
    const char* weights = static_cast<const char*>(weights_->data()) + group * panels_.bytes();
    const int64_t steps = (gathered_ ? panels_.padded_depth : tap_) / D::kGroup;
    alignas(kVecBytes) int32_t sums[kTilesTogether * kInt8TileRows * kInt8Width];
    for (int64_t panel = first; panel < last; ++panel) {
      const int64_t n = panel * kInt8Width, vecs = panel_vecs<float>(filters_, n);
      const int64_t width = vecs * Vec<float>::kSize, bytes = width * panels_.padded_depth;
      const auto* b = reinterpret_cast<const int8_t*>(weights + panels_.panel(n));
      const int8_t* next = n + kInt8Width < filters_ ? b + bytes : b;
      const int64_t share = bytes / tiles / 64 * 64;
      const int64_t channel = group * filters_ + n;
      for (int64_t i = 0; i < tiles;) {
        const int64_t m = start[i];
        int64_t count = 0;
        for (const int64_t stop = std::min(tiles, i + kTilesTogether); i < stop; ++i) {
          const int64_t more = start[i + 1] - start[i];
          int8_tile<D>(more,
                       vecs)({rows + i * taps * kInt8TileRows, taps, steps, b,
                              reinterpret_cast<const int32_t*>(weights) + n, next + i * share, sums + count * width});
          count += more;
        }
        finish_rows(conv_.end, sums, width, count, channel, std::min(width, filters_ - n), m * g_.K + channel, g_.K);
      }
    }
  }

  // A pixel of y: its place, and where tap (0, 0) of its window lies.
  struct Pixel {
    int64_t q, p;
    const Row* image;
    int64_t h, w;
  };

  Pixel pixel_of(int64_t m) const {
    const int64_t q = m % g_.Q, p = m / g_.Q % g_.P, n = m / g_.Q / g_.P;
    return {q, p, static_cast<const Row*>(image_) + n * height_ * width_ * g_.C, p * g_.stride_h - top_,
            q * g_.stride_w - left_};
  }

  // To the next pixel; divisions would cost more than a small product.
  void advance(Pixel& o) const {
    o.w += g_.stride_w;
    if (++o.q < g_.Q) return;
    o.q = 0;
    o.w = -left_;
    o.h += g_.stride_h;
    if (++o.p < g_.P) return;
    o.p = 0;
    o.h = -top_;
    o.image += height_ * width_ * g_.C;
  }

  // Where each tap of a pixel finds its channels.
  void point(const Pixel& o, int64_t group, const char** at) const {
    for (int64_t r = 0; r < g_.R; ++r) {
      const int64_t h = o.h + r * g_.dil_h;
      const bool row_inside = h >= 0 && h < height_;
      for (int64_t s = 0; s < columns_; ++s, at += kInt8TileRows) {
        const int64_t w = o.w + s * g_.dil_w;
        const bool inside = row_inside && w >= 0 && w < width_;
        const Row* pixel = inside ? o.image + (h * width_ + w) * g_.C + group * channels_ : border_.template as<Row>();
        *at = reinterpret_cast<const char*>(pixel);
      }
    }
  }

  // All taps of a pixel, one after the other.
  void gather(const Pixel& o, int64_t group, Row* to) const {
    const bool whole = g_.groups == 1 && g_.dil_w == 1;  // a kernel row is one stretch of the image
    const Row zero(conv_.x_zero);
    Row* const end = to + panels_.padded_depth;
    for (int64_t r = 0; r < g_.R; ++r) {
      const int64_t h = o.h + r * g_.dil_h;
      const bool inside = h >= 0 && h < g_.H;
      const Row* row = o.image + h * g_.W * g_.C + group * channels_;
      if (whole) {
        const int64_t from = inside ? std::clamp<int64_t>(-o.w, 0, g_.S) : g_.S;
        const int64_t until = std::clamp<int64_t>(g_.W - o.w, from, g_.S);
        to = std::fill_n(to, from * channels_, zero);
        if (until > from) to = copied(row + (o.w + from) * g_.C, (until - from) * channels_, to);
        to = std::fill_n(to, (g_.S - until) * channels_, zero);
        continue;
      }
      for (int64_t s = 0; s < g_.S; ++s) {
        const int64_t w = o.w + s * g_.dil_w;
        const bool in = inside && w >= 0 && w < g_.W;
        to = in ? copied(row + w * g_.C, channels_, to) : std::fill_n(to, channels_, zero);
      }
    }
    std::fill(to, end, Row(0));
  }

  // Copies a short stretch in whole pieces of kCopy bytes, whose rest the next stretch overwrites; behind the last one
  // there is room.
  Row* copied(const Row* from, int64_t n, Row* to) const {
    const auto bytes = n * static_cast<int64_t>(sizeof(Row));
    const auto* source = reinterpret_cast<const char*>(from);
    if (image_end_ - source < bytes + kCopy) return std::copy_n(from, n, to);
    for (int64_t i = 0; i < bytes; i += kCopy) std::memcpy(reinterpret_cast<char*>(to) + i, source + i, kCopy);
    return to + n;
  }

  const Int8Conv& conv_;
  const ConvGeometry& g_;
  const int64_t channels_, filters_;  // of a group
  const bool in_rows_;                // a tap is a row of the window
  const bool gathered_;
  const int64_t height_, width_, top_, left_;  // of the image as it is read, and its borders
  const int64_t columns_, tap_, depth_;        // taps in a row of the window, numbers of a tap and of all
  const int64_t pixels_, work_;                // of y; multiply-adds
  const int64_t bands_, parts_;                // tasks: bands of pixels, and parts of the filters
  const bool in_bands_;  // bytes become words in the task that reads them: hardly one is read by another
  const Int8Panels<D> panels_;
  const int64_t count_;  // numbers of the image as it is read
  const Scratch wide_, border_;
  const void* image_ = nullptr;
  const char* image_end_ = nullptr;
  std::shared_ptr<Storage> weights_;
};

// How a convolution is computed.
struct Way {
  bool byte_dot;  // by the processor's dot products of bytes, or of words beside them
  bool winograd, depthwise;
};

Way way_of(const Int8Conv& conv) {
#if defined(PADDOCK_BYTE_DOT)
  static const bool has_dot = has_byte_dot();
#else
  constexpr bool has_dot = false;
#endif
  const bool byte_dot = has_dot && conv.algorithm != Int8Algorithm::kWidening;
  // Rows of windows are interleaved with their borders; what reaches far out is gathered.
  if (is_depthwise(conv.g)) return {byte_dot, false, has_small_borders(conv.g)};
  if (conv.algorithm == Int8Algorithm::kWinograd) return {byte_dot, winograd_int8_applies(conv), false};
  return {byte_dot, conv.algorithm == Int8Algorithm::kAuto && !has_dot && winograd_int8_pays(conv), false};
}

const char* name_of_products([[maybe_unused]] const Int8Conv& conv, [[maybe_unused]] bool byte_dot) {
#if defined(PADDOCK_BYTE_DOT)
  if (byte_dot) return conv.words() ? WordDot::kName : ImageDot::kName;
#endif
  return WideningDot::kName;
}

}  // namespace

void round_to_words(const Int8Conv& conv, int64_t n, int16_t* to) {
  const auto most = static_cast<float>(conv.x_most);
  const auto put = [&](Int32s q, int64_t at, int64_t lanes) {
    const LaneWords words = narrowed_to_words(q);
    if (lanes == Vec<float>::kSize)
      std::memcpy(to + at, &words, sizeof words);
    else
      std::memcpy(to + at, &words, static_cast<size_t>(lanes) * sizeof(int16_t));
  };
  if (round_all(conv.x32, n, conv.x_scale, -most, most, 0, put))
    fail(ErrorKind::kNumerics, "quantized_conv2d: x holds a NaN, which 16 bits have no number for");
}

void note_algorithm(const Int8Conv& conv) {
  const Way way = way_of(conv);
  if (way.winograd) return note_implementation("exact Winograd");
  const char* products = name_of_products(conv, way.byte_dot);
  way.depthwise ? note_implementation("depthwise, ", products) : note_implementation(products);
}

void conv2d_int8(const Int8Conv& conv) {
  const Way way = way_of(conv);
  if (way.depthwise) return depthwise_int8(conv, !way.byte_dot);
  if (way.winograd) return winograd_int8(conv, way.byte_dot);
#if defined(PADDOCK_BYTE_DOT)
  if (way.byte_dot) return conv.words() ? PixelProduct<WordDot>(conv).run() : PixelProduct<ImageDot>(conv).run();
#endif
  PixelProduct<WideningDot>(conv).run();
}

}  // namespace paddock::cpu
