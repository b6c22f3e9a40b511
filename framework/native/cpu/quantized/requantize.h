// From exact 32-bit sums to 8-bit numbers or float32: scale, bias, residual and activation on the way to memory.
// Files that include it are compiled without contraction to fused multiply-adds (see CMakeLists.txt), so that every
// instruction set rounds alike.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/parallel.h"
#include "cpu/gemm/gemm.h"
#include "cpu/gemm/int8_dot.h"

namespace paddock::cpu {

typedef uint8_t UnalignedLaneBytes __attribute__((vector_size(kVecBytes / 4), aligned(1), may_alias));

// The values of a row of y, in steps of y (of 1 where y is float32), as they are cut and rounded.
struct Requantize {
  const float *factor, *bias;  // by channel, with a vector of room behind the last
  Activation activation = Activation::kNone;
  float slope = 0, six = 6;  // of leaky relu; where relu6 cuts
  bool residual_last = false;
  const uint8_t* residual8 = nullptr;  // laid out as y, and then (residual8 - residual_zero) * residual_factor
  const float* residual32 = nullptr;   // or as it is
  float residual_factor = 1;
  int32_t residual_zero = 0;
  uint8_t* y8 = nullptr;
  float* y32 = nullptr;
  int32_t* sums = nullptr;  // where the sums themselves are wanted
  int32_t zero = 0;
  bool fits = false;  // values and what is added to them are so small that they are rounded without a cut before

  // Bytes whose activation is a cut, of values and perhaps of an 8-bit residual added to them.
  bool plain() const {
    return y8 && !residual32 && !(residual8 && residual_last) && activation != Activation::kLeakyRelu;
  }
  // Whether narrowing to bytes cuts a plain row as its activation would.
  bool cut_by_narrowing() const { return kNarrowingCuts && fits && low() == lowest() && high() == highest(); }
  float lowest() const { return static_cast<float>(-zero); }
  float highest() const { return static_cast<float>(255 - zero); }
  // What values of a plain row are cut to.
  float low() const { return activation == Activation::kNone ? lowest() : std::max(lowest(), 0.0f); }
  float high() const { return activation == Activation::kRelu6 ? std::min(highest(), six) : highest(); }
};

// Integers of values in [-2^22, 2^22], halves to even, with `zero` added.
PADDOCK_INLINE Int32s rounded(Vec<float> v, int32_t zero) { return nearest(v) + zero; }

// v cut to [low, high]; a NaN becomes `low`.
PADDOCK_INLINE Vec<float> cut(Vec<float> v, float low, float high) {
  return min(max(v, Vec<float>::broadcast(low)), Vec<float>::broadcast(high));
}

PADDOCK_INLINE Vec<float> to_float(Int32s x) { return {__builtin_convertvector(x, Vec<float>::Native)}; }

PADDOCK_INLINE void store_bytes(Int32s q, uint8_t* to, int64_t lanes) {
  const LaneBytes bytes = narrowed_to_bytes(q);
  if (lanes >= Vec<float>::kSize) {
    *reinterpret_cast<UnalignedLaneBytes*>(to) = bytes;
  } else if (Vec<float>::kSize > 8 && lanes == 8) {
    std::memcpy(to, &bytes, 8);
  } else {
    std::memcpy(to, &bytes, static_cast<size_t>(lanes));
  }
}

PADDOCK_INLINE Vec<float> load_unsigned(const uint8_t* p, int64_t lanes) {
  LaneBytes bytes{};
  if (lanes >= Vec<float>::kSize)
    bytes = *reinterpret_cast<const UnalignedLaneBytes*>(p);
  else
    std::memcpy(&bytes, p, static_cast<size_t>(lanes));
  return to_float(widened(bytes));
}

// Gives `put(integers, place, lanes)` all of x in steps of `scale`, halves to even, cut to [low, high], with `zero`
// added; says whether there is a NaN among them.
template <class Put>
bool round_all(const float* x, int64_t n, float scale, float low, float high, int32_t zero, const Put& put) {
  std::atomic<bool> strange{false};
  parallel_for(n, 1 << 14, [&](int64_t begin, int64_t end) {
    constexpr int64_t kLanes = Vec<float>::kSize;
    Vec<float>::Mask nan{};
    const auto some = [&](Vec<float> v, int64_t i, int64_t lanes) __attribute__((always_inline)) {
      nan |= ~(v == v);
      put(rounded(cut(v / Vec<float>::broadcast(scale), low, high), zero), i, lanes);
    };
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) some(Vec<float>::load(x + i), i, kLanes);
    if (i < end) some(Vec<float>::load_n(x + i, end - i), i, end - i);
    for (int64_t j = 0; j < kLanes; ++j)
      if (nan[j]) strange = true;
  });
  return strange;
}

