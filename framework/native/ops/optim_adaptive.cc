// Steps of RMSProp, Adagrad and LAMB, as those of optim.cc. Every result may take the place of what it replaces.
#include "ops/optim.h"

namespace paddock {
namespace {

void check_rmsprop(const InferContext& c) {
  check_fraction(c, "rho");
  check_fraction(c, "momentum");
  check_weight_decay(c);
  check_eps(c);
}

OpDef& rmsprop_attrs(OpDef& op) {
  return skip_attr(op.attr("rho", AttrType::kFloat, 0.99, "Share of the mean square that stays, in [0, 1).")
                       .attr("momentum", AttrType::kFloat, 0.0, "Share of the velocity that stays, in [0, 1).")
                       .attr("eps", AttrType::kFloat, 1e-8, "Added to the root.")
                       .attr("weight_decay", AttrType::kFloat, 0.0, kDecayDoc));
}

const StepRule kRmsProp{
    "rmsprop",
    {"square", "velocity"},
    "RMSProp (Tieleman & Hinton 2012): g = grad + weight_decay * param; square_out = rho * square + (1 - rho) * g^2; "
    "velocity_out = momentum * velocity + g / (sqrt(square_out) + eps); param_out = param - lr * velocity_out.  param, "
    "grad, square, velocity: same shape; lr: [].",
    &rmsprop_attrs};
[[maybe_unused]] OpDef& op_rmsprop_step = define_step<check_rmsprop>(kRmsProp, __FILE__);
[[maybe_unused]] OpDef& op_rmsprop_rows_step =
    define_rows_step<check_rmsprop>(kRmsProp, cat("rmsprop_step on some rows.", kRowsDoc), __FILE__);
[[maybe_unused]] OpDef& op_rmsprop_steps = define_steps<check_rmsprop, 2>(kRmsProp, __FILE__);

void check_adagrad(const InferContext& c) {
  check_weight_decay(c);
  check_eps(c);
}

OpDef& adagrad_attrs(OpDef& op) {
  return skip_attr(op.attr("eps", AttrType::kFloat, 1e-10, "Added to the root.")
                       .attr("weight_decay", AttrType::kFloat, 0.0, kDecayDoc));
}

const StepRule kAdagrad{"adagrad",
                        {"sum"},
                        "Adagrad (Duchi et al. 2011): g = grad + weight_decay * param; sum_out = sum + g^2; param_out "
                        "= param - lr * g / (sqrt(sum_out) + eps).  param, grad, sum: same shape; lr: [].",
                        &adagrad_attrs};
[[maybe_unused]] OpDef& op_adagrad_step =
    define_step<check_adagrad>(kAdagrad, __FILE__).rows_step("adagrad_rows_step", "weight_decay");
[[maybe_unused]] OpDef& op_adagrad_rows_step = define_rows_step<check_adagrad>(
    kAdagrad, cat("adagrad_step on some rows; without weight decay the same numbers.", kRowsDoc), __FILE__);
[[maybe_unused]] OpDef& op_adagrad_steps = define_steps<check_adagrad, 1>(kAdagrad, __FILE__);

void check_lamb(const InferContext& c) {
  check_fraction(c, "beta1");
  check_fraction(c, "beta2");
  check_weight_decay(c);
  check_eps(c);
  check_step(c);
}

OpDef& lamb_attrs(OpDef& op) {
  return skip_attr(op.attr("beta1", AttrType::kFloat, 0.9, "Share of the mean that stays, in [0, 1).")
                       .attr("beta2", AttrType::kFloat, 0.999, "Share of the mean square that stays, in [0, 1).")
                       .attr("eps", AttrType::kFloat, 1e-6, "Added to the root.")
                       .attr("weight_decay", AttrType::kFloat, 0.0, "Multiple of param in the update."));
}

const StepRule kLamb{
    "lamb",
    {"m", "v"},
    "LAMB (You et al. 2020, arXiv:1904.00962, algorithm 2): m_out = beta1 * m + (1 - beta1) * grad; v_out = beta2 * v "
    "+ (1 - beta2) * grad^2; u = (m_out / (1 - beta1^step)) / (sqrt(v_out / (1 - beta2^step)) + eps) + weight_decay * "
    "param; param_out = param - lr * |param| / |u| * u, with 1 for the ratio where a norm is 0.  param, grad, m, v: "
    "same shape; lr: []; step: int64 [], counted from 1.",
    &lamb_attrs,
    true};
[[maybe_unused]] OpDef& op_lamb_step = define_step<check_lamb>(kLamb, __FILE__);
[[maybe_unused]] OpDef& op_lamb_steps = define_steps<check_lamb, 2>(kLamb, __FILE__);

}  // namespace
}  // namespace paddock
