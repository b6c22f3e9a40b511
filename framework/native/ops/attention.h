// What the blocks of dense and of ragged attention share.
#pragma once
#include "op/context.h"

namespace paddock {

inline OpDef& attention_attrs(OpDef& op) {
  return op.attr("heads", AttrType::kInt, "Number of heads; it divides D.")
      .attr("scale", AttrType::kFloat, 0.0, "Factor of the products q k; 0 stands for 1 / sqrt(D / heads).")
      .attr("causal", AttrType::kBool, false,
            "Query i of T sees keys up to i + (S - T) of S: in self-attention those up to itself.")
      .attr("p", AttrType::kFloat, 0.0, "Probability that a weight is 0, in [0, 1); the others are divided by 1 - p.");
}

// Checks the attributes against D columns, and the dropout's key; returns the number of heads.
inline int64_t expect_heads(const InferContext& c, int64_t columns) {
  const auto heads = c.attr<int64_t>("heads");
  if (heads < 1 || columns % heads) c.attr_error("heads is ", heads, " but must divide D, which is ", columns);
  const auto p = c.attr<double>("p");
  if (!(p >= 0 && p < 1)) c.attr_error("p is ", p, " but must lie in [0, 1)");
  if (c.has("key")) {
    c.expect_dtype("key", DType::kI64);
    c.expect_shape("key", {2});
  } else if (p > 0) {
    c.attr_error("p is ", p, " but there is no key to draw from; give key");
  }
  return heads;
}

}  // namespace paddock
