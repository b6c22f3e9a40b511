// What the blocks of optimizer steps share: shapes, attributes, groups of parameters, rows of tables.
#pragma once
#include "op/context.h"

namespace paddock {

inline void expect_scalar(const InferContext& c, std::string_view name) {
  c.expect_rank(name, 0);
  c.expect_floating(name);
}

// `names` have the shape and type of the first, which is floating; output i has them too.
inline void infer_step(InferContext& c, std::initializer_list<const char*> names, std::string_view rate) {
  const char* first = *names.begin();
  c.expect_floating(first);
  for (const char* name : names) {
    c.expect_shape(name, c.shape(first));
    c.expect_dtype(name, c.in(first).dtype);
  }
  expect_scalar(c, rate);
  if (rate == "lr" && c.has("grad_scale")) expect_scalar(c, "grad_scale");
  for (size_t i = 0; i < c.op().outputs.size(); ++i) c.out(static_cast<int>(i), c.shape(first), c.in(first).dtype);
}

inline void check_fraction(const InferContext& c, std::string_view name) {
  double value = c.attr<double>(name);
  if (!(value >= 0 && value < 1)) c.attr_error(name, " is ", value, " but must lie in [0, 1)");
}

inline void check_weight_decay(const InferContext& c) {
  double decay = c.attr<double>("weight_decay");
  if (!(decay >= 0)) c.attr_error("weight_decay is ", decay, " but must be 0 or more");
}

inline constexpr const char* kDecayDoc = "Multiple of param that is added to its gradient (L2).";
inline constexpr const char* kScaleDoc =
    "  grad_scale: [], multiplies grad, absent for 1: clipping's factor, or one over a loss scale. Where it is NaN or "
    "infinite the step is skipped, unless `skip` is off: every result is what it replaces.";

// A group of parameters: after the scalars come kIn tensors of one shape for each, of which those in `kept` have a new
// value among the outputs, in order.
inline constexpr int kMostInPlace = 128;  // parameters of a group that are updated in their own memory

inline void infer_group(InferContext& c, int first, int in, int out) {
  const int tensors = c.input_count() - first;
  if (tensors < in || tensors % in != 0)
    c.shape_error("got ", tensors, " tensors but takes ", in, " for each parameter");
  for (int i = 0; i < tensors; ++i) {
    const TensorType& like = c.in(first + i / in * in);
    if (like.dtype != DType::kF32 && like.dtype != DType::kF64)
      c.dtype_error("tensor ", i, " is ", like.dtype, " but must be float32 or float64; use cast");
    if (!(c.in(first + i) == like) || like.dtype != c.in(first).dtype)
      c.shape_error("tensor ", i, " is ", c.in(first + i).dtype, " ", c.shape(first + i),
                    " but its parameter and the first are ", like.dtype, " ", like.shape, " and ", c.in(first).dtype);
  }
  for (int i = 0; i < tensors / in; ++i)
    for (int k = 0; k < out; ++k) c.out(i * out + k, c.shape(first + i * in), c.in(first).dtype);
}

inline OpDef& group_in_place(OpDef& op, int first, int in, std::initializer_list<int> kept) {
  for (int i = 0; i < kMostInPlace; ++i) {
    int output = i * static_cast<int>(kept.size());
    for (int k : kept) op.in_place.push_back({first + i * in + k, output++});
  }
  return op;
}

inline void check_scalars(const InferContext& c) {
  expect_scalar(c, "lr");
  if (c.has("grad_scale")) expect_scalar(c, "grad_scale");
}

inline OpDef& skip_attr(OpDef& op) {
  return op.attr("skip", AttrType::kBool, true, "Change nothing where grad_scale is NaN or infinite.");
}

inline constexpr const char* kRowsDoc =
    "  param and what belongs to it: [V, D]; rows: int64 [n], each row once or -1 for none; values: [n, D], their "
    "gradient. Rows that are not listed, or whose gradient is all zeros, stand still: the step costs what it touches.";

inline void check_rows(const InferContext& c) {
  c.expect_rank("param", 2);
  c.expect_rank("rows", 1);
  c.expect_dtype("rows", DType::kI64);
  c.expect_shape("values", {c.shape("rows")[0], c.shape("param")[1]});
  c.expect_dtype("values", c.in("param").dtype);
}

inline constexpr const char* kGroupDoc =
    " of many parameters at once; their elements are shared out to the threads as if they were one tensor. ";

}  // namespace paddock
