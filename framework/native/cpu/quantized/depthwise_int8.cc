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

// T: what a number of the image is, uint8_t or int16_t.
template <class D, class T>
class Depthwise {
  static constexpr bool kWords = sizeof(T) == 2;
  static constexpr int kVecs = kWords ? 2 : 4;  // of sums; channels of a block are as many as a vector has of T
  static constexpr int64_t kBlock = kVecs * kLanes, kVecWeights = kLanes * D::kGroup;
  static constexpr int kColumns = (kVecRegisters == 32 ? 16 : 8) / kVecs;

 public:
  explicit Depthwise(const Int8Conv& conv)
      : conv_(conv),
        g_(conv.g),
        blocks_(ceil_div(g_.C, kBlock)),
        row_groups_(ceil_div(g_.R, D::kGroup)),
        columns_((g_.Q - 1) * g_.stride_w + (g_.S - 1) * g_.dil_w + 1),
        taps_(row_groups_ * g_.S),
        words_(kWords ? static_cast<size_t>(g_.N * g_.H * g_.W * g_.C) * sizeof(T) : 1),
        ends_(static_cast<size_t>(blocks_ * kBlock * 2) * sizeof(float)) {}

  void run() {
    const int64_t starts = blocks_ * kBlock * static_cast<int64_t>(sizeof(int32_t));
    const int64_t bytes = starts + blocks_ * taps_ * kVecs * kVecWeights;
    const auto what = cat("int8 depthwise for ", 8 * sizeof(T), " bits, ", D::kName);
    weights_ = conv_.prepared.block(what, bytes, [&](void* to) {
      if (kWords) expect_exact_sums("quantized_conv2d", conv_.weight, g_.K, g_.R * g_.S, conv_.x_most);
      std::fill_n(static_cast<char*>(to), bytes, char(0));
      for (int64_t c = 0; c < g_.C; ++c) pack(c, static_cast<int32_t*>(to), static_cast<int8_t*>(to) + starts);
    });
    starts_ = static_cast<const int32_t*>(weights_->data());
    taps_of_ = static_cast<const int8_t*>(weights_->data()) + starts;
    for (int64_t c = 0; c < blocks_ * kBlock; ++c) {
      ends_.template as<float>()[place(c)] = c < g_.C ? conv_.end.factor[c] : 0.0f;
      ends_.template as<float>()[blocks_ * kBlock + place(c)] = c < g_.C ? conv_.end.bias[c] : 0.0f;
    }
    const int64_t count = g_.N * g_.H * g_.W * g_.C;
    if constexpr (kWords)
      round_to_words(conv_, count, words_.template as<T>()), image_ = words_.template as<T>();
    else
      image_ = conv_.x;
    image_end_ = reinterpret_cast<const uint8_t*>(image_ + count);
    const int64_t work = g_.Q * g_.C * g_.R * g_.S + 1;
    parallel_for(g_.N * g_.P, std::max<int64_t>(1, kTaskOperations / work), [&](int64_t begin, int64_t end) {
      const Scratch mixed(static_cast<size_t>(columns_ * row_groups_ * kVecs * kVecBytes));
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
        const int64_t tap = block * taps_ + s * row_groups_ + r / D::kGroup;
        to[(tap * kBlock + at) * D::kGroup + r % D::kGroup] = w;
        sum += static_cast<uint32_t>(w);
      }
    const uint32_t first = static_cast<uint32_t>(D::kTaken - conv_.x_zero) * sum;
    std::memcpy(start + block * kBlock + at, &first, sizeof first);
  }

  // Row p of image n of y, for the channels of a block.
  void row(int64_t n, int64_t p, int64_t block, char* mixed) const {
    mix(n, p, block, mixed);
    int64_t q = 0;
    for (; q + kColumns <= g_.Q; q += kColumns) columns<kColumns>(n, p, q, block, mixed);
    for (; q < g_.Q; ++q) columns<1>(n, p, q, block, mixed);
  }

  // Interleaves the rows that windows of row p cover: [columns][row groups][vectors].
  void mix(int64_t n, int64_t p, int64_t block, char* to) const {
    const int64_t c = block * kBlock, lanes = std::min(kBlock, g_.C - c), top = p * g_.stride_h - g_.pad_top;
    const Bytes border = static_cast<uint8_t>(conv_.x_zero) - Bytes{};  // 0 of words
    for (int64_t group = 0; group < row_groups_; ++group) {
      const T* rows[D::kGroup];
      for (int64_t i = 0; i < D::kGroup; ++i) {
        const int64_t r = group * D::kGroup + i, h = top + r * g_.dil_h;
        const bool inside = r < g_.R && h >= 0 && h < g_.H;
        rows[i] = inside ? image_ + (n * g_.H + h) * g_.W * g_.C + c : nullptr;
      }
      char* out = to + group * kVecs * kVecBytes;
      for (int64_t j = 0; j < columns_; ++j, out += row_groups_ * kVecs * kVecBytes) {
        const int64_t w = j - g_.pad_left;
        const bool inside = w >= 0 && w < g_.W;
        Bytes row[D::kGroup];
#pragma GCC unroll 4
        for (int i = 0; i < D::kGroup; ++i) row[i] = inside && rows[i] ? load(rows[i] + w * g_.C, lanes) : border;
        Int32s a[kVecs];
        if constexpr (kWords)
          D::groups_of_words(row, a);
        else
          D::groups(row, a);
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v) store_int32s(a[v], out + v * kVecBytes);
      }
    }
  }

