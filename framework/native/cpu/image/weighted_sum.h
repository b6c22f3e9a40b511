// Sums of a few rows of numbers, each times its weight: what resampling does to pixels of many channels.
#pragma once
#include <algorithm>
#include <cstdint>

#include "cpu/vec/vec.h"

namespace paddock::cpu {

// An element and what it counts.
template <class T>
struct WeightedElement {
  int64_t at;
  T weight;
};

// to[c] = (kAdd ? to[c] : 0) + sum of weight * from[at + c], for n elements.
template <bool kAdd, class T>
void weighted_sum(const T* from, const WeightedElement<T>* taps, int64_t count, T* to, int64_t n) {
  using V = Vec<T>;
  constexpr int64_t kTogether = 4 * V::kSize;
  int64_t c = 0;
  for (; c + kTogether <= n; c += kTogether) {
    V sum[4];
    for (int k = 0; k < 4; ++k) sum[k] = kAdd ? V::load(to + c + k * V::kSize) : V::zero();
    for (int64_t i = 0; i < count; ++i) {
      const T* p = from + taps[i].at + c;
      const V weight = V::broadcast(taps[i].weight);
      for (int k = 0; k < 4; ++k) sum[k] = fma(weight, V::load(p + k * V::kSize), sum[k]);
    }
    for (int k = 0; k < 4; ++k) sum[k].store(to + c + k * V::kSize);
  }
  for (; c < n; c += V::kSize) {
    const int64_t lanes = std::min<int64_t>(V::kSize, n - c);
    V sum = kAdd ? V::load_n(to + c, lanes) : V::zero();
    for (int64_t i = 0; i < count; ++i)
      sum = fma(V::broadcast(taps[i].weight), V::load_n(from + taps[i].at + c, lanes), sum);
    sum.store_n(to + c, lanes);
  }
}

}  // namespace paddock::cpu
