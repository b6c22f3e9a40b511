// Normalisation: over the batch (Ioffe & Szegedy 2015), over the last axis (Ba et al. 2016), over groups of channels
// (Wu & He 2018). Statistics are outputs, so that gradients and running averages need no second pass.
#include "op/choice.h"

namespace paddock {
namespace {

void check_eps(const InferContext& c) {
  double eps = c.attr<double>("eps");
  if (!(eps >= 0)) c.attr_error("eps is ", eps, " but must be 0 or more");
}

// x is floating with at least `rank` axes and everything has its type; returns [C].
Shape channels_of_x(const InferContext& c, int rank) {
  c.expect_floating("x");
  c.expect_same_dtype();
  c.expect_rank_at_least("x", rank);
  check_eps(c);
  return Shape{c.shape("x").back()};
}

void expect_if_given(const InferContext& c, std::string_view name, const Shape& shape) {
  if (c.has(name)) c.expect_shape(name, shape);
}

constexpr const char* kEpsDoc = "Added to the variance.";

// The shapes of a batch normalisation: x, y and residual [..., C], everything in `vectors` [C].
Shape batch_norm_shapes(const InferContext& c, std::initializer_list<const char*> vectors) {
  Shape channels = channels_of_x(c, 1);
  for (const char* name : vectors) expect_if_given(c, name, channels);
  return channels;
}

void check_activation_and_residual(const InferContext& c) {
  expect_if_given(c, "residual", c.shape("x"));
  activation_choice(c);
}

PADDOCK_OP(batch_norm, "x, scale, bias, residual? -> y, mean, var")
    .doc(
        "y = activation((x - mean) / sqrt(var + eps) * scale + bias + residual) with the mean and the biased variance "
        "of each channel over all other axes.  x: [..., C]; scale, bias, mean, var: [C]; residual, y: like x.")
    .attr("eps", AttrType::kFloat, 1e-5, kEpsDoc)
    .attr("activation", AttrType::kString, "none", kActivationDoc)
    .choices(kActivations)
    .attr("slope", AttrType::kFloat, 0.01, kSlopeDoc)
    .attr("residual_last", AttrType::kBool, false, kResidualLastDoc)
    .inplace("x", "y")
    .inplace("residual", "y")
    .fused_from("batch_norm")
    .half("scale, bias, mean, var")
    .narrows("x, residual")
    .recompute("batch_norm_inference", "x, scale, bias, mean, var, residual")
    .infer([](InferContext& c) {
      Shape channels = batch_norm_shapes(c, {"scale", "bias"});
      check_activation_and_residual(c);
      const Shape& x = c.shape("x");
      if (x.count(0, x.rank() - 1) == 1)
        c.shape_error(
            "x of shape ", x, " has one value a channel, whose deviation from their mean is 0 whatever it is, so ",
            "nothing can be learned from it; train with a larger batch or larger inputs, or with frozen norms");
      c.out("y", c.shape("x"), c.in("x").dtype);
      c.out("mean", channels, c.in("x").dtype);
      c.out("var", channels, c.in("x").dtype);
    });

PADDOCK_OP(batch_norm_inference, "x, scale, bias, mean, var, residual? -> y")
    .doc(
        "y = activation((x - mean) / sqrt(var + eps) * scale + bias + residual) with given statistics; with those of "
        "batch_norm, its y bit for bit.  x, residual, y: [..., C]; the others: [C].")
    .attr("eps", AttrType::kFloat, 1e-5, kEpsDoc)
    .attr("activation", AttrType::kString, "none", kActivationDoc)
    .choices(kActivations)
    .attr("slope", AttrType::kFloat, 0.01, kSlopeDoc)
    .attr("residual_last", AttrType::kBool, false, kResidualLastDoc)
    .inplace("x", "y")
    .inplace("residual", "y")
    .fused_from("batch_norm_inference")
    .half("scale, bias, mean, var")
    .narrows("x, residual")
    .recompute()
    .infer([](InferContext& c) {
      batch_norm_shapes(c, {"scale", "bias", "mean", "var"});
      check_activation_and_residual(c);
      c.out("y", c.shape("x"), c.in("x").dtype);
    });

// Shapes of the gradients: dx and the two of [C].
void infer_batch_norm_grad(InferContext& c) {
  Shape channels = batch_norm_shapes(c, {"scale", "mean", "var", "dmean", "dvar"});
  c.expect_shape("dy", c.shape("x"));
  c.out("dx", c.shape("x"), c.in("x").dtype);
  c.out("dscale", channels, c.in("x").dtype);
  c.out("dbias", channels, c.in("x").dtype);
}

PADDOCK_OP(batch_norm_grad, "dy, x, scale, mean, var, dmean?, dvar? -> dx, dscale, dbias")
    .doc(
        "Gradients of batch_norm from its input and statistics; dmean and dvar are the gradients of those outputs, 0 "
        "when absent.  dy, x, dx: [..., C]; the others: [C].")
    .attr("eps", AttrType::kFloat, 1e-5, kEpsDoc)
    .inplace("dy", "dx")
    .inplace("x", "dx")
    .half("scale, mean, var, dmean, dvar, dscale, dbias")
    .internal()
    .infer(&infer_batch_norm_grad);

PADDOCK_OP(batch_norm_activation_grad, "dy, x, scale, bias, mean, var, dmean?, dvar? -> dx, dscale, dbias")
    .doc(
        "Gradients of batch_norm with an activation: batch_norm_grad of dy times the activation's derivative, which is "
        "computed again from x. A residual that is added after the activation has the gradient dy.  dy, x, dx: "
        "[..., C]; the others: [C].")
    .attr("eps", AttrType::kFloat, 1e-5, kEpsDoc)
    .attr("activation", AttrType::kString, "none", kActivationDoc)
    .choices(kActivations)
    .attr("slope", AttrType::kFloat, 0.01, kSlopeDoc)
    .inplace("dy", "dx")
    .inplace("x", "dx")
    .fused_from("batch_norm_activation_grad")
    .half("scale, bias, mean, var, dmean, dvar, dscale, dbias")
    .internal()
    .infer([](InferContext& c) {
      activation_choice(c);
      infer_batch_norm_grad(c);
      c.expect_shape("bias", c.shape("scale"));
    });

PADDOCK_OP(batch_norm_residual_grad, "dy, y, x, scale, mean, var, dmean?, dvar? -> dx, dscale, dbias, dresidual")
    .doc(
        "Gradients of batch_norm whose activation follows the residual, by its result y: dresidual is dy times the "
        "activation's derivative and the others are batch_norm_grad of that.  dy, y, x, dx, dresidual: [..., C]; the "
        "others: [C].")
    .attr("eps", AttrType::kFloat, 1e-5, kEpsDoc)
    .attr("activation", AttrType::kString, "none", kActivationDoc)
    .choices(kActivations)
    .attr("slope", AttrType::kFloat, 0.01, kSlopeDoc)
    .inplace("x", "dx")
    .inplace("y", "dx")
    .inplace("dy", "dresidual")
    .fused_from("batch_norm_residual_grad")
    .half("scale, mean, var, dmean, dvar, dscale, dbias")
    .internal()
    .infer([](InferContext& c) {
      activation_choice(c);
      infer_batch_norm_grad(c);
      c.expect_shape("y", c.shape("x"));
      c.out("dresidual", c.shape("x"), c.in("x").dtype);
    });

// x's shape without its last axis: one number a row.
Shape rows_of(const Shape& x) {
  Shape rows = x;
  rows.erase(x.rank() - 1);
  return rows;
}

PADDOCK_OP(layer_norm, "x, scale?, bias? -> y, mean, rstd")
    .doc(
        "y = (x - mean) * rstd * scale + bias over the last axis, with rstd = 1 / sqrt(var + eps) and the biased "
        "variance.  x, y: [..., D]; scale, bias: [D], absent for 1 and 0; mean, rstd: [...].")
    .attr("eps", AttrType::kFloat, 1e-5, kEpsDoc)
    .inplace("x", "y")
    .half("scale, bias, mean, rstd")
    .narrows("x")
    .recompute()
    .infer([](InferContext& c) {
      Shape last = channels_of_x(c, 1);
      expect_if_given(c, "scale", last);
      expect_if_given(c, "bias", last);
      c.out("y", c.shape("x"), c.in("x").dtype);
      for (const char* name : {"mean", "rstd"}) c.out(name, rows_of(c.shape("x")), c.in("x").dtype);
    });

PADDOCK_OP(layer_norm_grad, "dy, x, mean, rstd, scale?, dmean?, drstd? -> dx, dscale, dbias")
    .doc(
        "Gradients of layer_norm from its input and statistics; dmean and drstd are the gradients of those outputs, 0 "
        "when absent.  dy, x, dx: [..., D]; scale, dscale, dbias: [D]; the others: [...].")
    .inplace("dy", "dx")
    .inplace("x", "dx")
    .half("scale, mean, rstd, dmean, drstd, dscale, dbias")
    .internal()
    .infer([](InferContext& c) {
      c.expect_floating("x");
      c.expect_same_dtype();
      c.expect_rank_at_least("x", 1);
      c.expect_shape("dy", c.shape("x"));
      Shape last{c.shape("x").back()};
      expect_if_given(c, "scale", last);
      for (const char* name : {"mean", "rstd", "dmean", "drstd"}) expect_if_given(c, name, rows_of(c.shape("x")));
      c.out("dx", c.shape("x"), c.in("x").dtype);
      for (const char* name : {"dscale", "dbias"}) c.out(name, last, c.in("x").dtype);
    });

PADDOCK_OP(rms_norm, "x, scale? -> y, rstd")
    .doc(
        "y = x * rstd * scale with rstd = 1 / sqrt(mean(x^2) + eps) over the last axis (Zhang & Sennrich 2019, "
        "arXiv:1910.07467).  x, y: [..., D]; scale: [D], absent for 1; rstd: [...].")
    .attr("eps", AttrType::kFloat, 1e-5, "Added to the mean square.")
    .inplace("x", "y")
    .fused_from("rms_norm")
    .half("scale, rstd")
    .narrows("x")
    .infer([](InferContext& c) {
      expect_if_given(c, "scale", channels_of_x(c, 1));
      c.out("y", c.shape("x"), c.in("x").dtype);
      c.out("rstd", rows_of(c.shape("x")), c.in("x").dtype);
    });

PADDOCK_OP(rms_norm_grad, "dy, x, rstd, scale?, drstd? -> dx, dscale")
    .doc(
        "Gradients of rms_norm from its input and rstd; drstd is the gradient of that output, 0 when absent.  dy, x, "
        "dx: [..., D]; scale, dscale: [D]; rstd, drstd: [...].")
    .inplace("dy", "dx")
    .inplace("x", "dx")
    .fused_from("rms_norm_grad")
    .half("scale, rstd, drstd, dscale")
    .internal()
    .infer([](InferContext& c) {
      c.expect_floating("x");
      c.expect_same_dtype();
      c.expect_rank_at_least("x", 1);
      c.expect_shape("dy", c.shape("x"));
      const Shape last{c.shape("x").back()};
      expect_if_given(c, "scale", last);
      for (const char* name : {"rstd", "drstd"}) expect_if_given(c, name, rows_of(c.shape("x")));
      c.out("dx", c.shape("x"), c.in("x").dtype);
      c.out("dscale", last, c.in("x").dtype);
    });

// The key and the probability of a dropout on the way.
void expect_dropout(const InferContext& c) {
  const double p = c.attr<double>("p");
  if (!(p >= 0 && p < 1)) c.attr_error("p is ", p, " but must lie in [0, 1)");
  if (!c.has("key")) {
    if (p > 0) c.attr_error("p is ", p, " but there is no key; give one, or p = 0");
    return;
  }
  c.expect_dtype("key", DType::kI64);
  c.expect_shape("key", {2});
}

void expect_dtype_of(const InferContext& c, const char* first, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (c.has(name)) c.expect_dtype(name, c.in(first).dtype);
}

constexpr const char* kDropoutDoc = "Probability of 0 in the dropout, in [0, 1); 0 without a key.";

PADDOCK_OP(residual_layer_norm, "x, residual, scale?, bias?, key? -> y, sum, mean, rstd")
    .doc(
        "What ends a Transformer's sublayer: sum = dropout(x) + residual, and layer_norm of it. Without a key there is "
        "no dropout.  x, residual, y, sum: [..., D]; scale, bias: [D], absent for 1 and 0; key: int64[2]; mean, rstd: "
        "[...].")
    .attr("p", AttrType::kFloat, 0.0, kDropoutDoc)
    .attr("eps", AttrType::kFloat, 1e-5, kEpsDoc)
    .inplace("x", "sum")
    .inplace("residual", "sum")
    .fused_from("residual_layer_norm")
    .half("scale, bias, mean, rstd")
    .internal()
    .narrows("x, residual")
    .recompute("layer_norm", "sum, scale, bias")
    .infer([](InferContext& c) {
      c.expect_floating("x");
      expect_dtype_of(c, "x", {"residual", "scale", "bias"});
      c.expect_rank_at_least("x", 1);
      check_eps(c);
      expect_dropout(c);
      const Shape& x = c.shape("x");
      c.expect_shape("residual", x);
      for (const char* name : {"scale", "bias"}) expect_if_given(c, name, Shape{x.back()});
      for (const char* name : {"y", "sum"}) c.out(name, x, c.in("x").dtype);
      for (const char* name : {"mean", "rstd"}) c.out(name, rows_of(x), c.in("x").dtype);
    });

PADDOCK_OP(residual_layer_norm_grad,
           "dy, sum, mean, rstd, key, scale?, dsum?, dmean?, drstd? -> dx, dresidual, dscale, dbias")
    .doc(
        "Gradients of residual_layer_norm with a dropout, which is made again from its key: dresidual is "
        "layer_norm_grad at sum, plus dsum, and dx is dropout(dresidual). dsum, dmean and drstd are the gradients of "
        "those outputs, 0 when absent.  dy, sum, dsum, dx, dresidual: [..., D]; key: int64[2]; scale, dscale, dbias: "
        "[D]; the others: [...].")
    .attr("p", AttrType::kFloat, "Probability of 0 in the dropout, in [0, 1).")
    .inplace("dy", "dresidual")
    .inplace("sum", "dresidual")
    .fused_from("residual_layer_norm_grad")
    .half("scale, mean, rstd, dmean, drstd, dscale, dbias")
    .internal()
    .infer([](InferContext& c) {
      c.expect_floating("sum");
      expect_dtype_of(c, "sum", {"dy", "mean", "rstd", "scale", "dsum", "dmean", "drstd"});
      c.expect_rank_at_least("sum", 1);
      expect_dropout(c);
      const Shape& x = c.shape("sum");
      const Shape last{x.back()};
      for (const char* name : {"dy", "dsum"}) expect_if_given(c, name, x);
      for (const char* name : {"mean", "rstd", "dmean", "drstd"}) expect_if_given(c, name, rows_of(x));
      expect_if_given(c, "scale", last);
      for (const char* name : {"dx", "dresidual"}) c.out(name, x, c.in("sum").dtype);
      for (const char* name : {"dscale", "dbias"}) c.out(name, last, c.in("sum").dtype);
    });

// The statistics' shape [N, groups].
Shape groups_of(const InferContext& c) {
  const Shape& x = c.shape("x");
  const int64_t groups = c.attr<int64_t>("groups");
  if (groups < 1 || x.back() % groups != 0)
    c.attr_error("groups is ", groups, " but must divide the ", x.back(), " channels of x ", x);
  return {x[0], groups};
}

PADDOCK_OP(group_norm, "x, scale, bias -> y, mean, rstd")
    .doc(
        "y = (x - mean) * rstd * scale + bias, with the mean and rstd = 1 / sqrt(var + eps) of each image over its "
        "pixels and C / groups neighbouring channels.  x, y: [N, ..., C]; scale, bias: [C]; mean, rstd: [N, groups].")
    .attr("groups", AttrType::kInt, "Number of groups; it divides C. C groups make it instance normalisation.")
    .attr("eps", AttrType::kFloat, 1e-5, kEpsDoc)
    .inplace("x", "y")
    .half("scale, bias, mean, rstd")
    .narrows("x")
    .infer([](InferContext& c) {
      Shape channels = channels_of_x(c, 2);
      c.expect_shape("scale", channels);
      c.expect_shape("bias", channels);
      Shape groups = groups_of(c);
      c.out("y", c.shape("x"), c.in("x").dtype);
      for (const char* name : {"mean", "rstd"}) c.out(name, groups, c.in("x").dtype);
    });

PADDOCK_OP(group_norm_grad, "dy, x, scale, mean, rstd, dmean?, drstd? -> dx, dscale, dbias")
    .doc(
        "Gradients of group_norm from its input and statistics; dmean and drstd are the gradients of those outputs, 0 "
        "when absent.  dy, x, dx: [N, ..., C]; scale, dscale, dbias: [C]; the others: [N, groups].")
    .attr("groups", AttrType::kInt, "Number of groups; it divides C.")
    .inplace("dy", "dx")
    .inplace("x", "dx")
    .half("scale, mean, rstd, dmean, drstd, dscale, dbias")
    .internal()
    .infer([](InferContext& c) {
      c.expect_floating("x");
      c.expect_same_dtype();
      c.expect_rank_at_least("x", 2);
      c.expect_shape("dy", c.shape("x"));
      Shape channels{c.shape("x").back()};
      c.expect_shape("scale", channels);
      for (const char* name : {"mean", "rstd", "dmean", "drstd"}) expect_if_given(c, name, groups_of(c));
      c.out("dx", c.shape("x"), c.in("x").dtype);
      for (const char* name : {"dscale", "dbias"}) c.out(name, channels, c.in("x").dtype);
    });

}  // namespace
}  // namespace paddock
