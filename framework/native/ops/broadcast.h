// NumPy broadcasting in shape rules: shapes are aligned at their last axis, an extent of 1 repeats.
#pragma once
#include "op/context.h"

namespace paddock {

// The common shape of inputs [first, last], or a ShapeError that names the two that do not fit.
inline Shape broadcast_inputs(const InferContext& c, int first, int last) {
  Shape y = c.shape(first);
  for (int i = first + 1; i <= last; ++i) {
    const Shape& x = c.shape(i);
    Shape wide = x.rank() > y.rank() ? x : y;
    const Shape& narrow = x.rank() > y.rank() ? y : x;
    for (int axis = -1; axis >= -narrow.rank(); --axis) {
      int64_t &to = wide[wide.rank() + axis], from = narrow.dim(axis);
      if (to != from && to != 1 && from != 1)
        c.shape_error(c.op().inputs[first].name, " of shape ", c.shape(first), " and ", c.op().inputs[i].name,
                      " of shape ", x, " do not broadcast: axis ", axis, " has ", y.dim(axis), " and ", x.dim(axis),
                      "; extents must be equal or 1");
      if (to == 1) to = from;
    }
    y = wide;
  }
  return y;
}

// Whether `from` broadcasts to exactly `to`.
inline bool broadcasts_to(const Shape& from, const Shape& to) {
  if (from.rank() > to.rank()) return false;
  for (int axis = -1; axis >= -from.rank(); --axis)
    if (from.dim(axis) != to.dim(axis) && from.dim(axis) != 1) return false;
  return true;
}

}  // namespace paddock
