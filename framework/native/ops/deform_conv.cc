// Deformable convolution: each tap of the kernel reads the image at a place of its own, which the network predicts.
// Letters: x [N, H, W, C], weight [K, R, S, C/groups], y [N, P, Q, K], G groups of channels that share offsets.
#include "ops/conv_rules.h"

namespace paddock {
namespace {

// Checks all inputs but dy; y's shape.
Shape deformed_shape(const InferContext& c) {
  for (const char* name : {"x", "offset", "weight"}) c.expect_rank(name, 4);
  c.expect_floating("x");
  c.expect_same_dtype();
  const Shape &x = c.shape("x"), &weight = c.shape("weight"), &offset = c.shape("offset");
  const Shape y = conv_shape(c, "x", x, weight);
  const int64_t taps = weight[1] * weight[2], groups = offset[3] / (2 * taps);
  if (groups < 1 || offset[3] % (2 * taps) != 0 || x[3] % groups != 0)
    c.shape_error("offset ", offset, " has ", offset[3], " numbers a pixel (axis -1), but must have 2 for each of the ",
                  taps, " taps of weight ", weight, ", times groups that divide the ", x[3], " channels of x");
  c.expect_shape("offset", {y[0], y[1], y[2], offset[3]});
  if (c.has("mask")) c.expect_shape("mask", {y[0], y[1], y[2], groups * taps});
  return y;
}

constexpr const char* kShapes =
    "x: [N, H, W, C]; offset: [N, P, Q, G * R * S * 2], (dy, dx) of every tap, row by row, for each of G groups of the "
    "channels; weight: [K, R, S, C/groups]; mask: [N, P, Q, G * R * S]";

[[maybe_unused]] OpDef& deform_conv2d = window_attrs(
    define_op("deform_conv2d", "x, offset, weight, mask?, bias? -> y", __FILE__)
        .doc(cat("Convolution whose taps lie `offset` away from where they would, interpolated between four pixels, 0 "
                 "outside of the image (Dai et al. 2017, arXiv:1703.06211), and count `mask` times (v2, Zhu et al. "
                 "2018, arXiv:1811.11168).\n\n",
                 kShapes, "; bias: [K]; y: [N, P, Q, K], P and Q as of conv2d."))
        .flops([](const InferContext& c) { return convolution_flops(c.result(0), c.shape("weight")); })
        .infer([](InferContext& c) {
          const Shape y = deformed_shape(c);
          if (c.has("bias")) c.expect_shape("bias", {c.shape("weight")[0]});
          c.out(0, y, c.in("x").dtype);
        }));

[[maybe_unused]] OpDef& deform_conv2d_grad = window_attrs(
    define_op("deform_conv2d_grad", "dy, x, offset, weight, mask? -> dx, doffset, dweight, dmask", __FILE__)
        .doc(cat("Gradients of deform_conv2d.\n\n", kShapes,
                 "; dy: [N, P, Q, K]; dx, doffset, dweight: as theirs; dmask: [N, P, Q, G * R * S], also without a "
                 "mask."))
        .internal()
        .flops([](const InferContext& c) { return 2 * convolution_flops(c.shape("dy"), c.shape("weight")); })
        .infer([](InferContext& c) {
          c.expect_shape("dy", deformed_shape(c));
          const DType dtype = c.in("x").dtype;
          const Shape& offset = c.shape("offset");
          c.out(0, c.shape("x"), dtype);
          c.out(1, offset, dtype);
          c.out(2, c.shape("weight"), dtype);
          c.out(3, {offset[0], offset[1], offset[2], offset[3] / 2}, dtype);
        }));

}  // namespace
}  // namespace paddock
