// What kernels that move elements share: copies of rows at memory speed, and copies through tables of indices.
#pragma once
#include <cstring>

#include "cpu/kernel.h"

namespace paddock::cpu {

// Calls f with an unsigned type of `size` bytes: moving an element needs to know its size only.
template <class F>
decltype(auto) dispatch_size(int64_t size, F&& f) {
  if (size == 1) return f(TypeTag<uint8_t>{});
  if (size == 2) return f(TypeTag<uint16_t>{});
  if (size == 4) return f(TypeTag<uint32_t>{});
  return f(TypeTag<uint64_t>{});
}

// memcpy that is inlined for the sizes of single elements.
inline void copy_block(char* to, const char* from, int64_t bytes) {
  if (bytes == 4)
    std::memcpy(to, from, 4);
  else if (bytes == 8)
    std::memcpy(to, from, 8);
  else
    std::memcpy(to, from, static_cast<size_t>(bytes));
}

inline constexpr int64_t kCopyBytes = 4 * kGrain;  // bytes a thread takes at a time

// Rows a thread takes at a time when a row has `bytes`.
inline int64_t copy_grain(int64_t bytes) { return std::max<int64_t>(1, kCopyBytes / std::max<int64_t>(1, bytes)); }

// `rows` rows of `bytes`, from `from_stride` to `to_stride` bytes apart.
void copy_rows(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t rows, int64_t bytes);

// For one axis: the index in x of each index of y, or -1 where y holds the fill element.
using AxisTable = std::vector<int64_t>;

// y[i, j, ...] = x[tables[0][i], tables[1][j], ...], or the element at `fill` where a table says -1.
// x and y have the same type, one table an axis.
void copy_by_tables(const Tensor& x, const Tensor& y, const std::vector<AxisTable>& tables, const void* fill);

// The opposite for float32 and float64: x[i, j, ...] = the sum of the elements of y that such a copy fills from it.
void sum_by_tables(const Tensor& y, const Tensor& x, const std::vector<AxisTable>& tables);

}  // namespace paddock::cpu
