// The kernel of linear_by_rows: dot products of rows of x and of the weight, each summed in an order that only its
// length sets. A task takes some rows of the weight, which stay in the caches for all rows of x.
#include <array>

#include "cpu/kernel.h"
#include "cpu/vec/vec_int.h"

namespace paddock::cpu {
namespace {

constexpr int kRows = 4;             // of x that go together
constexpr int64_t kWeights = 32768;  // of a task
constexpr int64_t kRowsOfTask = 64;  // of x
constexpr int kStep = 4;             // rows of the weight that stay in the first cache for all rows of x

template <class W>
constexpr int kAhead = sizeof(W) == 1 ? 8 : 4;  // rows of the weight that are asked for before they are read

// Rows of the weight that go together with kM of x: so many sums that none waits for the multiply-add before it, in as
// many registers as there are.
template <int kM>
constexpr int kTogether = kVecRegisters == 32 || kM <= 2 ? 4 : 2;

// Weights as vectors of float: of their own type, or of 8 bits.
template <class T>
PADDOCK_INLINE Vec<T> widened(const T* p) {
  return Vec<T>::load(p);
}
PADDOCK_INLINE Vec<float> widened(const int8_t* p) { return load_bytes(p); }
template <class T>
PADDOCK_INLINE Vec<T> widened_n(const T* p, int64_t n) {
  return Vec<T>::load_n(p, n);
}
PADDOCK_INLINE Vec<float> widened_n(const int8_t* p, int64_t n) {
  int8_t whole[Vec<float>::kSize] = {};
  std::memcpy(whole, p, static_cast<size_t>(n));
  return widened(whole);
}

template <class T, class W>
struct Product {
  const T* x;
  const W* weight;
  const T* bias;
  const float* scale;  // of `groups` groups of columns of each row of the weight; null for weights that are whole
  T* y;
  int64_t M, K, C, groups;
};

template <class T, class W, int kM, int kK>
PADDOCK_INLINE void dots(const Product<T, W>& p, int64_t m, int64_t k) {
  using V = Vec<T>;
  V sum[kM][kK];
#pragma GCC unroll 4
  for (int i = 0; i < kM; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kK; ++j) sum[i][j] = V::zero();
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(W)), kStretch = 2 * kLine;
  const T* x = p.x + m * p.C;
  const W* w = p.weight + k * p.C;
  const auto step = [&](int64_t c, auto& into, auto load, auto load_weight) __attribute__((always_inline)) {
    V column[kK];
#pragma GCC unroll 4
    for (int j = 0; j < kK; ++j) column[j] = load_weight(w + j * p.C + c);
#pragma GCC unroll 4
    for (int i = 0; i < kM; ++i) {
      const V a = load(x + i * p.C + c);
#pragma GCC unroll 4
      for (int j = 0; j < kK; ++j) into[i][j] = fma(a, column[j], into[i][j]);
    }
  };
  const auto span = [&](int64_t begin, int64_t end, auto& into) __attribute__((always_inline)) {
    int64_t c = begin;
    for (; c + V::kSize <= end; c += V::kSize)
      step(c, into, [](const T* a) { return V::load(a); }, [](const W* a) { return widened(a); });
    if (const int64_t n = end - c; n > 0)
      step(c, into, [n](const T* a) { return V::load_n(a, n); }, [n](const W* a) { return widened_n(a, n); });
  };
  // Weights come from memory for the first rows of x. The processor alone asks for them too late where much is done
  // with each.
  const auto fetch_ahead = [&](int64_t c, int64_t count) __attribute__((always_inline)) {
    if (m != 0) return;
    for (int j = 0; j < kK; ++j)
      for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(w + (j + kAhead<W>)*p.C + c + i);
  };
  if constexpr (std::is_same_v<T, W>) {
    for (int64_t c = 0; c < p.C; c += kStretch) {
      fetch_ahead(c, kStretch);
      span(c, std::min(p.C, c + kStretch), sum);
    }
  } else {
    const int64_t width = p.C / p.groups;
    for (int64_t g = 0; g < p.groups; ++g) {
      fetch_ahead(g * width, width);
      V own[kM][kK];
#pragma GCC unroll 4
      for (int i = 0; i < kM; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < kK; ++j) own[i][j] = V::zero();
      span(g * width, (g + 1) * width, own);
#pragma GCC unroll 4
      for (int j = 0; j < kK; ++j) {
        const V factor = V::broadcast(p.scale[(k + j) * p.groups + g]);
#pragma GCC unroll 4
        for (int i = 0; i < kM; ++i) sum[i][j] = fma(own[i][j], factor, sum[i][j]);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kM; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kK; ++j) {
      const T total = reduce_add(sum[i][j]);
      p.y[(m + i) * p.K + k + j] = p.bias ? total + p.bias[k + j] : total;
    }
}

// Rows m0 ... m1 of x against k0 ... k1 of the weight.
template <class T, class W, int kM>
void block(const Product<T, W>& p, int64_t m, int64_t k0, int64_t k1) {
  int64_t k = k0;
  for (; k + kTogether<kM> <= k1; k += kTogether<kM>) dots<T, W, kM, kTogether<kM>>(p, m, k);
  for (; k < k1; ++k) dots<T, W, kM, 1>(p, m, k);
}

template <class T, class W>
void multiply(const Product<T, W>& p) {
  using Run = void (*)(const Product<T, W>&, int64_t, int64_t, int64_t);
  constexpr std::array<Run, kRows> by_rows{block<T, W, 1>, block<T, W, 2>, block<T, W, 3>, block<T, W, 4>};
  const int64_t width = std::max<int64_t>(kStep, kWeights / std::max<int64_t>(1, p.C) / kStep * kStep);
  const int64_t blocks = (p.K + width - 1) / width, sheets = (p.M + kRowsOfTask - 1) / kRowsOfTask;
  parallel_for(blocks * sheets, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t k0 = t / sheets * width, k1 = std::min(p.K, k0 + width);
      const int64_t m0 = t % sheets * kRowsOfTask, m1 = std::min(p.M, m0 + kRowsOfTask);
      for (int64_t k = k0; k < k1; k += kStep)
        for (int64_t m = m0; m < m1; m += kRows)
          by_rows[static_cast<size_t>(std::min<int64_t>(kRows, m1 - m) - 1)](p, m, k, std::min(k1, k + kStep));
    }
  });
}

PADDOCK_CPU_KERNEL(linear_by_rows) {
  const Shape &x = c.in("x").shape(), &weight = c.in("weight").shape();
  if (c.out(0).numel() == 0) return;
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto run = [&](auto weights) {
      using W = std::remove_cv_t<std::remove_pointer_t<decltype(weights)>>;
      multiply(Product<T, W>{c.in("x").data<T>(), weights, c.maybe<T>("bias"), c.maybe<float>("scale"),
                             c.out(0).data<T>(), x[0], weight[0], x[1], c.has("scale") ? c.in("scale").shape()[1] : 1});
    };
    if (c.in("weight").dtype() != DType::kI8) return run(c.in("weight").data<T>());
    if constexpr (std::is_same_v<T, float>) run(c.in("weight").data<int8_t>());
  });
}

}  // namespace
}  // namespace paddock::cpu