// Any end of a value. `at` is its place in y.
PADDOCK_INLINE void finish_value(const Requantize& r, Vec<float> v, int64_t at, int64_t lanes) {
  using V = Vec<float>;
  V residual = V::zero();
  if (r.residual32) residual = V::load_n(r.residual32 + at, std::min<int64_t>(lanes, V::kSize));
  if (r.residual8)
    residual = (load_unsigned(r.residual8 + at, lanes) - V::broadcast(static_cast<float>(r.residual_zero))) *
               V::broadcast(r.residual_factor);
  const bool has_residual = r.residual8 || r.residual32;
  if (has_residual && !r.residual_last) v += residual;
  if (r.activation == Activation::kRelu || r.activation == Activation::kRelu6) v = select(v < V::zero(), V::zero(), v);
  if (r.activation == Activation::kRelu6) v = select(V::broadcast(r.six) < v, V::broadcast(r.six), v);
  if (r.activation == Activation::kLeakyRelu) v = select(v < V::zero(), v * V::broadcast(r.slope), v);
  if (has_residual && r.residual_last) v += residual;
  if (r.y32)
    v.store_n(r.y32 + at, std::min<int64_t>(lanes, V::kSize));
  else
    store_bytes(rounded(cut(v, r.lowest(), r.highest()), r.zero), r.y8 + at, lanes);
}

enum class End { kAny, kPlain, kPlainWithResidual };

template <End kEnd, bool kCut = true>
PADDOCK_INLINE void finish_rows_as(const Requantize& r, const int32_t* sums, int64_t width, int64_t rows,
                                   int64_t channel, int64_t lanes, int64_t at, int64_t stride) {
  constexpr int64_t kLanes = Vec<float>::kSize;
  if constexpr (kEnd == End::kAny)
    if (r.sums) {
      for (int64_t i = 0; i < rows; ++i)
        std::memcpy(r.sums + at + i * stride, sums + i * width, static_cast<size_t>(lanes) * sizeof(int32_t));
      return;
    }
  // Kept here, since a byte that is written might be one of r's.
  const float *factor = r.factor + channel, *bias = r.bias + channel;
  const float low = r.low(), high = r.high();
  const int32_t zero = r.zero;
  const auto residual_zero = Vec<float>::broadcast(static_cast<float>(r.residual_zero));
  const auto residual_factor = Vec<float>::broadcast(r.residual_factor);
  if constexpr (kEnd == End::kAny) {
    for (int64_t i = 0; i < rows; ++i, sums += width, at += stride)
      for (int64_t j = 0; j < lanes; j += kLanes) {
        const auto v = to_float(load_int32s(sums + j)) * Vec<float>::load(factor + j) + Vec<float>::load(bias + j);
        finish_value(r, v, at + j, lanes - j);
      }
  } else {
    // Channels outside, rows inside: factors and biases stay in registers.
    int64_t j = 0, place = 0, left = 0;
    const auto value = [&](const int32_t* from, int64_t k, Vec<float> scale, Vec<float> offset) {
      Vec<float> v = to_float(load_int32s(from)) * scale + offset;
      if constexpr (kEnd == End::kPlainWithResidual)
        v += (load_unsigned(r.residual8 + place + k, left - k) - residual_zero) * residual_factor;
      return v;
    };
    const auto integers = [&](Vec<float> v) { return rounded(kCut ? cut(v, low, high) : v, zero); };
    uint8_t* const y = r.y8;
    for (; j + 2 * kLanes <= lanes; j += 2 * kLanes) {
      const auto scale = Vec<float>::load(factor + j), scale2 = Vec<float>::load(factor + j + kLanes);
      const auto offset = Vec<float>::load(bias + j), offset2 = Vec<float>::load(bias + j + kLanes);
      const int32_t* from = sums + j;
      left = 2 * kLanes, place = at + j;
      for (int64_t i = 0; i < rows; ++i, from += width, place += stride)
        store_narrowed(integers(value(from, 0, scale, offset)), integers(value(from + kLanes, kLanes, scale2, offset2)),
                       y + place);
    }
    for (; j < lanes; j += kLanes) {
      const auto scale = Vec<float>::load(factor + j), offset = Vec<float>::load(bias + j);
      const int32_t* from = sums + j;
      left = lanes - j, place = at + j;
      for (int64_t i = 0; i < rows; ++i, from += width, place += stride)
        store_bytes(rounded(cut(value(from, 0, scale, offset), low, high), zero), y + place, left);
    }
  }
}

// Rows of `lanes` sums each, `width` apart, of channels from `channel` on. They go to y from `at` on, `stride` apart.
PADDOCK_INLINE void finish_rows(const Requantize& r, const int32_t* sums, int64_t width, int64_t rows, int64_t channel,
                                int64_t lanes, int64_t at, int64_t stride) {
  if (!r.plain()) return finish_rows_as<End::kAny>(r, sums, width, rows, channel, lanes, at, stride);
  if (r.residual8) return finish_rows_as<End::kPlainWithResidual>(r, sums, width, rows, channel, lanes, at, stride);
  if (r.cut_by_narrowing()) return finish_rows_as<End::kPlain, false>(r, sums, width, rows, channel, lanes, at, stride);
  finish_rows_as<End::kPlain>(r, sums, width, rows, channel, lanes, at, stride);
}

}  // namespace paddock::cpu
