// Normalisation: over the batch (Ioffe & Szegedy 2015), over the last axis (Ba et al. 2016), over groups of channels
// (Wu & He 2018). Statistics are outputs, so that gradients and running averages need no second pass.
#include "op/context.h"

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

PADDOCK_OP(batch_norm, "x, scale, bias -> y, mean, var")
    .doc(
        "y = (x - mean) / sqrt(var + eps) * scale + bias with the mean and the biased variance of each channel over "
        "all other axes.  x: [..., C]; scale, bias, mean, var: [C]; y: like x.")
    .attr("eps", AttrType::kFloat, 1e-5, kEpsDoc)
    .inplace("x", "y")
    .infer([](InferContext& c) {
      Shape channels = channels_of_x(c, 1);
      c.expect_shape("scale", channels);
      c.expect_shape("bias", channels);
      c.out("y", c.shape("x"), c.in("x").dtype);
      c.out("mean", channels, c.in("x").dtype);
      c.out("var", channels, c.in("x").dtype);
    });

PADDOCK_OP(batch_norm_inference, "x, scale, bias, mean, var -> y")
    .doc("y = (x - mean) / sqrt(var + eps) * scale + bias with given statistics.  x, y: [..., C]; the others: [C].")
    .attr("eps", AttrType::kFloat, 1e-5, kEpsDoc)
    .inplace("x", "y")
    .infer([](InferContext& c) {
      Shape channels = channels_of_x(c, 1);
      for (const char* name : {"scale", "bias", "mean", "var"}) c.expect_shape(name, channels);
      c.out("y", c.shape("x"), c.in("x").dtype);
    });

PADDOCK_OP(batch_norm_grad, "dy, x, scale, mean, var, dmean?, dvar? -> dx, dscale, dbias")
    .doc(
        "Gradients of batch_norm from its input and statistics; dmean and dvar are the gradients of those outputs, 0 "
        "when absent.  dy, x, dx: [..., C]; the others: [C].")
    .attr("eps", AttrType::kFloat, 1e-5, kEpsDoc)
    .inplace("dy", "dx")
    .inplace("x", "dx")
    .infer([](InferContext& c) {
      Shape channels = channels_of_x(c, 1);
      c.expect_shape("dy", c.shape("x"));
      for (const char* name : {"scale", "mean", "var", "dmean", "dvar"}) expect_if_given(c, name, channels);
      c.out("dx", c.shape("x"), c.in("x").dtype);
      c.out("dscale", channels, c.in("x").dtype);
      c.out("dbias", channels, c.in("x").dtype);
    });

}  // namespace
}  // namespace paddock
