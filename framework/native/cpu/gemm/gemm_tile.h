// The register tile of every matrix product: a few rows of A times one packed panel of B, accumulated in
// registers. Rows of A are given as pointers, so that the rows may lie anywhere: in a matrix, or as the
// pixels of an image.
#pragma once
#include <algorithm>
#include <cstdint>

#include "cpu/gemm/gemm.h"
#include "cpu/vec/vec.h"

namespace paddock::cpu {

// A panel of B is kPanelVecs vectors wide; the last panel of a matrix has as many vectors as it needs.
inline constexpr int kPanelVecs = kVecRegisters == 32 ? 4 : 2;
inline constexpr int kMaxTileRows = 12;
inline constexpr int kMaxTileVecs = 24;  // rows by vectors

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <class T>
inline constexpr int64_t kPanelWidth = kPanelVecs * Vec<T>::kSize;

// Rows of a tile for a panel of `vecs` vectors: accumulators, one row of B and one value of A fill the
// registers.
constexpr int tile_rows(int64_t vecs) {
  if (kVecRegisters == 32) return vecs == 4 ? 6 : vecs == 3 ? 8 : 12;
  return vecs == 2 ? 6 : 8;
}

// Vectors in the panel that starts with column n0 of N.
template <class T>
constexpr int64_t panel_vecs(int64_t N, int64_t n0) {
  return std::min<int64_t>(kPanelVecs, (N - n0 + Vec<T>::kSize - 1) / Vec<T>::kSize);
}

// One tile's job: C[i, column + j] (+)= sum over taps t and k < length of A(t, i, k) * b[t * length + k, j].
template <class T>
struct Tile {
  // By rows: A(t, i, k) = a_rows[t * a_stride + i][a_offset + k].
  const T* const* a_rows;
  int64_t a_offset;
  // By columns (taps is 1): A(0, i, k) = a_columns[k * a_stride + i].
  const T* a_columns;
  int64_t a_stride;
  int64_t taps, length;
  // Memory to have in the second-level cache soon, a cache line a step; may be null.
  const T* fetch;
  int64_t fetch_stride;
  const T* b;  // [taps * length] rows of a panel, b_stride elements apart
  int64_t b_stride;
  T* const* c;              // [rows] pointers to column 0
  int64_t column, columns;  // first column of the panel, how many of it exist
  T alpha, beta;
  const Epilogue<T>* epilogue;  // its bias, activation and last residual; null before the last part of the sum
  // Another residual joins the first part of the sum: it may lie in C's own memory, which that part overwrites.
  bool add_residual;
  int64_t residual_shift;  // from an element of C to its residual, in elements
  bool stream;             // write C past the caches; its vectors are aligned
  bool a_padded;           // a column of A may be read up to a_stride
};

template <class T>
using TileKernel = void (*)(const Tile<T>&);

// 1 <= rows <= tile_rows(vecs), 1 <= vecs <= kPanelVecs.
template <class T>
TileKernel<T> tile_kernel_by_rows(int64_t rows, int64_t vecs);
template <class T>
TileKernel<T> tile_kernel_by_columns(int64_t rows, int64_t vecs);

// Calls body(f), with f(x) the activation of an epilogue.
template <class T, class Body>
PADDOCK_INLINE void with_activation(const Epilogue<T>& e, Body body) {
  using V = Vec<T>;
  switch (e.activation) {
    case Activation::kRelu:
      return body([](V x) { return select(x < V::zero(), V::zero(), x); });
    case Activation::kRelu6:
      return body(
          [six = V::broadcast(T(6))](V x) { return select(six < x, six, select(x < V::zero(), V::zero(), x)); });
    case Activation::kLeakyRelu:
      return body([slope = V::broadcast(e.slope)](V x) { return select(x < V::zero(), x * slope, x); });
    default:
      return body([](V x) { return x; });
  }
}

template <class T>
PADDOCK_INLINE Vec<T> activate(Vec<T> x, const Epilogue<T>& e) {
  with_activation(e, [&](auto activation) { x = activation(x); });
  return x;
}

// The epilogue of up to a vector of values of C that start at `column` of their row. `residual_at` is their place
// in the residual.
template <class T>
PADDOCK_INLINE Vec<T> finish(Vec<T> x, const Epilogue<T>& e, int64_t column, int64_t residual_at, int64_t lanes) {
  if (e.bias) x += Vec<T>::load_n(e.bias + column, lanes);
  const Vec<T> residual = e.residual ? Vec<T>::load_n(e.residual + residual_at, lanes) : Vec<T>::zero();
  if (e.residual_last) return activate(x, e) + residual;
  return activate(e.residual ? x + residual : x, e);
}

// c[j] = activation(alpha * sum[j] + beta * c[j] + bias[j] + residual[j]) for j < columns. `epilogue` may be
// null.
template <class T>
void finish_row(const T* sum, T* c, int64_t column, int64_t columns, T alpha, T beta, const Epilogue<T>* epilogue,
                int64_t residual_shift);

}  // namespace paddock::cpu
