// Steps of optimizers, one pass over a parameter and its state, or over many small ones in one operator. Every result
// may take the place of what it replaces.
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
  if (rate == "lr" && c.has("grad_scale")) expect_scalar(c, "grad_scale");
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
constexpr const char* kScaleDoc =
    "  grad_scale: [], multiplies grad, absent for 1: clipping's factor, or one over a loss scale. Where it is NaN or "
    "infinite the step is skipped, unless `skip` is off: every result is what it replaces.";

// A group of parameters: after the scalars come kIn tensors of one shape for each, of which those in `kept` have a new
// value among the outputs, in order.
constexpr int kMostInPlace = 128;  // parameters of a group that are updated in their own memory

void infer_group(InferContext& c, int first, int in, int out) {
  const int tensors = c.input_count() - first;
  if (tensors < in || tensors % in != 0)
    c.shape_error("got ", tensors, " tensors but takes ", in, " for each parameter");
  for (int i = 0; i < tensors; ++i) {
    const TensorType& like = c.in(first + i / in * in);
    if (like.dtype != DType::kF32 && like.dtype != DType::kF64)
      c.dtype_error("tensor ", i, " is ", like.dtype, " but must be float32 or float64; use cast");
    if (!(c.in(first + i) == like) || like.dtype != c.in(first).dtype)
      c.shape_error("tensor ", i, " is ", c.in(first + i).dtype, " ", c.shape(first + i),
                    " but its parameter and the first are ", like.dtype, " ", like.shape, " and ", c.in(first).dtype);
  }
  for (int i = 0; i < tensors / in; ++i)
    for (int k = 0; k < out; ++k) c.out(i * out + k, c.shape(first + i * in), c.in(first).dtype);
}

OpDef& group_in_place(OpDef& op, int first, int in, std::initializer_list<int> kept) {
  for (int i = 0; i < kMostInPlace; ++i) {
    int output = i * static_cast<int>(kept.size());
    for (int k : kept) op.in_place.push_back({first + i * in + k, output++});
  }
  return op;
}

void check_momentum(const InferContext& c) {
  check_fraction(c, "momentum");
  check_weight_decay(c);
}

void check_adam(const InferContext& c) {
  check_fraction(c, "beta1");
  check_fraction(c, "beta2");
  check_weight_decay(c);
  c.expect_rank("step", 0);
  c.expect_dtype("step", DType::kI64);
}

void check_scalars(const InferContext& c) {
  expect_scalar(c, "lr");
  if (c.has("grad_scale")) expect_scalar(c, "grad_scale");
}

