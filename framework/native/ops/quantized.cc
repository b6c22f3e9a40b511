// Products and tables with 8-bit weights, for inference.
#include "op/choice.h"

namespace paddock {
namespace {

// The longest sum that 32 bits hold: 127 * 128 each.
constexpr int64_t kMostDepth = 1 << 17;

PADDOCK_OP(quantized_matmul, "x, weight, weight_scale, bias?, residual?, x_scale? -> y")
    .doc(
        "A product with 8-bit weights: x is rounded to 8 or 16 bits, the sums are exact, and y = activation(q "
        "weight^T * s * weight_scale + bias + residual) with q = round(x / s), halves to even.\n\n"
        "Without `x_scale` (dynamic) each row of x has its own s, its largest magnitude / x_most; a row with a NaN or "
        "an infinity gives NaN, one whose magnitudes are all below x_most * 3e-39 counts as zeros. With it (static) s "
        "is x_scale for all rows and q is cut to [-x_most, x_most]; a row with a NaN gives NaN. Above 127, x_most "
        "times the sum of the magnitudes of a row of weights must be below 2^31, or the product is an error.\n"
        "x: [..., C] float32; weight: [K, C] int8; weight_scale, bias: [K]; x_scale: []; residual, y: [..., K].")
    .attr("activation", AttrType::kString, std::string("none"), kProductActivationDoc)
    .choices(kProductActivations)
    .attr("slope", AttrType::kFloat, 0.01, kSlopeDoc)
    .attr("x_most", AttrType::kInt, int64_t{127},
          "The largest whole number that x is rounded to: 127 for 8 bits, up to 32767 for 16.")
    .attr("algorithm", AttrType::kString, std::string("auto"),
          "'auto' takes the processor's 8-bit dot products (VNNI) where it has them, 'widening' does without; the "
          "result is the same.")
    .choices({"auto", "widening"})
    .inplace("residual", "y")
    .internal()
    .flops([](const InferContext& c) { return 2 * c.result(0).numel() * c.shape("weight")[1]; })
    .infer([](InferContext& c) {
      const Shape &x = c.shape("x"), &weight = c.shape("weight");
      c.expect_rank_at_least("x", 1);
      c.expect_rank("weight", 2);
      c.expect_dtype("x", DType::kF32);
      c.expect_dtype("weight", DType::kI8);
      activation_choice(c);
      choice(c, "algorithm");
      const int64_t most = c.attr<int64_t>("x_most");
      if (most < 1 || most > INT16_MAX)
        c.attr_error("x_most is ", most, " but must lie in [1, 32767], which 16 bits hold");
      if (x.back() != weight[1])
        c.shape_error("x has ", x.back(), " columns (axis -1 of ", x, ") but weight has ", weight[1], " (axis 1 of ",
                      weight, ")");
      if (weight[1] > kMostDepth)
        c.shape_error("weight ", weight, " has ", weight[1], " columns, but a 32-bit sum is exact for at most ",
                      kMostDepth, "; split the product");
      Shape y = x;
      y[y.rank() - 1] = weight[0];
      for (const char* name : {"weight_scale", "bias", "residual", "x_scale"})
        if (c.has(name)) c.expect_dtype(name, DType::kF32);
      c.expect_shape("weight_scale", {weight[0]});
      if (c.has("bias")) c.expect_shape("bias", {weight[0]});
      if (c.has("residual")) c.expect_shape("residual", y);
      if (c.has("x_scale")) c.expect_shape("x_scale", {});
      c.out(0, y, DType::kF32);
    });

PADDOCK_OP(quantized_embedding, "weight, weight_scale, ids -> y")
    .doc(
        "Rows of an 8-bit table by id, each number times the scale of its row: y = weight[id] * weight_scale[id].\n\n"
        "weight: [V, D] int8; weight_scale: [V] float32; ids: any shape, int32 or int64 in [0, V); y: [*ids.shape, D] "
        "float32.")
    .attr("padding_idx", AttrType::kInt, int64_t{-1}, "An id whose row reads as zeros; -1 for none.")
    .checks(DataCheck::kIndices, "ids", [](const InferContext& c) { return c.shape("weight")[0]; })
    .internal()
    .infer([](InferContext& c) {
      c.expect_rank("weight", 2);
      c.expect_dtype("weight", DType::kI8);
      c.expect_dtype("weight_scale", DType::kF32);
      const int64_t rows = c.shape("weight")[0], padding = c.attr<int64_t>("padding_idx");
      c.expect_shape("weight_scale", {rows});
      if (padding < -1 || padding >= rows)
        c.attr_error("padding_idx is ", padding, " but must be -1 (none) or a row of the table, in [0, ", rows - 1,
                     "]");
      c.expect_index("ids");
      Shape y = c.shape("ids");
      y.push_back(c.shape("weight")[1]);
      c.out(0, y, DType::kF32);
    });

}  // namespace
}  // namespace paddock
