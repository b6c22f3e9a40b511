// C = activation(alpha * op(A) op(B) + beta * C + bias + residual) for row-major float and double matrices.
// The result depends on the sizes only, never on the number of threads.
#pragma once
#include <cstdint>

#include "op/prepared.h"

namespace paddock::cpu {

enum class Activation { kNone, kRelu, kRelu6, kLeakyRelu, kSigmoid, kTanh, kSilu, kGelu, kGeluTanh };

// y[i] = f(in[0][i], in[1][i]) for n values that lie in the first cache: an element-wise operator's inner loop.
struct ValueLoop {
  void (*run)(const void* const* in, void* y, int64_t n, const double* attrs) = nullptr;
  double attr = 0;

  explicit operator bool() const { return run != nullptr; }
};

// What happens to a value of C [M, N] on its way to memory: bias and residual are added, the activation is applied (one
// of the first four), the result goes to `before`, and the loop is run over it and `operand`.
template <class T>
struct Epilogue {
  const T* bias = nullptr;      // [N], added to every row
  const T* residual = nullptr;  // laid out as C
  Activation activation = Activation::kNone;
  T slope = T(0);              // of kLeakyRelu for negative values
  bool residual_last = false;  // the residual is added after the activation, not before it
  ValueLoop loop{};
  const T* operand = nullptr;  // laid out as C; not C's own memory
  const T* origin = nullptr;   // C's first element, to find a place in the other matrices; gemm() sets it

  bool empty() const { return !bias && !residual && activation == Activation::kNone && !loop; }
  // The epilogue of the matrix that lies `elements` further on.
  Epilogue moved(int64_t elements) const {
    Epilogue e = *this;
    if (residual) e.residual += elements;
    if (operand) e.operand += elements;
    return e;
  }
};

// op(A) is [M, K], op(B) is [K, N], C is [M, N]. ta: A is stored as [K, M]; tb: B is stored as [N, K].
// lda, ldb, ldc: elements from one stored row to the next. With beta 0, C is not read. K may be 0.
// `prepared` keeps what is derived from B.
template <class T>
void gemm(bool ta, bool tb, int64_t M, int64_t N, int64_t K, T alpha, const T* A, int64_t lda, const T* B, int64_t ldb,
          T beta, T* C, int64_t ldc, const Epilogue<T>& epilogue = {}, const Prepared& prepared = {});

// `batch` products; matrix i of A starts at A + i * stride_a, and so on. A stride of 0 shares a matrix (not
// C's).
template <class T>
void batched_gemm(int64_t batch, bool ta, bool tb, int64_t M, int64_t N, int64_t K, T alpha, const T* A, int64_t lda,
                  int64_t stride_a, const T* B, int64_t ldb, int64_t stride_b, T beta, T* C, int64_t ldc,
                  int64_t stride_c, const Epilogue<T>& epilogue = {});

}  // namespace paddock::cpu
