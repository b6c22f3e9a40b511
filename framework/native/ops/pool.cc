// Pooling over windows of images [N, H, W, C]; P Q stand for the output's height and width.
#include "ops/window.h"

namespace paddock {
namespace {

OpDef& window_attrs(OpDef& op) {
  return op.attr("kernel", AttrType::kInts, "Height and width of the window: one number or two.")
      .attr("stride", AttrType::kInts, Ints{}, "Step between windows: one number or two; empty: the kernel.")
      .attr("padding", AttrType::kInts, Ints{0},
            "Border: one number, (height, width) or (top, bottom, left, right); less than the kernel.")
      .attr("ceil_mode", AttrType::kBool, false,
            "Also take a last window that leaves the padded input, when it starts in the input or before it.");
}

OpDef& average_attrs(OpDef& op) {
  return window_attrs(op).attr("count_include_pad", AttrType::kBool, true,
                               "Divide by the window's extent with its padding, not by the pixels in it.");
}

Shape pooled_shape(const InferContext& c, const Shape& x) {
  Windows w = pooling_windows_of(c, x);
  return {w.images, w.h.out, w.w.out, w.channels};
}

void infer_pool(InferContext& c) {
  c.expect_floating("x");
  c.expect_rank("x", 4);
  c.out(0, pooled_shape(c, c.shape("x")), c.in("x").dtype);
}

// The largest of 8-bit numbers is exact whatever they stand for.
void infer_max_pool(InferContext& c) {
  const DType t = c.in("x").dtype;
  if (t != DType::kU8 && t != DType::kI8) return infer_pool(c);
  c.expect_rank("x", 4);
  c.out(0, pooled_shape(c, c.shape("x")), t);
}

// dy has the pooled shape of input `like`, whose shape the output takes.
void infer_pool_grad(InferContext& c, std::string_view like) {
  c.expect_floating("dy");
  c.expect_same_dtype();
  c.expect_rank(like, 4);
  c.expect_shape("dy", pooled_shape(c, c.shape(like)));
  c.out(0, c.shape(like), c.in(like).dtype);
}

[[maybe_unused]] OpDef& op_max_pool2d = window_attrs(
    define_op("max_pool2d", "x -> y", __FILE__)
        .doc("The largest value of each window; NaN where a window holds one.  x: [N, H, W, C]; y: [N, P, Q, C] with "
             "P = floor((H + top + bottom - kernel) / stride) + 1, or ceil. uint8 and int8 are taken too.")
        .half()
        .follows()
        .picking()
        .infer(&infer_max_pool));

[[maybe_unused]] OpDef& op_max_pool2d_grad = window_attrs(
    define_op("max_pool2d_grad", "dy, x -> dx", __FILE__)
        .doc("Gradient of max_pool2d: each dy goes to the first largest value of its window.  dy: [N, P, Q, C]; x, dx: "
             "[N, H, W, C].")
        .half()
        .internal()
        .follows()
        .infer([](InferContext& c) { infer_pool_grad(c, "x"); }));

[[maybe_unused]] OpDef& op_max_pool2d_pick = window_attrs(
    define_op("max_pool2d_pick", "v, x -> y", __FILE__)
        .doc("The value of `v` where each window of `x` has its first largest value: the adjoint of max_pool2d_grad.  "
             "v, x: [N, H, W, C]; y: [N, P, Q, C].")
        .half()
        .internal()
        .follows()
        .infer([](InferContext& c) {
          c.expect_shape("v", c.shape("x"));
          c.expect_same_dtype();
          infer_pool(c);
        }));

[[maybe_unused]] OpDef& op_avg_pool2d = average_attrs(
    define_op("avg_pool2d", "x -> y", __FILE__)
        .doc("The mean of each window.  x: [N, H, W, C]; y: [N, P, Q, C] with P = floor((H + top + bottom - kernel) / "
             "stride) + 1, or ceil.")
        .half()
        .follows()
        .infer(&infer_pool));

[[maybe_unused]] OpDef& op_avg_pool2d_grad = average_attrs(
    define_op("avg_pool2d_grad", "dy, like -> dx", __FILE__)
        .doc("Gradient of avg_pool2d by its input, which `like` stands for.  dy: [N, P, Q, C]; like, dx: [N, H, W, C].")
        .shape_only("like")
        .half()
        .internal()
        .follows()
        .infer([](InferContext& c) { infer_pool_grad(c, "like"); }));

OpDef& adaptive_attrs(OpDef& op) {
  return op.attr("size", AttrType::kInts, "Height and width of the output: one number or two; they need not divide.");
}

constexpr const char* kAdaptive =
    "window p covers the rows floor(p H / P) to ceil((p + 1) H / P) - 1, and so the columns, as PyTorch's adaptive "
    "pooling.  ";

[[maybe_unused]] OpDef& op_adaptive_max_pool2d =
    adaptive_attrs(define_op("adaptive_max_pool2d", "x -> y", __FILE__)
                       .doc(cat("The largest value of each of P x Q windows, NaN where a window holds one; ", kAdaptive,
                                "x: [N, H, W, C]; y: [N, P, Q, C] with [P, Q] = size."))
                       .half()
                       .follows()
                       .infer(&infer_pool));

[[maybe_unused]] OpDef& op_adaptive_max_pool2d_grad = adaptive_attrs(
    define_op("adaptive_max_pool2d_grad", "dy, x -> dx", __FILE__)
        .doc("Gradient of adaptive_max_pool2d: each dy goes to the first largest value of its window.  dy: [N, P, Q, "
             "C]; x, dx: [N, H, W, C].")
        .half()
        .internal()
        .follows()
        .infer([](InferContext& c) { infer_pool_grad(c, "x"); }));

[[maybe_unused]] OpDef& op_adaptive_max_pool2d_pick =
    adaptive_attrs(define_op("adaptive_max_pool2d_pick", "v, x -> y", __FILE__)
                       .doc("The value of `v` where each window of `x` has its first largest value: the adjoint of "
                            "adaptive_max_pool2d_grad.  v, x: [N, H, W, C]; y: [N, P, Q, C].")
                       .half()
                       .internal()
                       .follows()
                       .infer([](InferContext& c) {
                         c.expect_shape("v", c.shape("x"));
                         c.expect_same_dtype();
                         infer_pool(c);
                       }));

[[maybe_unused]] OpDef& op_adaptive_avg_pool2d =
    adaptive_attrs(define_op("adaptive_avg_pool2d", "x -> y", __FILE__)
                       .doc(cat("The mean of each of P x Q windows; ", kAdaptive,
                                "x: [N, H, W, C]; y: [N, P, Q, C] with [P, Q] = size."))
                       .half()
                       .follows()
                       .infer(&infer_pool));

[[maybe_unused]] OpDef& op_adaptive_avg_pool2d_grad = adaptive_attrs(
    define_op("adaptive_avg_pool2d_grad", "dy, like -> dx", __FILE__)
        .doc("Gradient of adaptive_avg_pool2d by its input, which `like` stands for.  dy: [N, P, Q, C]; like, dx: [N, "
             "H, W, C].")
        .shape_only("like")
        .half()
        .internal()
        .follows()
        .infer([](InferContext& c) { infer_pool_grad(c, "like"); }));

}  // namespace
}  // namespace paddock
