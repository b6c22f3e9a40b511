// Reductions over axes, running sums, and the operator that undoes a reduction's shape.
#include "op/context.h"

namespace paddock {
namespace {

// The shape of x without the axes of the mask, or with extent 1 in their place.
Shape reduced_shape(const Shape& x, uint32_t mask, bool keepdims) {
  Shape y;
  for (int i = 0; i < x.rank(); ++i) {
    if (!(mask >> i & 1))
      y.push_back(x[i]);
    else if (keepdims)
      y.push_back(1);
  }
  return y;
}

Shape reduced(const InferContext& c) {
  return reduced_shape(c.shape(0), c.axes_mask("axes", c.shape(0).rank()), c.attr<bool>("keepdims"));
}

void expect_number(const InferContext& c) {
  if (c.in(0).dtype == DType::kBool)
    c.dtype_error("x is bool but must be float32, float64, a half type or an integer type; use cast");
}

void expect_elements(const InferContext& c, uint32_t mask) {
  for (int i = 0; i < c.shape(0).rank(); ++i)
    if ((mask >> i & 1) && c.shape(0)[i] == 0)
      c.shape_error("x of shape ", c.shape(0), " has no elements along axis ", i, ", so there is none to choose");
}

// Sums and products of whole numbers are int64, as in NumPy.
void infer_sum(InferContext& c) {
  const DType t = c.in(0).dtype;
  c.out(0, reduced(c), is_floating(t) ? t : DType::kI64);
}

void infer_prod(InferContext& c) {
  DType t = c.in(0).dtype;
  if (t != DType::kF32 && t != DType::kF64 && t != DType::kI32 && t != DType::kI64)
    c.dtype_error("x is ", t, " but must be float32, float64, int32 or int64; use cast");
  c.out(0, reduced(c), is_floating(t) ? t : DType::kI64);
}

void infer_floating(InferContext& c) {
  c.expect_floating("x");
  c.out(0, reduced(c), c.in(0).dtype);
}

void infer_extreme(InferContext& c) {
  expect_number(c);
  expect_elements(c, c.axes_mask("axes", c.shape(0).rank()));
  c.out(0, reduced(c), c.in(0).dtype);
}

void infer_bool(InferContext& c) {
  if (c.in(0).dtype != DType::kBool)
    c.dtype_error("x is ", c.in(0).dtype, " but must be bool; compare it first (x != 0)");
  c.out(0, reduced(c), DType::kBool);
}

void infer_arg(InferContext& c) {
  expect_number(c);
  uint32_t mask = 1u << c.axis("axis", c.shape(0).rank());
  expect_elements(c, mask);
  c.out(0, reduced_shape(c.shape(0), mask, c.attr<bool>("keepdims")), DType::kI64);
}

constexpr const char* kShapes = "  x: any shape; y: x's shape without `axes`, or with extent 1 there (keepdims).";

// The block that all reductions over a list of axes share.
OpDef& with_axes(OpDef& op, const std::string& text, InferFn rule) {
  return op.doc(text + kShapes)
      .attr("axes", AttrType::kInts, Ints{}, "Axes to reduce, negative counted from the end; none means all.")
      .attr("keepdims", AttrType::kBool, false, "Keep the reduced axes with extent 1.")
      .half()
      .along("axes")
      .infer(rule);
}

#define REDUCTION(name, text, rule) \
  [[maybe_unused]] static OpDef& op_##name = with_axes(define_op(#name, "x -> y", __FILE__), text, rule)

REDUCTION(sum,
          "The sum. float32 is added pairwise in blocks of 2048 and across blocks in float64; whole numbers and bool "
          "give int64.",
          &infer_sum);
REDUCTION(mean, "The arithmetic mean, NaN of no elements.", &infer_floating);
REDUCTION(max, "The largest element; NaN if there is one. The gradient is shared equally by all that are largest.",
          &infer_extreme)
    .follows();
REDUCTION(min, "The smallest element; NaN if there is one. The gradient is shared equally by all that are smallest.",
          &infer_extreme)
    .follows();
REDUCTION(prod,
          "The product, 1 of no elements; whole numbers give int64. Its gradient holds with zeros among the "
          "elements, its second derivative only without.",
          &infer_prod);
REDUCTION(any, "Whether an element is true.", &infer_bool);
REDUCTION(all, "Whether all elements are true.", &infer_bool);
REDUCTION(logsumexp, "log(sum(e^x)), computed as m + log(sum(e^(x - m))) with m = max(x) so that nothing overflows.",
          &infer_floating);

// Variances take `correction` off the number of elements that they divide by.
void infer_variance(InferContext& c) {
  const auto correction = c.attr<double>("correction");
  if (!(correction >= 0)) c.attr_error("correction is ", correction, " but must be 0 or more");
  infer_floating(c);
}

#define VARIANCE(name, text)                                                                                  \
  [[maybe_unused]] static OpDef& op_##name =                                                                  \
      with_axes(define_op(#name, "x -> y", __FILE__), text, &infer_variance)                                  \
          .attr("correction", AttrType::kFloat, 0.0,                                                          \
                "What is taken off the number of elements: 0 for the biased variance (NumPy's and the array " \
                "standard's default), 1 for Bessel's correction (PyTorch's default).")

VARIANCE(var,
         "The variance: the sum of squared distances from the mean over (number of elements - correction), in two "
         "passes; NaN where that number is 0.");
VARIANCE(std, "The standard deviation, the root of var. Its gradient at 0 is 0.");

PADDOCK_OP(var_grad, "dy, x -> dx")
    .doc(
        "Gradient of var: dx = 2 * dy * (x - mean) / (number of elements - correction).  dy: x's shape reduced over "
        "`axes`; x, dx: one shape.")
    .attr("axes", AttrType::kInts, Ints{}, "The axes that were reduced; none means all.")
    .attr("keepdims", AttrType::kBool, false, "Whether dy has the reduced axes with extent 1.")
    .attr("correction", AttrType::kFloat, 0.0, "What was taken off the number of elements.")
    .inplace("x", "dx")
    .half()
    .internal()
    .infer([](InferContext& c) {
      c.expect_floating("dy");
      c.expect_same_dtype();
      const Shape& x = c.shape("x");
      c.expect_shape("dy", reduced_shape(x, c.axes_mask("axes", x.rank()), c.attr<bool>("keepdims")));
      c.out(0, x, c.in("x").dtype);
    });

#define ARG_REDUCTION(name, text)                                                                         \
  PADDOCK_OP(name, "x -> y")                                                                              \
      .doc(text "  x: any shape; y: int64, x's shape without `axis`, or with extent 1 there (keepdims).") \
      .attr("axis", AttrType::kInt, "Axis to search, negative counted from the end.")                     \
      .attr("keepdims", AttrType::kBool, false, "Keep the axis with extent 1.")                           \
      .half()                                                                                             \
      .follows()                                                                                          \
      .along("axis")                                                                                      \
      .infer(&infer_arg)

ARG_REDUCTION(argmax, "Index of the largest element along an axis; the first of equals, a NaN before all.");
ARG_REDUCTION(argmin, "Index of the smallest element along an axis; the first of equals, a NaN before all.");

// The block that running sums and products share.
OpDef& running(OpDef& op, const char* text) {
  return op.doc(cat(text, "  x, y: one shape."))
      .attr("axis", AttrType::kInt, "Axis to go along, negative counted from the end.")
      .attr("reverse", AttrType::kBool, false, "Go from the last element to the first.")
      .inplace("x", "y")
      .half()
      .along("axis")
      .infer([](InferContext& c) {
        DType t = c.in(0).dtype;
        if (!is_floating(t) && t != DType::kI32 && t != DType::kI64)
          c.dtype_error("x is ", t, " but must be float32, float64, int32 or int64; use cast");
        c.axis("axis", c.shape(0).rank());
        c.out(0, c.shape(0), t);
      });
}

[[maybe_unused]] OpDef& op_cumsum =
    running(define_op("cumsum", "x -> y", __FILE__),
            "Sums of all elements up to and including each along an axis; float32 adds in float64.");
[[maybe_unused]] OpDef& op_cumprod =
    running(define_op("cumprod", "x -> y", __FILE__),
            "Products of all elements up to and including each along an axis; float32 multiplies in float64. The "
            "gradient holds with zeros among the elements, its own gradient only without.");

PADDOCK_OP(cumprod_grad, "dy, x -> dx")
    .doc(
        "Gradient of cumprod without a division: dx[i] = p[i] * s[i], p[i] the product of the elements before i, s[i] "
        "= "
        "dy[i] + x[i + 1] * s[i + 1].  dy, x, dx: one shape.")
    .attr("axis", AttrType::kInt, "As in cumprod.")
    .attr("reverse", AttrType::kBool, false, "As in cumprod.")
    .half()
    .internal()
    .infer([](InferContext& c) {
      c.expect_floating("dy");
      c.expect_same_dtype();
      c.expect_shape("dy", c.shape("x"));
      c.axis("axis", c.shape("x").rank());
      c.out(0, c.shape("x"), c.in("x").dtype);
    });

PADDOCK_OP(linear_scan, "a, b -> y")
    .doc(
        "The recurrence y[i] = a[i] * y[i - 1] + b[i] along an axis, 0 before the first, so that a[0] counts for "
        "nothing.  a, b, y: one shape.")
    .attr("axis", AttrType::kInt, "Axis to go along, negative counted from the end.")
    .attr("reverse", AttrType::kBool, false, "Go from the last element to the first.")
    .inplace("a", "y")
    .inplace("b", "y")
    .half()
    .along("axis")
    .infer([](InferContext& c) {
      c.expect_floating("a");
      c.expect_same_dtype();
      c.expect_shape("b", c.shape("a"));
      c.axis("axis", c.shape("a").rank());
      c.out(0, c.shape("a"), c.in("a").dtype);
    });

PADDOCK_OP(unreduce, "x, like -> y")
    .doc(
        "Repeats x along `axes` to the shape of `like`: the transpose of sum, or of mean when averaging.  x: like's "
        "shape reduced over `axes`; like: any type; y: like's shape, x's type.")
    .attr("axes", AttrType::kInts, Ints{}, "The axes that were reduced; none means all.")
    .attr("keepdims", AttrType::kBool, false, "Whether x has the reduced axes with extent 1.")
    .attr("average", AttrType::kBool, false, "Divide by the number of repetitions.")
    .shape_only("like")
    .half()
    .internal()
    .spread()
    .infer([](InferContext& c) {
      const Shape& like = c.shape(1);
      c.expect_floating("x");
      c.expect_shape("x", reduced_shape(like, c.axes_mask("axes", like.rank()), c.attr<bool>("keepdims")));
      c.out(0, like, c.in(0).dtype);
    });

}  // namespace
}  // namespace paddock
