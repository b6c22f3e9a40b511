// Resizing of images [N, H, W, C] to height P and width Q.
#include <cmath>

#include "op/context.h"

namespace paddock {
namespace {

// The wanted height and width: `size`, or floor(scale * extent); one of the two attributes must be given.
std::array<int64_t, 2> target_size(const InferContext& c, const Shape& x) {
  auto size = c.attr<Ints>("size");
  auto scale = c.attr<std::vector<double>>("scale");
  if (size.empty() == scale.empty()) c.attr_error("takes either size or scale, one of them");
  if (size.size() > 2 || scale.size() > 2) c.attr_error("size and scale take one number, or two (height, width)");
  std::array<int64_t, 2> target;
  for (int i = 0; i < 2; ++i) {
    if (!size.empty())
      target[i] = size[size.size() - 1 < static_cast<size_t>(i) ? 0 : i];
    else
      target[i] = static_cast<int64_t>(std::floor(scale[scale.size() == 1 ? 0 : i] * static_cast<double>(x[1 + i])));
  }
  if (target[0] < 1 || target[1] < 1)
    c.attr_error("height ", target[0], " and width ", target[1], " of the output must be at least 1");
  if (x[1] < 1 || x[2] < 1) c.shape_error("x of shape ", x, " has no pixels to resize");
  return target;
}

Shape resized(const InferContext& c, const Shape& x) {
  auto target = target_size(c, x);
  return {x[0], target[0], target[1], x[3]};
}

void infer_resize(InferContext& c) {
  c.expect_floating("x");
  c.expect_rank("x", 4);
  c.out(0, resized(c, c.shape("x")), c.in("x").dtype);
}

void infer_resize_grad(InferContext& c) {
  c.expect_floating("dy");
  c.expect_same_dtype();
  c.expect_rank("like", 4);
  c.expect_shape("dy", resized(c, c.shape("like")));
  c.out(0, c.shape("like"), c.in("like").dtype);
}

OpDef& size_attrs(OpDef& op) {
  return op
      .attr("size", AttrType::kInts, Ints{}, "Height and width of the output: one number or two; empty: use scale.")
      .attr("scale", AttrType::kFloats, std::vector<double>{},
            "Factor on height and width: one number or two; the output has floor(scale * extent) pixels.");
}

OpDef& bilinear_attrs(OpDef& op) {
  return size_attrs(op).attr("align_corners", AttrType::kBool, false,
                             "Corner pixels' centres coincide; else pixels are squares and image borders coincide.");
}

OpDef& define_resize(const char* name, const char* doc) {
  return define_op(name, "x -> y", __FILE__).doc(doc).infer(&infer_resize);
}

OpDef& define_resize_grad(const char* name, const char* doc) {
  return define_op(name, "dy, like -> dx", __FILE__).doc(doc).shape_only("like").infer(&infer_resize_grad);
}

[[maybe_unused]] OpDef& op_resize_nearest = size_attrs(define_resize(
    "resize_nearest", "y[n, p, q] = x[n, floor(p * H / P), floor(q * W / Q)].  x: [N, H, W, C]; y: [N, P, Q, C]."));

[[maybe_unused]] OpDef& op_resize_nearest_grad = size_attrs(
    define_resize_grad("resize_nearest_grad",
                       "Gradient of resize_nearest by its input, which `like` stands for.  dy: [N, P, Q, C]; like, dx: "
                       "[N, H, W, C]."));

[[maybe_unused]] OpDef& op_resize_bilinear = bilinear_attrs(define_resize(
    "resize_bilinear",
    "Linear interpolation along height and width. Row p lies at p * (H - 1) / (P - 1) of the input (align_corners), or "
    "at (p + 0.5) * H / P - 0.5, cut at the border.  x: [N, H, W, C]; y: [N, P, Q, C]."));

[[maybe_unused]] OpDef& op_resize_bilinear_grad = bilinear_attrs(define_resize_grad(
    "resize_bilinear_grad",
    "Gradient of resize_bilinear by its input, which `like` stands for.  dy: [N, P, Q, C]; like, dx: "
    "[N, H, W, C]."));

}  // namespace
}  // namespace paddock
