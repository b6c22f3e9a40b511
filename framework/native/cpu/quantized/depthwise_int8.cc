// Depthwise convolution of images of 8 or 16 bits: the rows that a window covers are interleaved, so that a lane holds
// a channel of several rows and one dot product adds up a column of the window.
#include "core/storage.h"
#include "cpu/gemm/gemm_tile.h"
#include "cpu/gemm/int8_product.h"
#include "cpu/kernel.h"
#include "cpu/quantized/conv_int8.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kLanes = Vec<float>::kSize;
constexpr int64_t kTaskOperations = 1 << 18;  // multiply-adds of a task

// T: what a number of the image is, uint8_t or int16_t. Windows of 3 x 3 bytes by pairs are five products: three of the
// first two rows, one of two neighbours of the third row, one of its last.
template <class D, class T>
class Depthwise {
  static constexpr bool kWords = sizeof(T) == 2;
  static constexpr int kVecs = kWords ? 2 : 4;  // of sums; channels of a block are as many as a vector has of T
  static constexpr int64_t kBlock = kVecs * kLanes, kVecWeights = kLanes * D::kGroup * D::kWeightBytes;
  static constexpr int kColumns = (kVecRegisters == 32 ? 16 : 8) / kVecs;
  static constexpr int kChunk = 8;  // columns of y by vectors; windows of the last ones may lie behind the row
  static constexpr int64_t kGroupBytes = kVecs * kVecBytes;  // of a column of the interleaved rows

 public:
  explicit Depthwise(const Int8Conv& conv)
      : conv_(conv),
        g_(conv.g),
        blocks_(ceil_div(g_.C, kBlock)),
        row_groups_(ceil_div(g_.R, D::kGroup)),
        columns_((g_.Q - 1) * g_.stride_w + (g_.S - 1) * g_.dil_w + 1),
        in_fives_(!kWords && D::kGroup == 2 && g_.R == 3 && g_.S == 3),
        taps_(in_fives_ ? 5 : row_groups_ * g_.S),
        words_(kWords ? static_cast<size_t>(g_.N * g_.H * g_.W * g_.C) * sizeof(T) : 1),
        ends_(static_cast<size_t>(blocks_ * kBlock * 2) * sizeof(float)) {}

  void run() {
    const int64_t starts = blocks_ * kBlock * static_cast<int64_t>(sizeof(int32_t));
    const int64_t vectors = blocks_ * taps_ * kVecs, bytes = starts + vectors * kVecWeights;
    const auto what = cat("int8 depthwise for ", 8 * sizeof(T), " bits, ", D::kName);
    weights_ = conv_.prepared.block(what, bytes, [&](void* to) {
      if (kWords) expect_exact_sums("quantized_conv2d", conv_.weight, g_.K, g_.R * g_.S, conv_.x_most);
      std::fill_n(static_cast<char*>(to), bytes, char(0));
      auto* const start = static_cast<int32_t*>(to);
      auto* const weights = static_cast<int8_t*>(to) + starts;
      // Weights that are to be words lie in the upper half first, as bytes, and are widened from the lowest on.
      auto* const narrow = weights + (D::kWeightBytes - 1) * vectors * kLanes * D::kGroup;
      for (int64_t c = 0; c < g_.C; ++c) pack(c, start, narrow);
      if constexpr (D::kWeightBytes == 2)
        for (int64_t v = 0; v < vectors; ++v)
          store_int32s(D::widened_weights(narrow + v * kLanes * D::kGroup), weights + v * kVecWeights);
    });
    starts_ = static_cast<const int32_t*>(weights_->data());
    taps_of_ = static_cast<const int8_t*>(weights_->data()) + starts;
    for (int64_t c = 0; c < blocks_ * kBlock; ++c) {
      ends_.template as<float>()[place(c)] = c < g_.C ? conv_.end.factor[c] : 0.0f;
      ends_.template as<float>()[blocks_ * kBlock + place(c)] = c < g_.C ? conv_.end.bias[c] : 0.0f;
    }
    plain_ = !kWords && conv_.end.plain() && !conv_.end.residual8;
    std::fill_n(border_, kBlock, static_cast<T>(kWords ? 0 : conv_.x_zero));
    const int64_t count = g_.N * g_.H * g_.W * g_.C;
    if constexpr (kWords)
      round_to_words(conv_, count, words_.template as<T>()), image_ = words_.template as<T>();
    else
      image_ = conv_.x;
    image_end_ = reinterpret_cast<const uint8_t*>(image_ + count);
    const int64_t work = g_.Q * g_.C * g_.R * g_.S + 1;
    parallel_for(g_.N * g_.P, std::max<int64_t>(1, kTaskOperations / work), [&](int64_t begin, int64_t end) {
      const Scratch mixed(static_cast<size_t>((columns_ + kChunk * g_.stride_w) * row_groups_ * kGroupBytes));
      for (int64_t i = begin; i < end; ++i)
        for (int64_t block = 0; block < blocks_; ++block) row(i / g_.P, i % g_.P, block, mixed.as<char>());
    });
  }

