// What shape rules of operators on ragged data share: `offsets` [B + 1] cut rows into B sequences, without padding.
#pragma once
#include "op/context.h"

namespace paddock {

// B of input `name`, which must be int32 or int64 [B + 1]. What it holds is checked when a kernel reads it.
inline int64_t expect_offsets(const InferContext& c, std::string_view name) {
  c.expect_index(name);
  c.expect_rank(name, 1);
  if (c.shape(name)[0] < 1)
    c.shape_error(name, " is empty but must be [B + 1]: where each of B sequences starts, and the number of rows");
  return c.shape(name)[0] - 1;
}

// The rows of an input, which offsets end at.
inline int64_t rows_of_x(const InferContext& c) { return c.shape("x")[0]; }
inline int64_t rows_of_like(const InferContext& c) { return c.shape("like")[0]; }
inline int64_t rows_of_dy(const InferContext& c) { return c.shape("dy")[0]; }

}  // namespace paddock
