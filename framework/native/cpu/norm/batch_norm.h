// What the forward and the backward kernels of batch normalisation share: a row of coefficients, and the normalised
// value that both compute with the same roundings.
#pragma once
#include <cmath>

#include "cpu/norm/activation.h"
#include "cpu/norm/channel_norm.h"

namespace paddock::cpu {

inline Columns columns_of(const Tensor& x) {
  int64_t channels = x.shape().back();
  return {channels > 0 ? x.numel() / channels : 0, channels};
}

// `kCount` vectors that fill a joined row each.
template <class T, int kCount>
class JoinedRows {
 public:
  explicit JoinedRows(const Columns& m) : m_(m), memory_(sizeof(T) * kCount * m.width) {}
  T* operator[](int i) const { return memory_.as<T>() + i * m_.width; }
  void fill() const {
    for (int i = 0; i < kCount; ++i) repeat(m_, (*this)[i]);
  }

 private:
  const Columns& m_;
  Scratch memory_;
};

// (x - center) * rate + offset normalises x: center = mean, rate = scale / sqrt(var + eps), offset = bias. It is made
// of the statistics as rounded to T, so that who has them gets the forward's bits again.
template <class T>
struct Normalization {
  Normalization(const Columns& m, const T* scale, const T* bias, const T* mean, const T* var, double eps) : rows(m) {
    for (int64_t k = 0; k < m.channels; ++k) {
      rows[0][k] = mean[k];
      rows[1][k] = static_cast<T>(scale[k] / std::sqrt(static_cast<double>(var[k]) + eps));
      rows[2][k] = bias[k];
    }
    rows.fill();
  }
  const T* center() const { return rows[0]; }
  const T* rate() const { return rows[1]; }
  const T* offset() const { return rows[2]; }

  JoinedRows<T, 3> rows;
};

}  // namespace paddock::cpu
