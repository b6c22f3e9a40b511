// Packing: panels of B laid out in the order in which the tile kernel reads them.
#pragma once
#include <cstdint>
#include <cstring>

#include "cpu/gemm/gemm_tile.h"

namespace paddock::cpu {

// dst[k, 0:width] = src[k, 0:columns] and zeros, for k < rows. columns <= width, width a multiple of the
// vector.
template <class T>
inline void copy_rows(const T* src, int64_t src_stride, int64_t rows, int64_t columns, T* dst, int64_t width,
                      int64_t dst_stride) {
  using V = Vec<T>;
  for (int64_t k = 0; k < rows; ++k, src += src_stride, dst += dst_stride) {
    int64_t j = 0;
    for (; j + V::kSize <= columns; j += V::kSize) V::load(src + j).store(dst + j);
    for (; j < width; j += V::kSize) V::load_n(src + j, std::max<int64_t>(columns - j, 0)).store(dst + j);
  }
}

inline constexpr int64_t kFetchAhead = 512;  // bytes ahead of a transposition, which reads too many rows for hardware

// dst[k, j] = src[j, k] for j < columns, zeros for the rest of the width.
template <class T>
inline void copy_transposed(const T* src, int64_t src_stride, int64_t rows, int64_t columns, T* dst, int64_t width,
                            int64_t dst_stride) {
  using V = Vec<T>;
  constexpr int64_t n = V::kSize;
  for (int64_t j = 0; j < width; j += n)
    for (int64_t k = 0; k < rows; k += n) {
      const int64_t depth = std::min(n, rows - k);
      V square[V::kSize];
#pragma GCC unroll 16
      for (int64_t i = 0; i < n; ++i) __builtin_prefetch(src + (j + i) * src_stride + k + kFetchAhead / sizeof(T));
#pragma GCC unroll 16
      for (int64_t i = 0; i < n; ++i)
        square[i] = j + i < columns ? V::load_n(src + (j + i) * src_stride + k, depth) : V::zero();
      transpose(square);
      for (int64_t i = 0; i < depth; ++i) square[i].store(dst + (k + i) * dst_stride + j);
    }
}

// A panel of op(B): rows [k0, k0 + rows) and `columns` columns from n0 on.
template <class T>
inline void pack_b(bool transposed, const T* B, int64_t ldb, int64_t k0, int64_t rows, int64_t n0, int64_t columns,
                   T* dst, int64_t width) {
  if (transposed)
    copy_transposed(B + n0 * ldb + k0, ldb, rows, columns, dst, width, width);
  else
    copy_rows(B + k0 * ldb + n0, ldb, rows, columns, dst, width, width);
}

// Where the panel that starts with column n0 lies in a fully packed B of K rows.
inline int64_t panel_offset(int64_t K, int64_t n0) { return K * n0; }

template <class T>
inline int64_t packed_size(int64_t K, int64_t N) {
  const int64_t width = Vec<T>::kSize;
  return K * ((N + width - 1) / width * width);
}

}  // namespace paddock::cpu
