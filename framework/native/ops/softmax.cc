// Softmax and the losses built on it: stable for logits of any size.
#include "op/context.h"

namespace paddock {
namespace {

PADDOCK_OP(sigmoid_cross_entropy, "logits, targets -> loss")
    .doc(
        "-t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)) of each logit x and target t in [0, 1], as max(x, 0) - x t + "
        "log(1 + exp(-|x|)).  all: same shape.")
    .inplace("logits", "loss")
    .inplace("targets", "loss")
    .infer([](InferContext& c) {
      c.expect_floating("logits");
      c.expect_same_dtype();
      c.expect_shape("targets", c.shape("logits"));
      c.out(0, c.shape("logits"), c.in("logits").dtype);
    });

}  // namespace
}  // namespace paddock
