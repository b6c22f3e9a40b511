// Resizing of images [N, H, W, C] to height P and width Q.
#include <cmath>

#include "op/context.h"

namespace paddock {
namespace {

// The wanted height and width: those of `like`, `size`, or floor(scale * extent); one of the three must be given.
std::array<int64_t, 2> target_size(const InferContext& c, const Shape& x) {
  auto size = c.attr<Ints>("size");
  auto scale = c.attr<std::vector<double>>("scale");
  const bool like = c.has("like");
  if (like + !size.empty() + !scale.empty() != 1) c.attr_error("takes either size, scale or like, one of them");
  if (size.size() > 2 || scale.size() > 2) c.attr_error("size and scale take one number, or two (height, width)");
  std::array<int64_t, 2> target;
  for (int i = 0; i < 2; ++i) {
    if (like)
      target[i] = c.shape("like")[1 + i];
    else if (!size.empty())
      target[i] = size[size.size() - 1 < static_cast<size_t>(i) ? 0 : i];
    else
      target[i] = static_cast<int64_t>(std::floor(scale[scale.size() == 1 ? 0 : i] * static_cast<double>(x[1 + i])));
  }
  if (target[0] < 1 || target[1] < 1)
    c.attr_error("height ", target[0], " and width ", target[1], " of the output must be at least 1");
  if (x[1] < 1 || x[2] < 1) c.shape_error("x of shape ", x, " has no pixels to resize");
  return target;
}

void infer_resize(InferContext& c, bool bytes = false) {
  const DType t = c.in("x").dtype;
  if (!bytes || (t != DType::kU8 && t != DType::kI8)) c.expect_floating("x");
  c.expect_rank("x", 4);
  if (c.has("like")) c.expect_rank("like", 4);
  const Shape& x = c.shape("x");
  auto target = target_size(c, x);
  c.out(0, {x[0], target[0], target[1], x[3]}, c.in("x").dtype);
}

void infer_resize_grad(InferContext& c) {
  c.expect_floating("dy");
  c.expect_same_dtype();
  c.expect_rank("dy", 4);
  c.expect_rank("like", 4);
  const Shape &dy = c.shape("dy"), &like = c.shape("like");
  c.expect_shape("dy", {like[0], dy[1], dy[2], like[3]});
  c.out(0, like, c.in("like").dtype);
}

OpDef& define_resize(const char* name, const char* doc) {
  return define_op(name, "x, like? -> y", __FILE__)
      .doc(doc)
      .shape_only("like")
      .half()
      .follows()
      .infer([](InferContext& c) { infer_resize(c); })
      .attr("size", AttrType::kInts, Ints{}, "Height and width of the output: one number or two.")
      .attr("scale", AttrType::kFloats, std::vector<double>{},
            "Factor on height and width: one number or two; the output has floor(scale * extent) pixels.");
}

OpDef& define_resize_grad(const char* name, const char* doc) {
  return define_op(name, "dy, like -> dx", __FILE__)
      .doc(doc)
      .shape_only("like")
      .half()
      .internal()
      .follows()
      .infer(&infer_resize_grad);
}

OpDef& align_attr(OpDef& op) {
  return op.attr("align_corners", AttrType::kBool, false,
                 "Corner pixels' centres coincide; else pixels are squares and image borders coincide.");
}

[[maybe_unused]] OpDef& op_resize_nearest =
    define_resize("resize_nearest",
                  "y[n, p, q] = x[n, floor(p * H / P), floor(q * W / Q)]. P and Q come from `size`, from `scale`, or "
                  "are those of "
                  "`like`; give one of the three. uint8 and int8 are taken too.  x: [N, H, W, C]; like: [_, P, Q, _]; "
                  "y: [N, P, Q, C].")
        .infer([](InferContext& c) { infer_resize(c, /*bytes=*/true); })
        .picking()
        .recompute();

[[maybe_unused]] OpDef& op_resize_nearest_grad =
    define_resize_grad("resize_nearest_grad",
                       "Gradient of resize_nearest by its input, which `like` stands for.  dy: [N, P, Q, C]; like, dx: "
                       "[N, H, W, C].");

[[maybe_unused]] OpDef& op_resize_bilinear = align_attr(define_resize(
    "resize_bilinear",
    "Linear interpolation along height and width. Row p lies at p * (H - 1) / (P - 1) of the input (align_corners), or "
    "at (p + 0.5) * H / P - 0.5, cut at the border. P and Q come from `size`, from `scale`, or are those of `like`; "
    "give one of the three.  x: [N, H, W, C]; like: [_, P, Q, _]; y: [N, P, Q, C]."));

[[maybe_unused]] OpDef& op_resize_bilinear_grad = align_attr(define_resize_grad(
    "resize_bilinear_grad",
    "Gradient of resize_bilinear by its input, which `like` stands for.  dy: [N, P, Q, C]; like, dx: "
    "[N, H, W, C]."));

[[maybe_unused]] OpDef& op_resize_bicubic = align_attr(define_resize(
    "resize_bicubic",
    "Cubic convolution along height and width with a = -0.75 (Keys 1981), as PyTorch's bicubic interpolation. Row p "
    "lies where resize_bilinear has it, but is not cut at the border; pixels beyond that count as those on it. Values "
    "may leave the input's range.  x: [N, H, W, C]; like: [_, P, Q, _]; y: [N, P, Q, C]."));

[[maybe_unused]] OpDef& op_resize_bicubic_grad = align_attr(define_resize_grad(
    "resize_bicubic_grad",
    "Gradient of resize_bicubic by its input, which `like` stands for.  dy: [N, P, Q, C]; like, dx: [N, H, W, C]."));

}  // namespace
}  // namespace paddock
