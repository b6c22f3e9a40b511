// Two-dimensional convolution, its two gradients and the transposed convolution.
// Letters: x [N, H, W, C], weight [K, R, S, C/groups], y [N, P, Q, K].
#include "op/choice.h"
#include "ops/conv_rules.h"

namespace paddock {
namespace {

OpDef& algorithm_attr(OpDef& op) {
  return op
      .attr(
          "algorithm", AttrType::kString, std::string("auto"),
          "'auto' (what should be fastest for the shapes), 'direct' (every product of the definition) or "
          "'winograd' (fewer products, error up to 1e-5 of the largest output; 3 x 3 kernels with stride and groups 1, "
          "with a dilation only where padding keeps the image's size, in float32; float64 is always direct).")
      .choices(kConvAlgorithms);
}

void check_algorithm(const InferContext& c, const Shape& weight) {
  if (algorithm_choice(c) != 2) return;
  const ConvWindow w = conv_window(c, weight);
  const auto keeps = [](const ConvAxis& a) { return a.before == a.dilation && a.after == a.dilation; };
  const bool dilated = w.h.dilation * w.w.dilation > 1;
  const bool plain = w.h.stride == 1 && w.w.stride == 1 && w.groups == 1 && (!dilated || (keeps(w.h) && keeps(w.w)));
  if (!plain || w.h.taps != 3 || w.w.taps != 3)
    c.attr_error(
        "algorithm 'winograd' takes 3 x 3 kernels with stride and groups 1, and dilation where padding keeps the ",
        "image's size, not weight ", weight, " with stride ", w.h.stride, " x ", w.w.stride, ", dilation ",
        w.h.dilation, " x ", w.w.dilation, ", groups ", w.groups, "; use 'auto'");
}

void expect_images(const InferContext& c, std::initializer_list<const char*> names) {
  for (const char* name : names) c.expect_rank(name, 4);
  c.expect_floating(*names.begin());
  c.expect_same_dtype();
}

[[maybe_unused]] OpDef& conv2d =
    algorithm_attr(
        window_attrs(define_op("conv2d", "x, weight, bias?, residual? -> y", __FILE__)
                         .doc("Two-dimensional convolution (cross-correlation), plus bias and residual, through an "
                              "activation.\n\n"
                              "x: [N, H, W, C]; weight: [K, R, S, C/groups]; bias: [K]; residual, y: [N, P, Q, K],\n"
                              "P = (H + top + bottom - dilation * (R - 1) - 1) // stride + 1, Q likewise.")))
        .attr("activation", AttrType::kString, std::string("none"), kActivationDoc)
        .choices(kActivations)
        .attr("slope", AttrType::kFloat, 0.01, kSlopeDoc)
        .attr("residual_last", AttrType::kBool, false, kResidualLastDoc)
        .epilogue()
        .inplace("residual", "y")
        .half("weight, bias")
        .narrows("x, residual")
        .flops([](const InferContext& c) { return convolution_flops(c.result(0), c.shape("weight")); })
        .infer([](InferContext& c) {
          expect_images(c, {"x", "weight"});
          activation_choice(c);
          check_algorithm(c, c.shape("weight"));
          c.out(0, conv_shape(c, "x", c.shape("x"), c.shape("weight")), c.in("x").dtype);
          if (c.has("bias")) c.expect_shape("bias", {c.shape("weight")[0]});
          if (c.has("residual")) c.expect_shape("residual", conv_shape(c, "x", c.shape("x"), c.shape("weight")));
        });

constexpr const char* kDepthActivationDoc = "Applied between the two convolutions; one of those of `activation`.";

[[maybe_unused]] OpDef& separable_conv2d =
    window_attrs(define_op("separable_conv2d", "x, depth_weight, weight, depth_bias?, bias?, residual? -> y", __FILE__)
                     .doc("A depthwise convolution through its bias and activation, then a 1 x 1 convolution plus bias "
                          "and residual through another activation, as in MobileNets (Howard et al. 2017, "
                          "arXiv:1704.04861); the image in between is not kept in memory.\n\n"
                          "x: [N, H, W, C]; depth_weight: [C, R, S, 1]; weight: [K, 1, 1, C]; depth_bias: [C]; bias: "
                          "[K]; residual, y: [N, P, Q, K]. groups is C."))
        .attr("depth_activation", AttrType::kString, std::string("none"), kDepthActivationDoc)
        .choices(kActivations)
        .attr("depth_slope", AttrType::kFloat, 0.01, "As `slope`, of the activation between.")
        .attr("activation", AttrType::kString, std::string("none"), kActivationDoc)
        .choices(kActivations)
        .attr("slope", AttrType::kFloat, 0.01, kSlopeDoc)
        .attr("residual_last", AttrType::kBool, false, kResidualLastDoc)
        .inplace("residual", "y")
        .fused_from("separable_conv2d")
        .half("depth_weight, weight, depth_bias, bias")
        .internal()
        .narrows("x, residual")
        .flops([](const InferContext& c) {
          const Shape& y = c.result(0);
          const Shape between{y[0], y[1], y[2], c.shape("depth_weight")[0]};
          return convolution_flops(between, c.shape("depth_weight")) + convolution_flops(y, c.shape("weight"));
        })
        .infer([](InferContext& c) {
          expect_images(c, {"x", "depth_weight", "weight"});
          activation_choice(c);
          depth_activation_choice(c);
          const Shape depth = conv_shape(c, "x", c.shape("x"), c.shape("depth_weight"));
          const int64_t channels = depth[3], groups = c.attr<int64_t>("groups");
          if (channels != c.shape("x")[3] || groups != channels)
            c.shape_error("depth_weight ", c.shape("depth_weight"), " with ", groups, " groups is not depthwise for x ",
                          c.shape("x"), "; it must be [", c.shape("x")[3], ", R, S, 1] with ", c.shape("x")[3],
                          " groups");
          c.expect_shape("weight", {c.shape("weight")[0], 1, 1, channels});
          const Shape y{depth[0], depth[1], depth[2], c.shape("weight")[0]};
          c.out(0, y, c.in("x").dtype);
          if (c.has("depth_bias")) c.expect_shape("depth_bias", {channels});
          if (c.has("bias")) c.expect_shape("bias", {y[3]});
          if (c.has("residual")) c.expect_shape("residual", y);
        });

[[maybe_unused]] OpDef& conv2d_grad_input =
    algorithm_attr(window_attrs(define_op("conv2d_grad_input", "dy, weight, like -> dx", __FILE__)
                                    .doc("Gradient of conv2d by its image.  dy: [N, P, Q, K]; weight: [K, R, S, "
                                         "C/groups]; like, dx: [N, H, W, C].")))
        .shape_only("like")
        .half("weight")
        .internal()
        .flops([](const InferContext& c) { return convolution_flops(c.shape("dy"), c.shape("weight")); })
        .infer([](InferContext& c) {
          expect_images(c, {"dy", "weight", "like"});
          check_algorithm(c, c.shape("weight"));
          c.expect_shape("dy", conv_shape(c, "like", c.shape("like"), c.shape("weight")));
          c.out(0, c.shape("like"), c.in("dy").dtype);
        });

[[maybe_unused]] OpDef& conv2d_grad_weight =
    algorithm_attr(window_attrs(define_op("conv2d_grad_weight", "x, dy, like -> dweight", __FILE__)
                                    .doc("Gradient of conv2d by its weight.  x: [N, H, W, C]; dy: [N, P, Q, K]; like, "
                                         "dweight: [K, R, S, C/groups].")))
        .shape_only("like")
        .half("like, dweight")
        .internal()
        .flops([](const InferContext& c) { return convolution_flops(c.shape("dy"), c.result(0)); })
        .infer([](InferContext& c) {
          expect_images(c, {"x", "dy", "like"});
          check_algorithm(c, c.shape("like"));
          c.expect_shape("dy", conv_shape(c, "x", c.shape("x"), c.shape("like")));
          c.out(0, c.shape("like"), c.in("x").dtype);
        });

// The image whose convolution has x's height and width, `rest` rows and columns more than the smallest such.
Shape transposed_shape(const InferContext& c, const Shape& x, const Shape& weight) {
  const ConvWindow window = conv_window(c, weight);
  const auto rest = c.pair("output_padding");
  if (x[3] != weight[0])
    c.shape_error("x has ", x[3], " channels (axis -1 of ", x, ") but weight ", weight, " expects ", weight[0]);
  if (weight[0] % window.groups != 0)
    c.shape_error("weight ", weight, " has ", weight[0], " input channels (axis 0), which ", window.groups,
                  " groups do not divide");
  Shape y{x[0], 0, 0, weight[3] * window.groups};
  for (int i : {0, 1}) {
    const ConvAxis& a = i == 0 ? window.h : window.w;
    if (rest[i] < 0 || rest[i] >= a.stride)
      c.attr_error("output_padding is ", rest[i], " but must lie in [0, ", a.stride - 1, "], less than the stride");
    y[1 + i] = (x[1 + i] - 1) * a.stride + a.reach() - a.before - a.after + rest[i];
    if (x[1 + i] < 1 || y[1 + i] < 1)
      c.shape_error("x of shape ", x, " has ", i == 0 ? "height " : "width ", x[1 + i],
                    ", from which the padding leaves nothing");
  }
  return y;
}

[[maybe_unused]] OpDef& conv2d_transpose =
    algorithm_attr(
        window_attrs(
            define_op("conv2d_transpose", "x, weight, bias? -> y", __FILE__)
                .doc("Transposed convolution: the gradient of conv2d by its image, as an operator that enlarges, "
                     "plus bias.\n\n"
                     "x: [N, H, W, C]; weight: [C, R, S, K/groups]; bias: [K]; y: [N, P, Q, K],\n"
                     "P = (H - 1) * stride + dilation * (R - 1) + 1 - top - bottom + output_padding, Q likewise.")))
        .attr("output_padding", AttrType::kInts, Ints{0},
              "Rows and columns more at the far side, less than the stride; one number, or (height, width).")
        .half("weight, bias")
        .narrows("x")
        .flops([](const InferContext& c) { return convolution_flops(c.shape("x"), c.shape("weight")); })
        .infer([](InferContext& c) {
          expect_images(c, {"x", "weight"});
          check_algorithm(c, c.shape("weight"));
          const Shape y = transposed_shape(c, c.shape("x"), c.shape("weight"));
          if (c.has("bias")) c.expect_shape("bias", {y[3]});
          c.out(0, y, c.in("x").dtype);
        });

}  // namespace
}  // namespace paddock