OpDef& skip_attr(OpDef& op) {
  return op.attr("skip", AttrType::kBool, true, "Change nothing where grad_scale is NaN or infinite.");
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

[[maybe_unused]] OpDef& op_sgd_step = sgd_attrs(
    define_op("sgd_step", "param, grad, lr, grad_scale? -> param_out", __FILE__)
        .doc(std::string("param - lr * (grad + weight_decay * param).  param, grad: same shape; lr: [].") + kScaleDoc)
        .inplace("param", "param_out")
        .inplace("grad", "param_out")
        .infer([](InferContext& c) {
          check_weight_decay(c);
          infer_step(c, {"param", "grad"}, "lr");
        }));

[[maybe_unused]] OpDef& op_momentum_step = momentum_attrs(
    define_op("momentum_step", "param, grad, velocity, lr, grad_scale? -> param_out, velocity_out", __FILE__)
        .doc(std::string("g = grad + weight_decay * param; velocity_out = momentum * velocity + g; param_out = param - "
                         "lr * velocity_out, or with nesterov param - lr * (g + momentum * velocity_out) (Sutskever et "
                         "al. 2013).  param, grad, velocity: same shape; lr: [].") +
             kScaleDoc)
        .inplace("param", "param_out")
        .inplace("velocity", "velocity_out")
        .inplace("grad", "velocity_out")
        .infer([](InferContext& c) {
          check_momentum(c);
          infer_step(c, {"param", "grad", "velocity"}, "lr");
        }));

[[maybe_unused]] OpDef& op_adam_step = adam_attrs(
    define_op("adam_step", "param, grad, m, v, lr, step, grad_scale? -> param_out, m_out, v_out", __FILE__)
        .doc(
            std::string(
                "Adam (Kingma & Ba 2015), or AdamW when decoupled (Loshchilov & Hutter 2019): m_out = beta1 * m + (1 - "
                "beta1) * grad; v_out = beta2 * v + (1 - beta2) * grad^2; param_out = param - lr * (m_out / (1 - "
                "beta1^step)) / (sqrt(v_out / (1 - beta2^step)) + eps).  param, grad, m, v: same shape; lr: []; step: "
                "int64 [], counted from 1.") +
            kScaleDoc)
        .inplace("param", "param_out")
        .inplace("m", "m_out")
        .inplace("v", "v_out")
        .inplace("grad", "m_out")
        .infer([](InferContext& c) {
          check_adam(c);
          infer_step(c, {"param", "grad", "m", "v"}, "lr");
        }));

constexpr const char* kRowsDoc =
    "  param and what belongs to it: [V, D]; rows: int64 [n], each row once or -1 for none; values: [n, D], their "
    "gradient. Rows that are not listed, or whose gradient is all zeros, stand still: the step costs what it touches.";

void check_rows(const InferContext& c) {
  c.expect_rank("param", 2);
  c.expect_rank("rows", 1);
  c.expect_dtype("rows", DType::kI64);
  c.expect_shape("values", {c.shape("rows")[0], c.shape("param")[1]});
  c.expect_dtype("values", c.in("param").dtype);
}

[[maybe_unused]] OpDef& op_sgd_rows_step =
    sgd_attrs(define_op("sgd_rows_step", "param, rows, values, lr, grad_scale? -> param_out", __FILE__)
                  .doc(std::string("sgd_step on some rows.") + kRowsDoc + kScaleDoc)
                  .inplace("param", "param_out")
                  .infer([](InferContext& c) {
                    check_weight_decay(c);
                    infer_step(c, {"param"}, "lr");
                    check_rows(c);
                  }));

[[maybe_unused]] OpDef& op_momentum_rows_step =
    momentum_attrs(define_op("momentum_rows_step",
                             "param, rows, values, velocity, lr, grad_scale? -> param_out, velocity_out", __FILE__)
                       .doc(std::string("momentum_step on some rows.") + kRowsDoc + kScaleDoc)
                       .inplace("param", "param_out")
                       .inplace("velocity", "velocity_out")
                       .infer([](InferContext& c) {
                         check_momentum(c);
                         infer_step(c, {"param", "velocity"}, "lr");
                         check_rows(c);
                       }));

[[maybe_unused]] OpDef& op_adam_rows_step = adam_attrs(
    define_op("adam_rows_step", "param, rows, values, m, v, lr, step, grad_scale? -> param_out, m_out, v_out", __FILE__)
        .doc(
            std::string(
                "adam_step with a gradient that is zero but for some rows, as embedding_grad_rows gives them: the same "
                "numbers without the zeros. Rows that never had a gradient cost little: their m and v stay zero.  "
                "param, "
                "m, v: [V, D]; rows: int64 [n], each row once or -1 for none; values: [n, D]; the others as there.") +
            kScaleDoc)
        .inplace("param", "param_out")
        .inplace("m", "m_out")
        .inplace("v", "v_out")
        .attr(
            "lazy", AttrType::kBool, false,
            "Rows that are not listed, or whose gradient is all zeros, stand still; otherwise their m and v move them.")
        .infer([](InferContext& c) {
          check_adam(c);
          infer_step(c, {"param", "m", "v"}, "lr");
          check_rows(c);
        }));

PADDOCK_OP(ema_step, "average, value, decay -> average_out")
    .doc("average + (1 - decay) * (value - average): a moving average.  average, value: same shape; decay: [].")
    .inplace("average", "average_out")
    .inplace("value", "average_out")
    .infer([](InferContext& c) { infer_step(c, {"average", "value"}, "decay"); });

constexpr const char* kGroupDoc =
    " of many parameters at once; their elements are shared out to the threads as if they were one tensor. ";

[[maybe_unused]] OpDef& op_sgd_steps = group_in_place(
    sgd_attrs(define_op("sgd_steps", "lr, grad_scale?, tensors... -> updated...", __FILE__)
                  .doc(std::string("sgd_step") + kGroupDoc +
                       " tensors: param, grad of each; updated: param_out of each; the others: as in sgd_step.")
                  .infer([](InferContext& c) {
                    check_weight_decay(c);
                    check_scalars(c);
                    infer_group(c, 2, 2, 1);
                  })),
    2, 2, {0});

[[maybe_unused]] OpDef& op_momentum_steps = group_in_place(
    momentum_attrs(define_op("momentum_steps", "lr, grad_scale?, tensors... -> updated...", __FILE__)
                       .doc(std::string("momentum_step") + kGroupDoc +
                            " tensors: param, grad, velocity of each; updated: param_out, velocity_out of each; the "
                            "others: as in momentum_step.")
                       .infer([](InferContext& c) {
                         check_momentum(c);
                         check_scalars(c);
                         infer_group(c, 2, 3, 2);
                       })),
    2, 3, {0, 2});

[[maybe_unused]] OpDef& op_adam_steps = group_in_place(
    adam_attrs(define_op("adam_steps", "lr, step, grad_scale?, tensors... -> updated...", __FILE__)
                   .doc(std::string("adam_step") + kGroupDoc +
                        " tensors: param, grad, m, v of each; updated: param_out, m_out, v_out of each; the others: as "
                        "in adam_step.")
                   .infer([](InferContext& c) {
                     check_adam(c);
                     check_scalars(c);
                     infer_group(c, 3, 4, 3);
                   })),
    3, 4, {0, 2, 3});

[[maybe_unused]] OpDef& op_ema_steps =
    group_in_place(define_op("ema_steps", "decay, tensors... -> updated...", __FILE__)
                       .doc(std::string("ema_step") + kGroupDoc +
                            " tensors: average, value of each; updated: average_out of each; decay: [].")
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
