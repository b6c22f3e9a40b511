// Kernels of ops/ragged_product.cc: one product a sequence, each shared out among the threads by its size.
#include "cpu/gemm/gemm.h"
#include "cpu/kernel.h"
#include "cpu/sequence/offsets.h"

namespace paddock::cpu {
namespace {

PADDOCK_CPU_KERNEL(segment_outer) {
  const Tensor &x = c.in("x"), &z = c.in("z");
  const CheckedOffsets offsets(c, "offsets", x.shape()[0]);
  const int64_t rows = x.shape()[1], columns = z.shape()[1];
  if (rows == 0 || columns == 0) return;
  dispatch_float(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t b = 0; b < offsets.sequences(); ++b)
      gemm<T>(true, false, rows, columns, offsets.length(b), T(1), x.data<T>() + offsets.begin(b) * rows, rows,
              z.data<T>() + offsets.begin(b) * columns, columns, T(0), c.out(0).data<T>() + b * rows * columns,
              columns);
  });
}

PADDOCK_CPU_KERNEL(segment_product) {
  const Tensor &x = c.in("x"), &m = c.in("m");
  const CheckedOffsets offsets(c, "offsets", x.shape()[0]);
  const bool turned = c.attr<bool>("transpose_m");
  const int64_t inner = x.shape()[1], columns = c.out(0).shape()[1];
  if (columns == 0) return;
  dispatch_float(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t b = 0; b < offsets.sequences(); ++b) {
      if (offsets.length(b) == 0) continue;
      gemm<T>(false, turned, offsets.length(b), columns, inner, T(1), x.data<T>() + offsets.begin(b) * inner, inner,
              m.data<T>() + b * inner * columns, turned ? inner : columns, T(0),
              c.out(0).data<T>() + offsets.begin(b) * columns, columns);
    }
  });
}

}  // namespace
}  // namespace paddock::cpu
