// Steps of RMSProp, Adagrad and LAMB, as those of optim.cc. Every result may take the place of what it replaces.
#include "ops/optim.h"

namespace paddock {
namespace {

void check_eps(const InferContext& c) {
  const auto eps = c.attr<double>("eps");
  if (!(eps >= 0)) c.attr_error("eps is ", eps, " but must be 0 or more");
}

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

[[maybe_unused]] OpDef& op_rmsprop_step = rmsprop_attrs(
    define_op("rmsprop_step", "param, grad, square, velocity, lr, grad_scale? -> param_out, square_out, velocity_out",
              __FILE__)
        .doc(std::string("RMSProp (Tieleman & Hinton 2012): g = grad + weight_decay * param; square_out = rho * square "
                         "+ (1 - rho) * g^2; velocity_out = momentum * velocity + g / (sqrt(square_out) + eps); "
                         "param_out = param - lr * velocity_out.  param, grad, square, velocity: same shape; lr: [].") +
             kScaleDoc)
        .inplace("param", "param_out")
        .inplace("square", "square_out")
        .inplace("velocity", "velocity_out")
        .inplace("grad", "square_out")
        .internal()
        .infer([](InferContext& c) {
          check_rmsprop(c);
          infer_step(c, {"param", "grad", "square", "velocity"}, "lr");
        }));

[[maybe_unused]] OpDef& op_rmsprop_rows_step = rmsprop_attrs(
    define_op("rmsprop_rows_step",
              "param, rows, values, square, velocity, lr, grad_scale? -> param_out, square_out, velocity_out", __FILE__)
        .doc(std::string("rmsprop_step on some rows.") + kRowsDoc + kScaleDoc)
        .inplace("param", "param_out")
        .inplace("square", "square_out")
        .inplace("velocity", "velocity_out")
        .internal()
        .infer([](InferContext& c) {
          check_rmsprop(c);
          infer_step(c, {"param", "square", "velocity"}, "lr");
          check_rows(c);
        }));

[[maybe_unused]] OpDef& op_rmsprop_steps = group_in_place(
    rmsprop_attrs(define_op("rmsprop_steps", "lr, grad_scale?, tensors... -> updated...", __FILE__)
                      .doc(std::string("rmsprop_step") + kGroupDoc +
                           " tensors: param, grad, square, velocity of each; updated: param_out, square_out, "
                           "velocity_out of each; the others: as in rmsprop_step.")
                      .internal()
                      .infer([](InferContext& c) {
                        check_rmsprop(c);
                        check_scalars(c);
                        infer_group(c, 2, 4, 3);
                      })),
    2, 4, {0, 2, 3});

void check_adagrad(const InferContext& c) {
  check_weight_decay(c);
  check_eps(c);
}

OpDef& adagrad_attrs(OpDef& op) {
  return skip_attr(op.attr("eps", AttrType::kFloat, 1e-10, "Added to the root.")
                       .attr("weight_decay", AttrType::kFloat, 0.0, kDecayDoc));
}

[[maybe_unused]] OpDef& op_adagrad_step = adagrad_attrs(
    define_op("adagrad_step", "param, grad, sum, lr, grad_scale? -> param_out, sum_out", __FILE__)
        .doc(std::string("Adagrad (Duchi et al. 2011): g = grad + weight_decay * param; sum_out = sum + g^2; param_out "
                         "= param - lr * g / (sqrt(sum_out) + eps).  param, grad, sum: same shape; lr: [].") +
             kScaleDoc)
        .inplace("param", "param_out")
        .inplace("sum", "sum_out")
        .inplace("grad", "sum_out")
        .internal()
        .rows_step("adagrad_rows_step", "weight_decay")
        .infer([](InferContext& c) {
          check_adagrad(c);
          infer_step(c, {"param", "grad", "sum"}, "lr");
        }));

[[maybe_unused]] OpDef& op_adagrad_rows_step = adagrad_attrs(
    define_op("adagrad_rows_step", "param, rows, values, sum, lr, grad_scale? -> param_out, sum_out", __FILE__)
        .doc(std::string("adagrad_step on some rows; without weight decay the same numbers.") + kRowsDoc + kScaleDoc)
        .inplace("param", "param_out")
        .inplace("sum", "sum_out")
        .internal()
        .infer([](InferContext& c) {
          check_adagrad(c);
          infer_step(c, {"param", "sum"}, "lr");
          check_rows(c);
        }));

[[maybe_unused]] OpDef& op_adagrad_steps = group_in_place(
    adagrad_attrs(define_op("adagrad_steps", "lr, grad_scale?, tensors... -> updated...", __FILE__)
                      .doc(std::string("adagrad_step") + kGroupDoc +
                           " tensors: param, grad, sum of each; updated: param_out, sum_out of each; the others: as in "
                           "adagrad_step.")
                      .internal()
                      .infer([](InferContext& c) {
                        check_adagrad(c);
                        check_scalars(c);
                        infer_group(c, 2, 3, 2);
                      })),
    2, 3, {0, 2});

void check_lamb(const InferContext& c) {
  check_fraction(c, "beta1");
  check_fraction(c, "beta2");
  check_weight_decay(c);
  check_eps(c);
  c.expect_rank("step", 0);
  c.expect_dtype("step", DType::kI64);
}

OpDef& lamb_attrs(OpDef& op) {
  return skip_attr(op.attr("beta1", AttrType::kFloat, 0.9, "Share of the mean that stays, in [0, 1).")
                       .attr("beta2", AttrType::kFloat, 0.999, "Share of the mean square that stays, in [0, 1).")
                       .attr("eps", AttrType::kFloat, 1e-6, "Added to the root.")
                       .attr("weight_decay", AttrType::kFloat, 0.0, "Multiple of param in the update."));
}

[[maybe_unused]] OpDef& op_lamb_step = lamb_attrs(
    define_op("lamb_step", "param, grad, m, v, lr, step, grad_scale? -> param_out, m_out, v_out", __FILE__)
        .doc(
            std::string(
                "LAMB (You et al. 2020, arXiv:1904.00962, algorithm 2): m_out = beta1 * m + (1 - beta1) * grad; v_out "
                "= beta2 * v + (1 - beta2) * grad^2; u = (m_out / (1 - beta1^step)) / (sqrt(v_out / (1 - beta2^step)) "
                "+ eps) + weight_decay * param; param_out = param - lr * |param| / |u| * u, with 1 for the ratio where "
                "a norm is 0.  param, grad, m, v: same shape; lr: []; step: int64 [], counted from 1.") +
            kScaleDoc)
        .inplace("param", "param_out")
        .inplace("m", "m_out")
        .inplace("v", "v_out")
        .inplace("grad", "m_out")
        .internal()
        .infer([](InferContext& c) {
          check_lamb(c);
          infer_step(c, {"param", "grad", "m", "v"}, "lr");
        }));

[[maybe_unused]] OpDef& op_lamb_steps = group_in_place(
    lamb_attrs(define_op("lamb_steps", "lr, step, grad_scale?, tensors... -> updated...", __FILE__)
                   .doc(std::string("lamb_step") + kGroupDoc +
                        "tensors: param, grad, m, v of each; updated: param_out, m_out, v_out of each; the others: as "
                        "in lamb_step.")
                   .internal()
                   .infer([](InferContext& c) {
                     check_lamb(c);
                     check_scalars(c);
                     infer_group(c, 3, 4, 3);
                   })),
    3, 4, {0, 2, 3});

}  // namespace
}  // namespace paddock
