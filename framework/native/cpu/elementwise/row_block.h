// Short rows side by side: element k of kRows rows is one vector, so that a maximum or a sum along the rows needs no
// step across lanes, and exponentials fill whole vectors however short a row is.
#pragma once
#include <limits>

#include "cpu/vec/vec.h"
#include "cpu/vec/vec_math.h"

namespace paddock::cpu {

// kRows rows of n <= kLongest elements, stored as [n, kRows].
template <class T>
class RowBlock {
 public:
  static constexpr int64_t kRows = Vec<T>::kSize;
  static constexpr int64_t kLongest = 2 * kRows;  // longer rows waste little by themselves (measured)

  // Reads rows x: [kRows, n].
  RowBlock(const T* x, int64_t n) : n_(n) {
    for (int64_t k = 0; k < n; k += kRows) {
      const int64_t width = std::min(kRows, n - k);
      Vec<T> square[kRows];
      for (int64_t i = 0; i < kRows; ++i)
        square[i] = width == kRows ? Vec<T>::load(x + i * n + k) : Vec<T>::load_n(x + i * n + k, width);
      transpose(square);
      for (int64_t j = 0; j < width; ++j) square[j].store(at(k + j));
    }
  }

  // Element k of row i.
  T& operator()(int64_t i, int64_t k) { return values_[k * kRows + i]; }

  // Turns x into exp(x - shift), shift each row's maximum; gives shift and the rows' sums, [kRows] each.
  void exponentiate(T* shift, T* total) {
    Vec<T> most = Vec<T>::broadcast(-std::numeric_limits<T>::infinity());
    for (int64_t k = 0; k < n_; ++k) most = max(most, Vec<T>::load(at(k)));
    for (int64_t k = 0; k < n_; ++k) (Vec<T>::load(at(k)) - most).store(at(k));
    Vec<T> sum = Vec<T>::zero();
    for (int64_t k = 0; k < n_; ++k) {
      T* column = at(k);
#pragma GCC ivdep
      for (int64_t i = 0; i < kRows; ++i) column[i] = math::exp(column[i]);
      sum += Vec<T>::load(column);
    }
    most.store(shift);
    sum.store(total);
  }

  // Row i becomes scale[i] * (row - less).
  void scale(const T* scale, T less) {
    const Vec<T> factor = Vec<T>::load(scale), away = Vec<T>::broadcast(less);
    for (int64_t k = 0; k < n_; ++k) (factor * (Vec<T>::load(at(k)) - away)).store(at(k));
  }

  // Writes rows y: [kRows, n].
  void write(T* y) const {
    for (int64_t k = 0; k < n_; k += kRows) {
      const int64_t width = std::min(kRows, n_ - k);
      Vec<T> square[kRows];
      for (int64_t j = 0; j < kRows; ++j) square[j] = Vec<T>::load(values_ + (k + std::min(j, width - 1)) * kRows);
      transpose(square);
      for (int64_t i = 0; i < kRows; ++i) {
        T* to = y + i * n_ + k;
        width == kRows ? square[i].store(to) : square[i].store_n(to, width);
      }
    }
  }

 private:
  T* at(int64_t k) { return values_ + k * kRows; }

  int64_t n_;
  alignas(64) T values_[kLongest * kRows];
};

}  // namespace paddock::cpu
