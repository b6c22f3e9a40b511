// Softmax and the losses built on it: stable for logits of any size.
#include "op/context.h"

namespace paddock {
namespace {

void infer_softmax(InferContext& c) {
  c.expect_floating("x");
  c.expect_rank_at_least("x", 1);
  c.axis("axis", c.shape("x").rank());
  c.out(0, c.shape("x"), c.in("x").dtype);
}

constexpr const char* kAxisDoc = "The axis along which the results sum to 1.";

PADDOCK_OP(softmax, "x -> y")
    .doc("exp(x) / sum(exp(x)) along `axis`.  x, y: any shape.")
    .attr("axis", AttrType::kInt, int64_t{-1}, kAxisDoc)
    .inplace("x", "y")
    .half()
    .along("axis")
    .infer(&infer_softmax);

PADDOCK_OP(log_softmax, "x -> y")
    .doc("The logarithm of softmax: x - log(sum(exp(x))) along `axis`.  x, y: any shape.")
    .attr("axis", AttrType::kInt, int64_t{-1}, "The axis along which the results' exponentials sum to 1.")
    .inplace("x", "y")
    .half()
    .along("axis")
    .infer(&infer_softmax);

Shape without_last(Shape s) {
  s.erase(s.rank() - 1);
  return s;
}

// Checks logits and labels; returns the shape of the losses.
Shape labelled_rows(const InferContext& c) {
  c.expect_floating("logits");
  c.expect_rank_at_least("logits", 1);
  c.expect_index("labels");
  Shape rows = without_last(c.shape("logits"));
  c.expect_shape("labels", rows);
  double smoothing = c.attr<double>("label_smoothing");
  if (!(smoothing >= 0 && smoothing <= 1)) c.attr_error("label_smoothing is ", smoothing, " but must lie in [0, 1]");
  return rows;
}

OpDef& label_attrs(OpDef& op) {
  return op.checks(DataCheck::kLabels, "labels", [](const InferContext& c) { return c.shape("logits").back(); })
      .attr("ignore_index", AttrType::kInt, int64_t{-100},
            "Rows with this label have loss and gradient 0; -2^63 stands for none.")
      .attr("label_smoothing", AttrType::kFloat, 0.0,
            "Share s of the target that is spread evenly over the classes (Szegedy et al. 2016).")
      .attr("from_end", AttrType::kBool, false, "Labels below 0 count from the last class, as in take_along_axis.");
}

[[maybe_unused]] OpDef& op_cross_entropy = label_attrs(
    define_op("cross_entropy", "logits, labels -> loss", __FILE__)
        .doc("-log(softmax(logits)[label]) of each row, or with label smoothing s: (1 - s) times that plus s times the "
             "mean of -log(softmax(logits)).  logits: [..., K]; labels: int32 or int64 [...]; loss: [...].")
        .half("loss")
        .infer([](InferContext& c) { c.out(0, labelled_rows(c), c.in("logits").dtype); }));

[[maybe_unused]] OpDef& op_cross_entropy_grad = label_attrs(
    define_op("cross_entropy_grad", "dloss, logits, labels -> dlogits", __FILE__)
        .doc(
            "Gradient of cross_entropy: dloss * (softmax(logits) - target), 0 for ignored rows.  dloss: [...]; logits, "
            "dlogits: [..., K]; labels: int32 or int64 [...].")
        .inplace("logits", "dlogits")
        .half("dloss")
        .internal()
        .infer([](InferContext& c) {
          c.expect_shape("dloss", labelled_rows(c));
          c.expect_dtype("dloss", c.in("logits").dtype);
          c.out(0, c.shape("logits"), c.in("logits").dtype);
        }));

PADDOCK_OP(soft_cross_entropy, "logits, targets -> loss")
    .doc(
        "-sum(targets * log_softmax(logits)) of each row; targets are weights, usually probabilities.  logits, "
        "targets: [..., K]; loss: [...].")
    .half("loss, targets")
    .infer([](InferContext& c) {
      c.expect_floating("logits");
      c.expect_same_dtype();
      c.expect_rank_at_least("logits", 1);
      c.expect_shape("targets", c.shape("logits"));
      c.out(0, without_last(c.shape("logits")), c.in("logits").dtype);
    });

PADDOCK_OP(sigmoid_cross_entropy, "logits, targets -> loss")
    .doc(
        "-t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)) of each logit x and target t in [0, 1], as max(x, 0) - x t + "
        "log(1 + exp(-|x|)).  all: same shape.")
    .inplace("logits", "loss")
    .inplace("targets", "loss")
    .half("loss, targets")
    .elementwise()
    .infer([](InferContext& c) {
      c.expect_floating("logits");
      c.expect_same_dtype();
      c.expect_shape("targets", c.shape("logits"));
      c.out(0, c.shape("logits"), c.in("logits").dtype);
    });

}  // namespace
}  // namespace paddock
