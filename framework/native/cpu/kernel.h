// How a CPU kernel is put into the registry, and the helpers that kernels share.
#pragma once
#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "op/context.h"

namespace paddock::cpu {

std::vector<KernelEntry>& kernel_table();

struct KernelRegistrar {
  KernelRegistrar(const char* op, KernelFn fn, bool half = false) { kernel_table().push_back({op, fn, half}); }
};

// PADDOCK_CPU_KERNEL(relu) { const Tensor& x = c.in(0); ... }
#define PADDOCK_CPU_KERNEL(op)                                                    \
  static void op##_kernel(const ::paddock::KernelContext& c);                     \
  static const ::paddock::cpu::KernelRegistrar op##_registrar(#op, &op##_kernel); \
  static void op##_kernel([[maybe_unused]] const ::paddock::KernelContext& c)

// The same for calls with half types, in the place of copies in float32: PADDOCK_CPU_HALF_KERNEL(matmul) { ... }
#define PADDOCK_CPU_HALF_KERNEL(op)                                                               \
  static void op##_half_kernel(const ::paddock::KernelContext& c);                                \
  static const ::paddock::cpu::KernelRegistrar op##_half_registrar(#op, &op##_half_kernel, true); \
  static void op##_half_kernel([[maybe_unused]] const ::paddock::KernelContext& c)

// Elements a thread takes at a time in memory-bound loops: 64 KB of float32, well above the cost of a claim.
inline constexpr int64_t kGrain = 16384;

// Rows a thread takes at a time when one row costs `row_size` elements.
inline int64_t row_grain(int64_t row_size) { return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, row_size)); }

}  // namespace paddock::cpu
