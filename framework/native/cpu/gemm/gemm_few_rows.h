// Products of at most four rows with a matrix: B is read once, as it is stored, at the speed of memory.
#pragma once
#include <cstdint>

#include "cpu/gemm/gemm.h"

namespace paddock::cpu {

inline constexpr int64_t kFewRows = 4;

// C [M, N] = activation(alpha * A op(B) + beta * C + bias + residual), 1 <= M <= kFewRows, K > 0. Row i of A has K
// values from A + i * lda on; op(B) is [K, N], stored as [N, K] with tb.
template <class T>
struct FewRowsProduct {
  bool tb;
  int64_t M, N, K;
  const T* A;
  int64_t lda;
  const T* B;
  int64_t ldb;
  T alpha, beta;
  T* C;
  int64_t ldc;
  const Epilogue<T>& epilogue;
};

template <class T>
void multiply_few_rows(const FewRowsProduct<T>& p);

}  // namespace paddock::cpu
