// Images in 8 bits: to and from them, and convolution and addition of them without float32 in between.
// Letters: x [N, H, W, C], weight [K, R, S, C/groups], y [N, P, Q, K]. An 8-bit number q stands for (q - zero) * scale.
#include <cmath>

#include "op/choice.h"
#include "ops/conv_rules.h"

namespace paddock {
namespace {

constexpr std::initializer_list<const char*> kBytes = {"uint8", "int8"};
constexpr int64_t kMostDepth = int64_t{1} << 16;  // the longest sum that 32 bits hold: 255 * 128 each

DType byte_type(const InferContext& c) { return choice(c, "dtype") == 0 ? DType::kU8 : DType::kI8; }

void expect_bytes(const InferContext& c, const char* name) {
  const DType t = c.in(name).dtype;
  if (t != DType::kU8 && t != DType::kI8)
    fail(ErrorKind::kDType, c.op().name, ": ", name, " is ", dtype_name(t), " but must be uint8 or int8");
}

// The attributes NAME_scale and NAME_zero of 8-bit numbers of type t.
void expect_steps(const InferContext& c, const std::string& name, DType t) {
  const double scale = c.attr<double>(name + "_scale");
  const int64_t zero = c.attr<int64_t>(name + "_zero"), low = t == DType::kU8 ? 0 : -128;
  if (!(scale >= 1e-30 && scale <= 1e30))
    c.attr_error(name, "_scale is ", scale, " but must lie in [1e-30, 1e30]: what a step of 8 bits stands for");
  if (zero < low || zero > low + 255)
    c.attr_error(name, "_zero is ", zero, " but must lie in [", low, ", ", low + 255, "], as its type ", dtype_name(t),
                 " does");
}

// Adds the attributes that expect_steps reads.
OpDef& step_attrs(OpDef& op, const std::string& name) {
  return op.attr(name + "_scale", AttrType::kFloat, 1.0, cat("What a step of ", name, " in 8 bits stands for."))
      .attr(name + "_zero", AttrType::kInt, int64_t{0}, cat("The 8-bit number of ", name, " that stands for 0."));
}

[[maybe_unused]] OpDef& quantize_linear =
    step_attrs(define_op("quantize_linear", "x -> y", __FILE__)
                   .doc("Numbers in 8 bits: y = round(x / y_scale) + y_zero, halves to even, cut to the type's range; "
                        "infinities are cut too. A NaN is an error.\n\n"
                        "x: float32, any shape; y: uint8 or int8, as x."),
               "y")
        .attr("dtype", AttrType::kString, std::string("uint8"), "The type of y.")
        .choices(kBytes)
        .internal()
        .infer([](InferContext& c) {
          c.expect_dtype("x", DType::kF32);
          expect_steps(c, "y", byte_type(c));
          c.out(0, c.shape("x"), byte_type(c));
        });

[[maybe_unused]] OpDef& dequantize_linear =
    step_attrs(define_op("dequantize_linear", "x -> y", __FILE__)
                   .doc("Numbers of 8 bits in float32: y = (x - x_zero) * x_scale.\n\n"
                        "x: uint8 or int8, any shape; y: float32, as x."),
               "x")
        .internal()
        .infer([](InferContext& c) {
          expect_bytes(c, "x");
          expect_steps(c, "x", c.in("x").dtype);
          c.out(0, c.shape("x"), DType::kF32);
        });

OpDef& ending_attrs(OpDef& op) {
  return op.attr("activation", AttrType::kString, std::string("none"), kActivationDoc)
      .choices(kActivations)
      .attr("slope", AttrType::kFloat, 0.01, kSlopeDoc);
}

// The attributes of a float32 x, which is rounded to 16 bits.
void expect_words(const InferContext& c) {
  const double scale = c.attr<double>("x_scale");
  const int64_t most = c.attr<int64_t>("x_most"), zero = c.attr<int64_t>("x_zero");
  if (!(scale >= 1e-30 && scale <= 1e30))
    c.attr_error("x_scale is ", scale, " but must lie in [1e-30, 1e30]: what a step of 16 bits stands for");
  if (most < 1 || most > INT16_MAX) c.attr_error("x_most is ", most, " but must lie in [1, 32767], which 16 bits hold");
  if (zero != 0) c.attr_error("x_zero is ", zero, " and x float32, which is rounded with 0 for 0; take x_zero 0");
}

// quantized_conv2d that gives its sums.
void infer_sums(InferContext& c, const Shape& y) {
  for (const char* name : {"bias", "residual"})
    if (c.has(name)) c.attr_error("dtype is 'int32', the plain sums; add the ", name, " afterwards");
  if (c.attr<std::string>("activation") != "none")
    c.attr_error("dtype is 'int32', the plain sums; take activation 'none'");
  c.out(0, y, DType::kI32);
}

[[maybe_unused]] OpDef& quantized_conv2d =
    step_attrs(
        step_attrs(
            step_attrs(
                ending_attrs(window_attrs(
                    define_op("quantized_conv2d", "x, weight, weight_scale, bias?, residual? -> y", __FILE__)
                        .doc("conv2d of 8-bit images and weights. With exact 32-bit sums of (x - x_zero) * weight and "
                             "all else in float32, in steps of y (of 1 where y is float32):\n"
                             "v = sum * (x_scale * weight_scale / y_scale) + bias / y_scale + (residual - "
                             "residual_zero) * (residual_scale / y_scale), through the activation, whose 6 is "
                             "6 / y_scale; y = round(v) + y_zero, halves to even, cut to the type's range. Factors in "
                             "brackets are rounded once. Borders are x_zero, which stands for 0. With dtype 'int32' "
                             "y is the sums themselves, and weight_scale is not looked at.\n"
                             "A float32 x is rounded to 16 bits first: round(x / x_scale), halves to even, cut to "
                             "[-x_most, x_most]; x_zero is 0 then. x_most times the sum of the magnitudes of a "
                             "filter's weights must be below 2^31, so that 32 bits hold every sum; else, and where x "
                             "has a NaN, it is an error.\n\n"
                             "x: [N, H, W, C] uint8, int8 or float32; weight: [K, R, S, C/groups] int8; weight_scale, "
                             "bias: [K] "
                             "float32; residual: [N, P, Q, K] uint8, int8 or float32; y: [N, P, Q, K] of `dtype`."))),
                "x"),
            "residual"),
        "y")
        .attr("residual_last", AttrType::kBool, false, kResidualLastDoc)
        .attr("x_most", AttrType::kInt, int64_t{INT16_MAX},
              "The largest whole number that a float32 x is rounded to, at most 32767.")
        .attr("dtype", AttrType::kString, std::string("uint8"), "The type of y.")
        .choices({"uint8", "int8", "float32", "int32"})
        .attr("algorithm", AttrType::kString, std::string("auto"),
              "'auto' takes the processor's 8-bit dot products (VNNI) where it has them, and else what is likely to be "
              "fastest; 'widening' multiplies 16-bit numbers; 'winograd' transforms tiles exactly (3 x 3 kernels of "
              "8-bit images, of stride and groups 1), and is 'auto' for other shapes. The result is the same.")
        .choices({"auto", "widening", "winograd"})
        .internal()
        .flops([](const InferContext& c) { return convolution_flops(c.result(0), c.shape("weight")); })
        .infer([](InferContext& c) {
          c.expect_rank("x", 4);
          c.expect_rank("weight", 4);
          const bool is_float = c.in("x").dtype == DType::kF32;
          if (is_float)
            expect_words(c);
          else
            expect_bytes(c, "x");
          c.expect_dtype("weight", DType::kI8);
          activation_choice(c);
          choice(c, "algorithm");
          const Shape& weight = c.shape("weight");
          const Shape y = conv_shape(c, "x", c.shape("x"), weight);
          const int64_t depth = weight.count(1, 4);
          if (depth > kMostDepth)
            c.shape_error("weight ", weight, " adds ", depth, " products, but a 32-bit sum is exact for at most ",
                          kMostDepth);
          for (const char* name : {"weight_scale", "bias"})
            if (c.has(name)) c.expect_dtype(name, DType::kF32);
          c.expect_shape("weight_scale", {weight[0]});
          if (c.has("bias")) c.expect_shape("bias", {weight[0]});
          if (!is_float) expect_steps(c, "x", c.in("x").dtype);
          if (choice(c, "dtype") == 3) return infer_sums(c, y);
          const DType type = choice(c, "dtype") == 2 ? DType::kF32 : byte_type(c);
          if (type != DType::kF32) expect_steps(c, "y", type);
          if (c.has("residual")) {
            c.expect_shape("residual", y);
            const DType given = c.in("residual").dtype;
            if (given != DType::kF32) expect_bytes(c, "residual");
            if (given == DType::kF32 && type != DType::kF32)
              fail(ErrorKind::kDType, "quantized_conv2d: residual is float32 and y is ", dtype_name(type),
                   "; round it to 8 bits too, or take dtype 'float32'");
            if (given != DType::kF32) expect_steps(c, "residual", given);
          }
          c.out(0, y, type);
        });

[[maybe_unused]] OpDef& quantized_add =
    step_attrs(
        step_attrs(
            step_attrs(ending_attrs(
                           define_op("quantized_add", "a, b -> y", __FILE__)
                               .doc("The sum of two arrays of 8-bit numbers through an activation, in steps of y: v = "
                                    "(a - a_zero) * (a_scale / y_scale) + (b - b_zero) * (b_scale / y_scale); y = "
                                    "round(activation(v)) + y_zero, halves to even, cut to the type's range.\n\n"
                                    "a, b: uint8 or int8 of one shape; y: of `dtype`, as they.")),
                       "a"),
            "b"),
        "y")
        .attr("dtype", AttrType::kString, std::string("uint8"), "The type of y.")
        .choices(kBytes)
        .internal()
        .infer([](InferContext& c) {
          activation_choice(c);
          for (const char* name : {"a", "b"}) {
            expect_bytes(c, name);
            expect_steps(c, name, c.in(name).dtype);
          }
          expect_steps(c, "y", byte_type(c));
          c.expect_shape("b", c.shape("a"));
          c.out(0, c.shape("a"), byte_type(c));
        });

PADDOCK_OP(requantize, "x, scale, bias? -> y")
    .doc(
        "Whole numbers times a scale, rounded as fixed-point hardware and TensorFlow Lite's reference do: with scale = "
        "m * 2^e, m in [0.5, 1) in 31 bits, y = round(round((x + bias) * 2^max(e, 0) * m) / 2^max(-e, 0)) + y_zero, "
        "cut to [low, high]. The inner rounding takes halves up, the outer away from 0: two roundings, so that y "
        "differs from the nearest number by one step at times. What leaves 32 bits before the end is cut to them. "
        "The result is the same on every instruction set. Source: Jacob et al. 2018 (arXiv:1712.05877), section "
        "2.2.\n\n"
        "x: [..., K] int32; scale: [K] or [1] float64, in (0, 2^30); bias: [K] int32; y: [..., K] of `dtype`.")
    .attr("y_zero", AttrType::kInt, int64_t{0}, "Added to the result: the number that stands for 0.")
    .attr("low", AttrType::kInt, int64_t{-128}, "The least result, within the range of `dtype`.")
    .attr("high", AttrType::kInt, int64_t{127}, "The largest result, within the range of `dtype`.")
    .attr("dtype", AttrType::kString, std::string("int8"), "The type of y.")
    .choices({"uint8", "int8", "int32"})
    .internal()
    .infer([](InferContext& c) {
      c.expect_rank_at_least("x", 1);
      c.expect_dtype("x", DType::kI32);
      c.expect_dtype("scale", DType::kF64);
      c.expect_rank("scale", 1);
      const Shape& x = c.shape("x");
      const int64_t channels = x.back();
      if (c.shape("scale")[0] != 1) c.expect_shape("scale", {channels});
      if (c.has("bias")) {
        c.expect_dtype("bias", DType::kI32);
        c.expect_shape("bias", {channels});
      }
      constexpr DType kTypes[] = {DType::kU8, DType::kI8, DType::kI32};
      constexpr int64_t kLow[] = {0, -128, INT32_MIN}, kHigh[] = {255, 127, INT32_MAX};
      const size_t type = choice(c, "dtype");
      const int64_t low = c.attr<int64_t>("low"), high = c.attr<int64_t>("high"), zero = c.attr<int64_t>("y_zero");
      if (low < kLow[type] || high > kHigh[type] || low > high)
        c.attr_error("low is ", low, " and high ", high, ", but they must lie in order in [", kLow[type], ", ",
                     kHigh[type], "], as their type ", dtype_name(kTypes[type]), " does");
      if (zero < INT32_MIN || zero > INT32_MAX) c.attr_error("y_zero is ", zero, " but must fit 32 bits");
      c.out(0, x, kTypes[type]);
    });

}  // namespace
}  // namespace paddock
