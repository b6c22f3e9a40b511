// The kernels of ops/matmul.cc: which matrices are multiplied; cpu/gemm/gemm.h multiplies them.
#include "cpu/gemm/gemm.h"
#include "cpu/gemm/product_activation.h"
#include "cpu/kernel.h"

namespace paddock::cpu {
namespace {

struct Matrix {
  Shape leading;
  int64_t rows, columns;  // as stored
  explicit Matrix(Shape s) : rows(s.dim(-2)), columns(s.dim(-1)) {
    s.erase(s.rank() - 1);
    s.erase(s.rank() - 1);
    leading = s;
  }
};

// The number of the matrix that index `k` over the broadcast axes `y` reads in a tensor with axes `x`.
int64_t matrix_number(const Shape& y, const Shape& x, int64_t k) {
  int64_t number = 0, stride = 1;
  for (int i = 1; i <= y.rank(); ++i) {
    const int64_t at = k % y.dim(-i);
    k /= y.dim(-i);
    if (i > x.rank()) break;
    if (x.dim(-i) > 1) number += at * stride;
    stride *= x.dim(-i);
  }
  return number;
}

template <class T>
Epilogue<T> forward_epilogue(const KernelContext& c) {
  Epilogue<T> e;
  e.bias = c.maybe<T>("bias");
  e.residual = c.maybe<T>("residual");
  e.loop = activation_loop(c, activation_of(c), false);
  if (!e.loop) e.activation = activation_of(c);
  e.slope = c.attr<T>("slope");
  return e;
}

template <class T>
void multiply(const KernelContext& c, const Epilogue<T>& epilogue) {
  const Matrix a(c.in("a").shape()), b(c.in("b").shape()), y(c.out(0).shape());
  const bool ta = c.attr<bool>("transpose_a"), tb = c.attr<bool>("transpose_b");
  const int64_t depth = ta ? a.rows : a.columns, count = y.leading.numel();
  const T *pa = c.in("a").data<T>(), *pb = c.in("b").data<T>();
  T* py = c.out(0).data<T>();
  if (c.out(0).numel() == 0) return;
  const int64_t size_a = a.rows * a.columns, size_b = b.rows * b.columns, size_y = y.rows * y.columns;
  const bool one_a = a.leading.numel() == 1, one_b = b.leading.numel() == 1;
  // Rows of a share one b: the whole is a single tall product.
  if (one_b && !ta) {
    gemm<T>(ta, tb, count * y.rows, y.columns, depth, T(1), pa, a.columns, pb, b.columns, T(0), py, y.columns, epilogue,
            c.prepared("b"));
    return;
  }
  if ((one_a || a.leading == y.leading) && (one_b || b.leading == y.leading)) {
    batched_gemm<T>(count, ta, tb, y.rows, y.columns, depth, T(1), pa, a.columns, one_a ? 0 : size_a, pb, b.columns,
                    one_b ? 0 : size_b, T(0), py, y.columns, size_y, epilogue);
    return;
  }
  for (int64_t k = 0; k < count; ++k) {
    gemm<T>(ta, tb, y.rows, y.columns, depth, T(1), pa + matrix_number(y.leading, a.leading, k) * size_a, a.columns,
            pb + matrix_number(y.leading, b.leading, k) * size_b, b.columns, T(0), py + k * size_y, y.columns,
            epilogue.moved(k * size_y));
  }
}

PADDOCK_CPU_KERNEL(matmul) {
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    multiply(c, forward_epilogue<T>(c));
  });
}

PADDOCK_CPU_KERNEL(matmul_activation_grad) {
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    Epilogue<T> e;
    e.loop = activation_loop(c, activation_of(c), true);
    e.operand = c.in("at").data<T>();
    multiply(c, e);
  });
}

}  // namespace
}  // namespace paddock::cpu
