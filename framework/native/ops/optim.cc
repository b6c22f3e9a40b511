// Steps of optimizers, one pass over a parameter and its state. Every result may take the place of what it replaces.
#include "op/context.h"

namespace paddock {
namespace {

void expect_scalar(const InferContext& c, std::string_view name) {
  c.expect_rank(name, 0);
  c.expect_floating(name);
}

// `names` have the shape and type of the first, which is floating; output i has them too.
void infer_step(InferContext& c, std::initializer_list<const char*> names, std::string_view rate) {
  const char* first = *names.begin();
  c.expect_floating(first);
  for (const char* name : names) {
    c.expect_shape(name, c.shape(first));
    c.expect_dtype(name, c.in(first).dtype);
  }
  expect_scalar(c, rate);
  for (size_t i = 0; i < c.op().outputs.size(); ++i) c.out(static_cast<int>(i), c.shape(first), c.in(first).dtype);
}

void check_fraction(const InferContext& c, std::string_view name) {
  double value = c.attr<double>(name);
  if (!(value >= 0 && value < 1)) c.attr_error(name, " is ", value, " but must lie in [0, 1)");
}

void check_weight_decay(const InferContext& c) {
  double decay = c.attr<double>("weight_decay");
  if (!(decay >= 0)) c.attr_error("weight_decay is ", decay, " but must be 0 or more");
}

constexpr const char* kDecayDoc = "Multiple of param that is added to its gradient (L2).";

PADDOCK_OP(sgd_step, "param, grad, lr -> param_out")
    .doc("param - lr * (grad + weight_decay * param).  param, grad: same shape; lr: [].")
    .attr("weight_decay", AttrType::kFloat, 0.0, kDecayDoc)
    .inplace("param", "param_out")
    .inplace("grad", "param_out")
    .infer([](InferContext& c) {
      check_weight_decay(c);
      infer_step(c, {"param", "grad"}, "lr");
    });

PADDOCK_OP(momentum_step, "param, grad, velocity, lr -> param_out, velocity_out")
    .doc(
        "g = grad + weight_decay * param; velocity_out = momentum * velocity + g; param_out = param - lr * "
        "velocity_out, or with nesterov param - lr * (g + momentum * velocity_out) (Sutskever et al. 2013).  param, "
        "grad, velocity: same shape; lr: [].")
    .attr("momentum", AttrType::kFloat, 0.9, "Share of the velocity that stays, in [0, 1).")
    .attr("weight_decay", AttrType::kFloat, 0.0, kDecayDoc)
    .attr("nesterov", AttrType::kBool, false, "Look ahead along the new velocity.")
    .inplace("param", "param_out")
    .inplace("velocity", "velocity_out")
    .inplace("grad", "velocity_out")
    .infer([](InferContext& c) {
      check_fraction(c, "momentum");
      check_weight_decay(c);
      infer_step(c, {"param", "grad", "velocity"}, "lr");
    });

PADDOCK_OP(adam_step, "param, grad, m, v, lr, step -> param_out, m_out, v_out")
    .doc(
        "Adam (Kingma & Ba 2015), or AdamW when decoupled (Loshchilov & Hutter 2019): m_out = beta1 * m + (1 - beta1) "
        "* grad; v_out = beta2 * v + (1 - beta2) * grad^2; param_out = param - lr * (m_out / (1 - beta1^step)) / "
        "(sqrt(v_out / (1 - beta2^step)) + eps).  param, grad, m, v: same shape; lr: []; step: int64 [], counted "
        "from 1.")
    .attr("beta1", AttrType::kFloat, 0.9, "Share of the mean that stays, in [0, 1).")
    .attr("beta2", AttrType::kFloat, 0.999, "Share of the mean square that stays, in [0, 1).")
    .attr("eps", AttrType::kFloat, 1e-8, "Added to the root.")
    .attr("weight_decay", AttrType::kFloat, 0.0,
          "Multiple of param that is added to its gradient or, when decoupled, lr times it is taken off param.")
    .attr("decoupled", AttrType::kBool, false, "Weight decay beside the gradient, as in AdamW.")
    .inplace("param", "param_out")
    .inplace("m", "m_out")
    .inplace("v", "v_out")
    .inplace("grad", "m_out")
    .infer([](InferContext& c) {
      check_fraction(c, "beta1");
      check_fraction(c, "beta2");
      check_weight_decay(c);
      c.expect_rank("step", 0);
      c.expect_dtype("step", DType::kI64);
      infer_step(c, {"param", "grad", "m", "v"}, "lr");
    });

PADDOCK_OP(ema_step, "average, value, decay -> average_out")
    .doc("average + (1 - decay) * (value - average): a moving average.  average, value: same shape; decay: [].")
    .inplace("average", "average_out")
    .inplace("value", "average_out")
    .infer([](InferContext& c) { infer_step(c, {"average", "value"}, "decay"); });

}  // namespace
}  // namespace paddock
