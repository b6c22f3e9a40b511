// The two loops around the register tile that every matrix product and convolution uses.
#pragma once
#include <cstdint>

#include "core/function_ref.h"
#include "cpu/gemm/gemm.h"

namespace paddock::cpu {

// C [M, N] = sum over taps t of A_t [M, length] * B_t [length, N], A read in place through pointers to its
// rows.
template <class T>
struct RowsProduct {
  int64_t M, N, taps, length;
  const T* packed_b;  // all panels of B [taps * length, N], see panel_offset()
  // Fills a[t * rows + i] with row i's `length` values of A_t and c[i] with the row of C, for rows
  // [begin, begin + rows). `scratch` has room for scratch_per_row elements a row.
  FunctionRef<void(int64_t begin, int64_t rows, const T** a, T** c, T* scratch)> rows_at;
  int64_t scratch_per_row = 0;
  T alpha = T(1), beta = T(0);
  Epilogue<T> epilogue{};
  int64_t residual_shift = 0;  // from an element of C to its residual
  int64_t band_rows = 0;       // where rows_at computes: at most so many rows a task, and each but once; 0: any
  bool stream = false;         // C may be written past the caches: its rows are aligned, and it is larger than they are
};

template <class T>
void multiply_rows(const RowsProduct<T>& p);

// Whether sums of taps * length terms are done at once. Otherwise C holds their first parts in between, and a residual
// that is added last must not lie in its memory.
template <class T>
bool sums_at_once(int64_t taps, int64_t length);

// Where the values for step k of a sum lie, more or less: `width` elements from data + k * stride on.
template <class T>
struct Source {
  const T* data = nullptr;
  int64_t stride = 0, width = 0;
};

// C [M, N] = alpha * A B + beta * C with a long sum over K: blocks of both operands are packed on the way,
// and K is cut into slices that are summed in order when M x N alone gives too little work to share.
template <class T>
struct BlockProduct {
  int64_t M, N, K;
  // Writes A(m0 + i, k0 + k) to dst[k * stride + i] for i < rows, k < depth.
  FunctionRef<void(int64_t m0, int64_t rows, int64_t k0, int64_t depth, T* dst, int64_t stride)> pack_a;
  // Writes B(k0 + k, n0 + j) to dst[k * width + j] for j < columns and zeros up to width.
  FunctionRef<void(int64_t k0, int64_t depth, int64_t n0, int64_t columns, T* dst, int64_t width)> pack_b;
  T* C;
  int64_t ldc;
  T alpha = T(1), beta = T(0);
  Epilogue<T> epilogue{};
  // What to fetch from memory while the block before is multiplied; may be empty. Of A from row m0 on, of B all.
  Source<T> a_source{}, b_source{};
};

template <class T>
void multiply_blocks(const BlockProduct<T>& p);

// Packs all of op(B) [K, N] in parallel.
template <class T>
void pack_all(bool transposed, const T* B, int64_t ldb, int64_t K, int64_t N, T* packed);

}  // namespace paddock::cpu
