// Indices that come as data: every one is checked before it is used, so that no kernel reads out of bounds.
#pragma once
#include "cpu/kernel.h"

namespace paddock::cpu {

// The indices as int64 in [0, extent); `wrap` counts negative ones from the end. `what` is what they index, for the
// error, which names the first bad one.
Scratch checked_indices(const KernelContext& c, const char* name, int64_t extent, bool wrap, const char* what);

// Types that can be summed: float32, float64, int32, int64; the shape rule has refused the rest.
template <class F>
decltype(auto) dispatch_number(DType t, F&& f) {
  if (is_floating(t)) return dispatch_float(t, f);
  return dispatch_index(t, f);
}

}  // namespace paddock::cpu
