// Sampling of images [N, H, W, C] at places that are data; P Q stand for the output's height and width.
#include "op/choice.h"

namespace paddock {
namespace {

void expect_sampling(const InferContext& c) {
  c.expect_floating("x");
  c.expect_same_dtype();
  c.expect_rank("x", 4);
  c.expect_rank("grid", 4);
  const Shape &x = c.shape("x"), &grid = c.shape("grid");
  if (grid[0] != x[0]) c.shape_error("grid ", grid, " is for ", grid[0], " images but x ", x, " has ", x[0]);
  if (grid[3] != 2) c.shape_error("grid ", grid, " has ", grid[3], " numbers a place (axis -1) but must have 2: x, y");
  if (x[1] < 1 || x[2] < 1) c.shape_error("x of shape ", x, " has no pixels to sample");
  choice(c, "mode");
  choice(c, "padding");
}

Shape sampled_shape(const InferContext& c) {
  const Shape &x = c.shape("x"), &grid = c.shape("grid");
  return {x[0], grid[1], grid[2], x[3]};
}

OpDef& sampling_attrs(OpDef& op) {
  return op
      .attr("mode", AttrType::kString, std::string("bilinear"),
            "'bilinear': between the four pixels around a place; 'nearest': the nearest pixel, halves to even.")
      .choices({"bilinear", "nearest"})
      .attr("padding", AttrType::kString, std::string("zeros"),
            "What lies outside of the image: 'zeros', the 'border' or its 'reflection'.")
      .choices({"zeros", "border", "reflection"})
      .attr("align_corners", AttrType::kBool, false,
            "-1 and 1 are the centres of the corner pixels; else the image's edges.");
}

[[maybe_unused]] OpDef& op_grid_sample = sampling_attrs(
    define_op("grid_sample", "x, grid -> y", __FILE__)
        .doc("Pixels of `x` at the places that `grid` names (Jaderberg et al. 2015, arXiv:1506.02025), as PyTorch's "
             "function of the name. A place that is NaN gives NaN.  x: [N, H, W, C]; grid: [N, P, Q, 2], (x, y) with "
             "[-1, 1] across the image; y: [N, P, Q, C].")
        .half("grid")
        .infer([](InferContext& c) {
          expect_sampling(c);
          c.out(0, sampled_shape(c), c.in("x").dtype);
        }));

[[maybe_unused]] OpDef& op_grid_sample_grad = sampling_attrs(
    define_op("grid_sample_grad", "dy, x, grid -> dx, dgrid", __FILE__)
        .doc(
            "Gradients of grid_sample; dgrid is 0 in mode 'nearest', where places are cut at the border, and at a NaN. "
            " dy: [N, P, Q, C]; x, dx: [N, H, W, C]; grid, dgrid: [N, P, Q, 2].")
        .half("grid, dgrid")
        .internal()
        .infer([](InferContext& c) {
          expect_sampling(c);
          c.expect_shape("dy", sampled_shape(c));
          c.out("dx", c.shape("x"), c.in("x").dtype);
          c.out("dgrid", c.shape("grid"), c.in("x").dtype);
        }));

[[maybe_unused]] OpDef& op_grid_sample_grad_grad = sampling_attrs(
    define_op("grid_sample_grad_grad", "ddx, ddgrid, dy, x, grid -> ddy, dx, dgrid", __FILE__)
        .doc("Gradients of grid_sample_grad. A place counts twice in one pixel's weight only where it moves along both "
             "axes: by x twice, or by y twice, the derivative of a weight is 0.  ddx, x, dx: [N, H, W, C]; ddgrid, "
             "grid, dgrid: [N, P, Q, 2]; dy, ddy: [N, P, Q, C].")
        .half("ddgrid, grid, dgrid")
        .internal()
        .infer([](InferContext& c) {
          expect_sampling(c);
          c.expect_shape("ddx", c.shape("x"));
          c.expect_shape("ddgrid", c.shape("grid"));
          c.expect_shape("dy", sampled_shape(c));
          c.out("ddy", c.shape("dy"), c.in("x").dtype);
          c.out("dx", c.shape("x"), c.in("x").dtype);
          c.out("dgrid", c.shape("grid"), c.in("x").dtype);
        }));

}  // namespace
}  // namespace paddock
