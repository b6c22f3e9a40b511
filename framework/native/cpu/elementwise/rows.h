// Sums and maxima along one contiguous row: four vectors wide, combined in an order that the length alone sets.
#pragma once
#include <limits>

#include "cpu/kernel.h"
#include "cpu/vec/vec.h"
#include "cpu/vec/vec_math.h"

namespace paddock::cpu {

// Sum over i < n of term(i). `term` gets a function that reads the current elements of a pointer as a vector:
// row_sum<T>(n, [=](auto at) { return at(a) * at(b); }).
template <class T, class Term>
T row_sum(int64_t n, Term term) {
  constexpr int64_t step = Vec<T>::kSize;
  auto from = [&](int64_t i) { return term([i](const T* p) { return Vec<T>::load(p + i); }); };
  Vec<T> a = Vec<T>::zero(), b = a, c = a, d = a;
  int64_t i = 0;
  for (; i + 4 * step <= n; i += 4 * step) {
    a += from(i);
    b += from(i + step);
    c += from(i + 2 * step);
    d += from(i + 3 * step);
  }
  for (; i + step <= n; i += step) a += from(i);
  if (i < n) {  // lanes beyond the row may give anything: only the others are taken
    T last[step];
    term([&](const T* p) { return Vec<T>::load_n(p + i, n - i); }).store(last);
    b += Vec<T>::load_n(last, n - i);
  }
  return reduce_add((a + b) + (c + d));
}

// The largest of n values; -infinity for none. NaNs may be passed over.
template <class T>
T row_max(const T* x, int64_t n) {
  constexpr int64_t step = Vec<T>::kSize;
  if (n < step) {
    T best = -std::numeric_limits<T>::infinity();
    for (int64_t i = 0; i < n; ++i) best = std::max(best, x[i]);
    return best;
  }
  Vec<T> a = Vec<T>::load(x);
  for (int64_t i = step; i + step <= n; i += step) a = max(a, Vec<T>::load(x + i));
  return reduce_max(max(a, Vec<T>::load(x + n - step)));  // the last vector may see some values twice
}

// e[i] = exp(x[i] - shift) for i < n. `e` has room for n rounded up to whole vectors: a row's last few values would
// cost as much as a vector each, so they are computed as one, beside lanes of no meaning.
template <class T>
void row_exp(const T* x, int64_t n, T shift, T* e) {
  constexpr int64_t step = Vec<T>::kSize;
  const Vec<T> all = Vec<T>::broadcast(shift);
  int64_t i = 0;
  for (; i + step <= n; i += step) (Vec<T>::load(x + i) - all).store(e + i);
  if (i < n) {
    (Vec<T>::load_n(x + i, n - i) - all).store(e + i);
    i += step;
  }
  for (int64_t k = 0; k < i; k += step) {
#pragma GCC ivdep
    for (int64_t j = 0; j < step; ++j) e[k + j] = math::exp(e[k + j]);
  }
}

// Sum of exp(x - shift), by way of a small buffer so that the exponentials are computed side by side.
template <class T>
T row_sum_exp(const T* x, int64_t n, T shift) {
  constexpr int64_t kPiece = 512;
  T e[kPiece], total = 0;
  for (int64_t at = 0; at < n; at += kPiece) {
    const int64_t count = std::min(kPiece, n - at);
    row_exp(x + at, count, shift, e);
    total += row_sum<T>(count, [&e](auto read) { return read(e); });
  }
  return total;
}

}  // namespace paddock::cpu
