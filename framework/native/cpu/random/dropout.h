// Dropout of a piece of a tensor, with the words of a key's stream.
#pragma once
#include <cmath>

#include "core/random.h"
#include "cpu/kernel.h"
#include "cpu/random/philox.h"

namespace paddock::cpu {

inline constexpr int64_t kLanes = kPhiloxLanes;
inline constexpr int64_t kStrip = 4 * kLanes;
using Words = PhiloxWords;

// The words of kLanes consecutive blocks of a key's stream.
inline Words random_words(const int64_t* key, uint64_t first) {
  return philox_words(key, [=](int64_t i) { return first + static_cast<uint64_t>(i); });
}

// Zero with probability p, else x / (1 - p). Element i of a tensor is kept when the upper 24 bits of word i of the
// stream, as a fraction, are at least p: the same choice for every type.
template <class T>
class Dropout {
 public:
  Dropout(const int64_t* key, double p)
      : key_(key), least_(static_cast<uint32_t>(std::ceil(p * 0x1p24))), factor_(static_cast<T>(1 / (1 - p))) {}

  // y[i] for elements first + i of the tensor, i < n. y may be x.
  void operator()(int64_t first, int64_t n, const T* x, T* y) const {
    for (int64_t at = first / kStrip * kStrip; at < first + n; at += kStrip) {
      const Words s = random_words(key_, static_cast<uint64_t>(at / 4));
      const int64_t begin = std::max(at, first) - first, end = std::min(at + kStrip, first + n) - first;
      const uint32_t* word = s.word + (first - at);
      const uint32_t least = least_;
      const T factor = factor_;
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) {
        const T scaled = x[i] * factor;
        y[i] = (word[i] >> 8) >= least ? scaled : T{0};
      }
    }
  }

 private:
  const int64_t* key_;
  uint32_t least_;
  T factor_;
};

}  // namespace paddock::cpu
