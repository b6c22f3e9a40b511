// Steps of optimizers, one pass over a parameter and its state, or over many small ones in one operator. Every result
// may take the place of what it replaces.
#include "ops/optim.h"

namespace paddock {
namespace {

void check_momentum(const InferContext& c) {
  check_fraction(c, "momentum");
  check_weight_decay(c);
}

void check_adam(const InferContext& c) {
  check_fraction(c, "beta1");
  check_fraction(c, "beta2");
  check_weight_decay(c);
  check_step(c);
}

OpDef& sgd_attrs(OpDef& op) { return skip_attr(op.attr("weight_decay", AttrType::kFloat, 0.0, kDecayDoc)); }

OpDef& momentum_attrs(OpDef& op) {
  return skip_attr(op.attr("momentum", AttrType::kFloat, 0.9, "Share of the velocity that stays, in [0, 1).")
                       .attr("weight_decay", AttrType::kFloat, 0.0, kDecayDoc)
                       .attr("nesterov", AttrType::kBool, false, "Look ahead along the new velocity."));
}

OpDef& adam_attrs(OpDef& op) {
  op.attr("beta1", AttrType::kFloat, 0.9, "Share of the mean that stays, in [0, 1).")
      .attr("beta2", AttrType::kFloat, 0.999, "Share of the mean square that stays, in [0, 1).")
      .attr("eps", AttrType::kFloat, 1e-8, "Added to the root.")
      .attr("weight_decay", AttrType::kFloat, 0.0,
            "Multiple of param that is added to its gradient or, when decoupled, lr times it is taken off param.")
      .attr("decoupled", AttrType::kBool, false, "Weight decay beside the gradient, as in AdamW.");
  return skip_attr(op);
}

const StepRule kSgd{
    "sgd", {}, "param - lr * (grad + weight_decay * param).  param, grad: same shape; lr: [].", &sgd_attrs};
[[maybe_unused]] OpDef& op_sgd_step =
    define_step<check_weight_decay>(kSgd, __FILE__).rows_step("sgd_rows_step", "weight_decay");
[[maybe_unused]] OpDef& op_sgd_rows_step =
    define_rows_step<check_weight_decay>(kSgd, cat("sgd_step on some rows.", kRowsDoc), __FILE__);
[[maybe_unused]] OpDef& op_sgd_steps = define_steps<check_weight_decay, 0>(kSgd, __FILE__);

const StepRule kMomentum{
    "momentum",
    {"velocity"},
    "g = grad + weight_decay * param; velocity_out = momentum * velocity + g; param_out = param - lr * velocity_out, "
    "or with nesterov param - lr * (g + momentum * velocity_out) (Sutskever et al. 2013).  param, grad, velocity: same "
    "shape; lr: [].",
    &momentum_attrs};
[[maybe_unused]] OpDef& op_momentum_step = define_step<check_momentum>(kMomentum, __FILE__);
[[maybe_unused]] OpDef& op_momentum_rows_step =
    define_rows_step<check_momentum>(kMomentum, cat("momentum_step on some rows.", kRowsDoc), __FILE__);
[[maybe_unused]] OpDef& op_momentum_steps = define_steps<check_momentum, 1>(kMomentum, __FILE__);

const StepRule kAdam{
    "adam",
    {"m", "v"},
    "Adam (Kingma & Ba 2015), or AdamW when decoupled (Loshchilov & Hutter 2019): m_out = beta1 * m + (1 - beta1) * "
    "grad; v_out = beta2 * v + (1 - beta2) * grad^2; param_out = param - lr * (m_out / (1 - beta1^step)) / "
    "(sqrt(v_out / (1 - beta2^step)) + eps).  param, grad, m, v: same shape; lr: []; step: int64 [], counted from 1.",
    &adam_attrs,
    true};
[[maybe_unused]] OpDef& op_adam_step = define_step<check_adam>(kAdam, __FILE__).rows_step("adam_rows_step");
[[maybe_unused]] OpDef& op_adam_rows_step =
    define_rows_step<check_adam>(
        kAdam,
        "adam_step with a gradient that is zero but for some rows, as embedding_grad_rows gives them: the same numbers "
        "without the zeros. Rows that never had a gradient cost little: their m and v stay zero.  param, m, v: [V, D]; "
        "rows: int64 [n], each row once or -1 for none; values: [n, D]; the others as there.",
        __FILE__)
        .attr("lazy", AttrType::kBool, false,
              "Rows that are not listed, or whose gradient is all zeros, stand still; otherwise their m and v move "
              "them.");
[[maybe_unused]] OpDef& op_adam_steps = define_steps<check_adam, 2>(kAdam, __FILE__);

PADDOCK_OP(ema_step, "average, value, decay -> average_out")
    .doc("average + (1 - decay) * (value - average): a moving average.  average, value: same shape; decay: [].")
    .inplace("average", "average_out")
    .inplace("value", "average_out")
    .internal()
    .infer([](InferContext& c) {
      infer_like(c, {"average", "value"});
      expect_scalar(c, "decay");
    });

[[maybe_unused]] OpDef& op_ema_steps =
    group_in_place(define_op("ema_steps", "decay, tensors... -> updated...", __FILE__)
                       .doc(std::string("ema_step") + kGroupDoc +
                            " tensors: average, value of each; updated: average_out of each; decay: [].")
                       .internal()
                       .infer([](InferContext& c) {
                         expect_scalar(c, "decay");
                         infer_group(c, 1, 2, 1);
                       }),
                   1, 2, {0});

PADDOCK_OP(sum_of_squares, "xs... -> y")
    .doc("The sum of the squares of all elements of all xs: a joint norm's square.  xs: any shapes, one type; y: [].")
    .infer([](InferContext& c) {
      if (c.input_count() == 0) c.shape_error("there is nothing to sum; give at least one tensor");
      c.expect_floating("xs");
      c.expect_same_dtype();
      c.out(0, Shape{}, c.in(0).dtype);
    });

}  // namespace
}  // namespace paddock