 private:
  // Where a channel stands among those of its block's vectors.
  static int64_t place(int64_t c) {
    constexpr int64_t kTogether = 4 * kVecs;  // in 16 bytes of each vector
    const int64_t in = c % kBlock;
    return c / kBlock * kBlock + in % kTogether / 4 * kLanes + in / kTogether * 4 + in % 4;
  }

  // The channel of a block that lane `lane` of vector `vec` holds; see packed_bytes and in_order.
  static constexpr int64_t channel_of(int64_t vec, int64_t lane) { return lane / 4 * 4 * kVecs + vec * 4 + lane % 4; }

  void pack(int64_t c, int32_t* start, int8_t* to) const {
    uint32_t sum = 0;
    const int64_t block = c / kBlock, at = place(c) % kBlock;
    for (int64_t r = 0; r < g_.R; ++r)
      for (int64_t s = 0; s < g_.S; ++s) {
        const int8_t w = conv_.weight[(c * g_.R + r) * g_.S + s];
        int64_t tap = s * row_groups_ + r / D::kGroup, in = r % D::kGroup;
        if (in_fives_) tap = r < 2 ? s : 3 + s / 2, in = r < 2 ? r : s % 2;
        to[((block * taps_ + tap) * kBlock + at) * D::kGroup + in] = w;
        sum += static_cast<uint32_t>(w);
      }
    const uint32_t first = static_cast<uint32_t>(D::kTaken - conv_.x_zero) * sum;
    std::memcpy(start + block * kBlock + at, &first, sizeof first);
  }

  // Row p of image n of y, for the channels of a block.
  void row(int64_t n, int64_t p, int64_t block, char* mixed) const {
    mix(n, p, block, mixed);
    if constexpr (D::kWeightBytes == 2) return by_vectors(n, p, block, mixed);
    int64_t q = 0;
    for (; q + kColumns <= g_.Q; q += kColumns) columns<kColumns>(n, p, q, block, mixed);
    for (; q < g_.Q; ++q) columns<1>(n, p, q, block, mixed);
  }

  // A row of the image in the pairs or fours of interleaved ones.
  struct Source {
    const T* at;    // its first pixel
    int64_t step;   // to the next one; 0 of a row of the border
    int64_t shift;  // the pixels that it is ahead
  };

  // Interleaves the rows that windows of row p cover: [columns][row groups][vectors].
  void mix(int64_t n, int64_t p, int64_t block, char* to) const {
    const int64_t c = block * kBlock, lanes = std::min(kBlock, g_.C - c), top = p * g_.stride_h - g_.pad_top;
    for (int64_t group = 0; group < row_groups_; ++group, to += kGroupBytes) {
      Source rows[D::kGroup];
      bool whole = true;  // whole vectors may be read everywhere
      for (int64_t i = 0; i < D::kGroup; ++i) {
        const bool ahead = in_fives_ && group == 1;
        const int64_t r = ahead ? 2 : group * D::kGroup + i, h = top + r * g_.dil_h;
        if (r < g_.R && h >= 0 && h < g_.H) {
          rows[i] = {image_ + (n * g_.H + h) * g_.W * g_.C + c, g_.C, ahead ? i * g_.dil_w : 0};
          const auto* last = reinterpret_cast<const uint8_t*>(rows[i].at + (g_.W - 1) * g_.C);
          whole = whole && (lanes == kBlock || image_end_ - last >= kVecBytes);
        } else {
          rows[i] = {border_, 0, 0};
        }
      }
      whole ? mix_rows<true>(rows, lanes, to) : mix_rows<false>(rows, lanes, to);
    }
  }