  PADDOCK_INLINE Bytes load(const T* p, int64_t lanes) const {
    return load_first_bytes(reinterpret_cast<const uint8_t*>(p), lanes * static_cast<int64_t>(sizeof(T)), image_end_);
  }

  template <int kCount>
  void columns(int64_t n, int64_t p, int64_t q, int64_t block, const char* mixed) const {
    const int64_t pixel = row_groups_ * kVecs * kVecBytes, step = g_.stride_w * pixel;
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
        const char* at = x + group * kVecs * kVecBytes;
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v) {
          const Int32s weights = D::weights(w + v * kVecWeights);
#pragma GCC unroll 8
          for (int i = 0; i < kCount; ++i)
            sum[i][v] = D::add(sum[i][v], load_int32s(at + i * step + v * kVecBytes), weights);
        }
      }
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) finish(sum[i], ((n * g_.P + p) * g_.Q + q + i) * g_.C + block * kBlock, block);
  }

  PADDOCK_INLINE void finish(const Int32s (&sum)[kVecs], int64_t at, int64_t block) const {
    const Requantize& r = conv_.end;
    const int64_t c = block * kBlock, lanes = std::min(kBlock, g_.C - c);
    if constexpr (kWords) {
      alignas(kVecBytes) int32_t ordered[kBlock];
      store_int32s(in_order<0>(sum), ordered);
      store_int32s(in_order<1>(sum), ordered + kLanes);
      finish_rows(r, ordered, 0, 1, c, lanes, at, 0);
    } else {
      finish_bytes(sum, c, lanes, at);
    }
  }

  PADDOCK_INLINE void finish_bytes(const Int32s (&sum)[4], int64_t c, int64_t lanes, int64_t at) const {
    const Requantize& r = conv_.end;
    if (!r.plain() || r.residual8) {
      alignas(kVecBytes) int32_t ordered[kBlock];
      for (int64_t v = 0; v < 4; ++v)
        for (int64_t l = 0; l < kLanes; ++l) ordered[channel_of(v, l)] = sum[v][l];
      return finish_rows(r, ordered, 0, 1, c, lanes, at, 0);
    }
    const float *factor = ends_.template as<float>() + c, *bias = factor + blocks_ * kBlock;
    const float low = r.low(), high = r.high();
    Int32s q[4];
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v)
      q[v] = rounded(cut(to_float(sum[v]) * Vec<float>::load(factor + v * kLanes) + Vec<float>::load(bias + v * kLanes),
                         low, high),
                     r.zero);
    const Bytes bytes = packed_bytes(q);
    store_first_bytes(bytes, r.y8 + at, lanes);
  }

  const Int8Conv& conv_;
  const ConvGeometry& g_;
  const int64_t blocks_, row_groups_, columns_, taps_;
  const Scratch words_, ends_;
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
  conv.words() ? Depthwise<WideningDot, int16_t>(conv).run() : Depthwise<WideningDot, uint8_t>(conv).run();
}

}  // namespace paddock::cpu
