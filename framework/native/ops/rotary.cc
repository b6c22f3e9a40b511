// Rotary position embedding: pairs of columns turned by an angle that grows with the position.
#include "op/context.h"

namespace paddock {
namespace {

PADDOCK_OP(rotary_embedding, "x, cos, sin -> y")
    .doc(
        "Rotary position embedding (Su et al. 2021, arXiv:2104.09864): in every head the first R columns are R / 2 "
        "pairs (a, b), which become (a cos - b sin, a sin + b cos); the other columns stay.  x, y: [..., T, D], "
        "columns head by head; cos, sin: [T, R / 2], of the positions of the rows, or with more of x's leading axes.")
    .attr("heads", AttrType::kInt, "Number of heads; it divides D.")
    .attr("interleaved", AttrType::kBool, false,
          "Pair i is columns 2 i and 2 i + 1, as in GPT-J; else columns i and i + R / 2, as in GPT-NeoX and LLaMA.")
    .inplace("x", "y")
    .fused_from("rotary_embedding")
    .half("cos, sin")
    .follows()
    .infer([](InferContext& c) {
      c.expect_floating("x");
      c.expect_same_dtype();
      c.expect_rank_at_least("x", 2);
      c.expect_rank_at_least("cos", 2);
      const Shape &x = c.shape("x"), &cos = c.shape("cos");
      const auto heads = c.attr<int64_t>("heads");
      if (heads < 1 || x.back() % heads) c.attr_error("heads is ", heads, " but must divide D, which is ", x.back());
      if (2 * cos.back() > x.back() / heads)
        c.shape_error("cos ", cos, " turns ", cos.back(), " pairs of columns (axis -1) but a head of x ", x, " has ",
                      x.back() / heads, " columns");
      bool fits = cos.rank() <= x.rank();
      for (int a = 2; fits && a <= cos.rank(); ++a) fits = cos.dim(-a) == x.dim(-a);
      if (!fits) c.shape_error("cos ", cos, " must have the axes of x ", x, " before the last, or the last of them");
      c.expect_shape("sin", cos);
      c.out(0, x, c.in("x").dtype);
    });

}  // namespace
}  // namespace paddock
