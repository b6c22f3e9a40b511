// Attention over sequences of one length, or padded to one. The kernels are those of ragged attention.
#include "ops/attention.h"

namespace paddock {
namespace {

void expect_mask(const InferContext& c, const Shape& wanted) {
  if (!c.has("mask")) return;
  const TensorType& mask = c.in("mask");
  if (mask.dtype != DType::kBool && mask.dtype != c.in("q").dtype)
    c.dtype_error("mask is ", mask.dtype, " but must be bool, or ", c.in("q").dtype, " as q is");
  bool fits = mask.shape.rank() == 4 && mask.shape[3] == wanted[3];
  for (int a = 0; fits && a < 3; ++a) fits = mask.shape[a] == wanted[a] || mask.shape[a] == 1;
  if (!fits)
    c.shape_error("mask ", mask.shape, " must have shape ", wanted,
                  ", [B, heads, T, S], with 1 where it repeats but not "
                  "on the last axis");
}

// Checks q [B, T, D], k and v [B, S, D] and what goes with them.
void expect_attention(const InferContext& c) {
  c.expect_floating("q");
  for (const char* name : {"q", "k", "v"}) {
    c.expect_rank(name, 3);
    if (c.in(name).dtype != c.in("q").dtype)
      c.dtype_error(name, " is ", c.in(name).dtype, " but q is ", c.in("q").dtype, "; cast one to the other's type");
  }
  const Shape &q = c.shape("q"), &k = c.shape("k");
  const int64_t heads = expect_heads(c, q[2]);
  c.expect_shape("k", {q[0], k[1], q[2]});
  c.expect_shape("v", k);
  expect_mask(c, {q[0], heads, q[1], k[1]});
}

Shape rows_and_heads(const InferContext& c) { return {c.shape("q")[0], c.shape("q")[1], c.attr<int64_t>("heads")}; }

constexpr const char* kShapes =
    "q, y: [B, T, D], columns head by head; k, v: [B, S, D]; mask: [B, heads, T, S] with 1 where it repeats, bool, "
    "true "
    "for keys that are seen, or a float that is added to the scores, of which -1e30 and less hides a key; key: "
    "int64[2], of the dropout of weights; lse: [B, T, heads]";

[[maybe_unused]] OpDef& op_scaled_dot_product_attention = attention_attrs(
    define_op("scaled_dot_product_attention", "q, k, v, mask?, key? -> y, lse", __FILE__)
        .doc(cat("y = softmax(scale q k^T + mask) v of every sequence and head (Vaswani et al. 2017), in blocks that "
                 "never hold all weights (Dao et al. 2022). lse: log of the sum of exponentials of each row of scores. "
                 "A query that sees no key gives 0.\n\n",
                 kShapes, "."))
        .fused_from("scaled_dot_product_attention")
        .half("mask, lse")
        .narrows("q, k, v")
        .infer([](InferContext& c) {
          expect_attention(c);
          c.out("y", c.shape("q"), c.in("q").dtype);
          c.out("lse", rows_and_heads(c), c.in("q").dtype);
        }));

[[maybe_unused]] OpDef& op_scaled_dot_product_attention_grad = attention_attrs(
    define_op("scaled_dot_product_attention_grad", "dy, y, lse, q, k, v, mask?, key?, dlse? -> dq, dk, dv", __FILE__)
        .doc(cat("Gradients of scaled_dot_product_attention, which computes its weights again.\n\n", kShapes,
                 "; dy, dlse, dq, dk, dv: as y, lse, q, k, v."))
        .fused_from("scaled_dot_product_attention_grad")
        .half("mask, lse, dlse")
        .internal()
        .infer([](InferContext& c) {
          expect_attention(c);
          for (const char* name : {"dy", "y", "lse", "dlse"})
            if (c.has(name)) c.expect_dtype(name, c.in("q").dtype);
          for (const char* name : {"dy", "y"}) c.expect_shape(name, c.shape("q"));
          for (const char* name : {"lse", "dlse"})
            if (c.has(name)) c.expect_shape(name, rows_and_heads(c));
          for (const char* name : {"q", "k", "v"}) c.out(cat("d", name), c.shape(name), c.in("q").dtype);
        }));

}  // namespace
}  // namespace paddock