  template <bool kWhole>
  void mix_rows(const Source (&rows)[D::kGroup], int64_t lanes, char* to) const {
    const int64_t pixel = row_groups_ * kGroupBytes;
    const int64_t ahead = rows[D::kGroup - 1].shift;
    const auto column = [&](int64_t w, auto&& row_at) __attribute__((always_inline)) {
      Bytes row[D::kGroup];
#pragma GCC unroll 4
      for (int i = 0; i < D::kGroup; ++i) row[i] = row_at(rows[i], w);
      Int32s a[kVecs];
      if constexpr (kWords)
        D::groups_of_words(row, a);
      else
        D::groups(row, a);
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) store_int32s(a[v], to + v * kVecBytes);
      to += pixel;
    };
    const auto inside = [&](const Source& row, int64_t w) __attribute__((always_inline)) {
      const T* p = row.at + (w + row.shift) * row.step;
      if (kWhole) return *reinterpret_cast<const UnalignedBytes*>(p);
      return load_first_bytes(reinterpret_cast<const uint8_t*>(p), lanes * static_cast<int64_t>(sizeof(T)),
                              row.step ? image_end_ : reinterpret_cast<const uint8_t*>(border_ + kBlock));
    };
    const auto anywhere = [&](const Source& row, int64_t w) {
      const bool in_image = w + row.shift >= 0 && w + row.shift < g_.W;
      return in_image ? inside(row, w) : *reinterpret_cast<const UnalignedBytes*>(border_);
    };
    const int64_t first = -g_.pad_left, end = first + columns_;
    const int64_t from = std::clamp<int64_t>(0, first, end), till = std::clamp<int64_t>(g_.W - ahead, from, end);
    for (int64_t w = first; w < from; ++w) column(w, anywhere);
    for (int64_t w = from; w < till; ++w) column(w, inside);
    for (int64_t w = till; w < end; ++w) column(w, anywhere);
  }

  // A row of y, a vector of channels of some columns at a time: few registers hold weights then, or sums.
  void by_vectors(int64_t n, int64_t p, int64_t block, const char* mixed) const {
    const int64_t step = g_.stride_w * row_groups_ * kGroupBytes;
    alignas(kVecBytes) int32_t sums[kChunk * kBlock];
    for (int64_t q = 0; q < g_.Q; q += kChunk, mixed += kChunk * step) {
      const int64_t count = std::min<int64_t>(kChunk, g_.Q - q);
      for (int64_t v = 0; v < kVecs; ++v) {
        const Int32s start = load_int32s(starts_ + block * kBlock + v * kLanes);
        const int8_t* w = taps_of_ + (block * taps_ * kVecs + v) * kVecWeights;
        const char* x = mixed + v * kVecBytes;
        int32_t* to = sums + v * kLanes;
        if (in_fives_) {
          fives(x, w, start, count, to);
        } else {
          count > kChunk / 2 ? window_sums<kChunk>(x, w, start, to) : window_sums<kChunk / 2>(x, w, start, to);
        }
      }
      finish(
          [&](int64_t i, Int32s(&sum)[kVecs]) __attribute__((always_inline)) {
            for (int v = 0; v < kVecs; ++v) sum[v] = load_int32s(sums + i * kBlock + v * kLanes);
          },
          count, ((n * g_.P + p) * g_.Q + q) * g_.C + block * kBlock, block);
    }
  }

  PADDOCK_INLINE void fives(const char* x, const int8_t* w, Int32s start, int64_t count, int32_t* to) const {
    const int64_t pixel = row_groups_ * kGroupBytes, step = g_.stride_w * pixel, next = g_.dil_w * pixel;
    Int32s weights[5];
#pragma GCC unroll 5
    for (int64_t i = 0; i < 5; ++i) weights[i] = D::weights(w + i * kVecs * kVecWeights);
    for (int64_t i = 0; i < count; ++i, x += step) {
      Int32s sum = D::add(start, load_int32s(x), weights[0]);
      sum = D::add(sum, load_int32s(x + next), weights[1]);
      sum = D::add(sum, load_int32s(x + 2 * next), weights[2]);
      sum = D::add(sum, load_int32s(x + kGroupBytes), weights[3]);
      sum = D::add(sum, load_int32s(x + 2 * next + kGroupBytes), weights[4]);
      store_int32s(sum, to + i * kBlock);
    }
  }

  template <int kCount>
  PADDOCK_INLINE void window_sums(const char* x, const int8_t* w, Int32s start, int32_t* to) const {
    const int64_t pixel = row_groups_ * kGroupBytes, step = g_.stride_w * pixel;
    Int32s sum[kCount];
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) sum[i] = start;
    for (int64_t s = 0; s < g_.S; ++s, x += g_.dil_w * pixel)
      for (int64_t group = 0; group < row_groups_; ++group, w += kVecs * kVecWeights) {
        const Int32s weights = D::weights(w);
#pragma GCC unroll 8
        for (int i = 0; i < kCount; ++i)
          sum[i] = D::add(sum[i], load_int32s(x + group * kGroupBytes + i * step), weights);
      }
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) store_int32s(sum[i], to + i * kBlock);
  }

  template <int kCount>
  void columns(int64_t n, int64_t p, int64_t q, int64_t block, const char* mixed) const {
    const int64_t pixel = row_groups_ * kGroupBytes, step = g_.stride_w * pixel;
    const char* x = mixed + q * step;
    const int8_t* w = taps_of_ + block * taps_ * kVecs * kVecWeights;
    Int32s sum[kCount][kVecs];
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      const Int32s start = load_int32s(starts_ + block * kBlock + v * kLanes);
#pragma GCC unroll 8
      for (int i = 0; i < kCount; ++i) sum[i][v] = start;
    }
    for (int64_t s = 0; s < g_.S; ++s, x += g_.dil_w * pixel)
      for (int64_t group = 0; group < row_groups_; ++group, w += kVecs * kVecWeights) {
        const char* at = x + group * kGroupBytes;
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v) {
          const Int32s weights = D::weights(w + v * kVecWeights);
#pragma GCC unroll 8
          for (int i = 0; i < kCount; ++i)
            sum[i][v] = D::add(sum[i][v], load_int32s(at + i * step + v * kVecBytes), weights);
        }
      }
    finish(
        [&](int64_t i, Int32s(&of)[kVecs]) __attribute__((always_inline)) {
#pragma GCC unroll 4
          for (int v = 0; v < kVecs; ++v) of[v] = sum[i][v];
        },
        std::integral_constant<int, kCount>{}, ((n * g_.P + p) * g_.Q + q) * g_.C + block * kBlock, block);
  }

  // Sums of `count` neighbours, which `sums_of` gives in the order of their vectors, to y from `at` on.
  template <class Sums, class Count>
  PADDOCK_INLINE void finish(const Sums& sums_of, Count count, int64_t at, int64_t block) const {
    if constexpr (!kWords) {
      if (plain_ && conv_.end.cut_by_narrowing()) return finish_plain<false>(sums_of, count, at, block);
      if (plain_) return finish_plain<true>(sums_of, count, at, block);
    }
    for (int64_t i = 0; i < count; ++i) {
      Int32s sum[kVecs];
      sums_of(i, sum);
      finish_any(sum, at + i * g_.C, block);
    }
  }

  template <bool kCut, class Sums, class Count>
  PADDOCK_INLINE void finish_plain(const Sums& sums_of, Count count, int64_t at, int64_t block) const {
    const Requantize& r = conv_.end;
    const int64_t c = block * kBlock, lanes = std::min(kBlock, g_.C - c), pixel = g_.C;
    const float *factor = ends_.template as<float>() + c, *bias = factor + blocks_ * kBlock;
    const float low = r.low(), high = r.high();
    const int32_t zero = r.zero;
    uint8_t* to = r.y8 + at;
    const auto one = [&](int64_t i) __attribute__((always_inline)) {
      Int32s sum[kVecs];
      sums_of(i, sum);
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        const auto scale = Vec<float>::load(factor + v * kLanes), offset = Vec<float>::load(bias + v * kLanes);
        const auto value = to_float(sum[v]) * scale + offset;
        sum[v] = rounded(kCut ? cut(value, low, high) : value, zero);
      }
      store_first_bytes(packed_bytes(sum), to + i * pixel, lanes);
    };
    if constexpr (std::is_same_v<Count, int64_t>) {
      for (int64_t i = 0; i < count; ++i) one(i);
    } else {
#pragma GCC unroll 8
      for (int i = 0; i < Count::value; ++i) one(i);
    }
  }

  // Any end: of channels in their order.
  void finish_any(const Int32s (&sum)[kVecs], int64_t at, int64_t block) const {
    const int64_t c = block * kBlock, lanes = std::min(kBlock, g_.C - c);
    alignas(kVecBytes) int32_t ordered[kBlock];
    if constexpr (kWords) {
      store_int32s(in_order<0>(sum), ordered);
      store_int32s(in_order<1>(sum), ordered + kLanes);
    } else {
      for (int64_t v = 0; v < kVecs; ++v)
        for (int64_t l = 0; l < kLanes; ++l) ordered[channel_of(v, l)] = sum[v][l];
    }
    finish_rows(conv_.end, ordered, 0, 1, c, lanes, at, 0);
  }

  const Int8Conv& conv_;
  const ConvGeometry& g_;
  const int64_t blocks_, row_groups_, columns_;
  const bool in_fives_;
  const int64_t taps_;
  const Scratch words_, ends_;
  alignas(kVecBytes) T border_[kBlock];
  bool plain_ = false;
  const T* image_ = nullptr;
  const uint8_t* image_end_ = nullptr;
  std::shared_ptr<Storage> weights_;
  const int32_t* starts_ = nullptr;
  const int8_t* taps_of_ = nullptr;
};

}  // namespace

void depthwise_int8(const Int8Conv& conv, [[maybe_unused]] bool widening) {
#if defined(PADDOCK_BYTE_DOT)
  if (!widening)
    return conv.words() ? Depthwise<WordDot, int16_t>(conv).run() : Depthwise<ImageDot, uint8_t>(conv).run();
#endif
  using Dot = OfWords<WideningDot>;
  conv.words() ? Depthwise<Dot, int16_t>(conv).run() : Depthwise<Dot, uint8_t>(conv).run();
}

}  // namespace paddock::cpu
