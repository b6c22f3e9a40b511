// Indices that come as data: every one is checked before it is used, so that no kernel reads out of bounds.
#pragma once
#include "cpu/kernel.h"

namespace paddock::cpu {

class CheckedIndices {
 public:
  // The indices of input `name` as int64 in [0, extent); `wrap` counts negative ones from the end. `what` is what they
  // index, for the error, which names the first bad one.
  CheckedIndices(const KernelContext& c, const char* name, int64_t extent, bool wrap, const char* what);
  const int64_t* data() const { return memory_.as<int64_t>(); }

 private:
  Scratch memory_;
};

// Tuples of indices as numbers of slices: x is seen as [slices, rest].
class CheckedTuples {
 public:
  // Those of input "indices" [..., K] along the first K axes of x, negative ones counted from the end; the error names
  // the first bad number.
  CheckedTuples(const KernelContext& c, const Shape& x);
  const int64_t* data() const { return memory_.as<int64_t>(); }
  int64_t count() const { return count_; }

 private:
  int64_t count_;
  Scratch memory_;
};

// Types that can be summed: float32, float64, int32, int64; the shape rule has refused the rest.
template <class F>
decltype(auto) dispatch_number(DType t, F&& f) {
  if (is_floating(t)) return dispatch_float(t, f);
  return dispatch_index(t, f);
}

}  // namespace paddock::cpu
