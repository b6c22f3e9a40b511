// Attention over ragged data: every sequence by itself, without padding and without a mask.
#include "ops/attention.h"

#include "ops/ragged.h"

namespace paddock {
namespace {

OpDef& ragged_attrs(OpDef& op) {
  return attention_attrs(op).attr("window", AttrType::kInt, int64_t{0},
                                  "Query i of T sees keys less than so many places from i + (S - T) only; 0 for all.");
}

void expect_window(const InferContext& c) {
  if (const auto window = c.attr<int64_t>("window"); window < 0)
    c.attr_error("window is ", window, " but must be 0 or more");
}

// q [T, D], k and v [S, D]; returns the number of heads.
int64_t expect_separate(const InferContext& c) {
  c.expect_rank("q", 2);
  c.expect_floating("q");
  const int64_t sequences = expect_offsets(c, "offsets"), columns = c.shape("q")[1];
  if (c.has("k_offsets")) {
    const int64_t others = expect_offsets(c, "k_offsets");
    if (others != sequences) c.shape_error("k_offsets cut ", others, " sequences but offsets cut ", sequences);
  }
  for (const char* name : {"k", "v"}) {
    if (c.in(name).dtype != c.in("q").dtype)
      c.dtype_error(name, " is ", c.in(name).dtype, " but q is ", c.in("q").dtype, "; cast one to the other's type");
    c.expect_rank(name, 2);
  }
  c.expect_shape("k", {c.has("k_offsets") ? c.shape("k")[0] : c.shape("q")[0], columns});
  c.expect_shape("v", c.shape("k"));
  expect_window(c);
  return expect_heads(c, columns);
}

// qkv [T, 3 D]; returns D.
int64_t expect_packed(const InferContext& c) {
  c.expect_rank("qkv", 2);
  c.expect_floating("qkv");
  expect_offsets(c, "offsets");
  if (c.shape("qkv")[1] % 3)
    c.shape_error("qkv ", c.shape("qkv"), " has ", c.shape("qkv")[1],
                  " columns but must have 3 D: those of q, k and v");
  expect_heads(c, c.shape("qkv")[1] / 3);
  expect_window(c);
  return c.shape("qkv")[1] / 3;
}

// What the gradients get besides the forward inputs, of `type`; T rows, D columns.
void expect_outputs(const InferContext& c, int64_t rows, int64_t columns, DType type) {
  for (const char* name : {"dy", "y", "lse", "dlse"})
    if (c.has(name)) c.expect_dtype(name, type);
  c.expect_shape("dy", {rows, columns});
  c.expect_shape("y", {rows, columns});
  c.expect_shape("lse", {rows, c.attr<int64_t>("heads")});
  if (c.has("dlse")) c.expect_shape("dlse", c.shape("lse"));
}

int64_t queries(const InferContext& c) { return c.shape("q")[0]; }
int64_t keys(const InferContext& c) { return c.shape("k")[0]; }
int64_t packed_rows(const InferContext& c) { return c.shape("qkv")[0]; }

constexpr const char* kWhat =
    "y = softmax(scale q k^T) v of every sequence and head by itself (Vaswani et al. 2017), in blocks that never hold "
    "all weights of a sequence (Dao et al. 2022). lse: log of the sum of exponentials of each row of scores.";

[[maybe_unused]] OpDef& op_ragged_attention = ragged_attrs(
    define_op("ragged_attention", "q, k, v, offsets, k_offsets?, key? -> y, lse", __FILE__)
        .doc(cat(kWhat, " A query without keys gives 0.\n\n",
                 "q, y: [T, D], columns head by head; k, v: [S, D]; offsets: int32 or int64 [B + 1], rising from 0 to "
                 "T, of the queries' sequences; k_offsets: the same to S of the keys', where they differ; lse: [T, "
                 "heads]; key: int64[2], of the dropout of weights."))
        .fused_from("ragged_attention")
        .half("lse")
        .checks(DataCheck::kOffsets, "offsets", queries)
        .checks(DataCheck::kOffsets, "k_offsets", keys)
        .narrows("q, k, v")
        .infer([](InferContext& c) {
          const int64_t heads = expect_separate(c);
          c.out("y", c.shape("q"), c.in("q").dtype);
          c.out("lse", {c.shape("q")[0], heads}, c.in("q").dtype);
        }));

[[maybe_unused]] OpDef& op_ragged_attention_grad = ragged_attrs(
    define_op("ragged_attention_grad", "dy, y, lse, q, k, v, offsets, k_offsets?, key?, dlse? -> dq, dk, dv", __FILE__)
        .doc("Gradients of ragged_attention, which computes its weights again.  dy, y, q, dq: [T, D]; lse, dlse: [T, "
             "heads]; k, v, dk, dv: [S, D]; the others as there.")
        .fused_from("ragged_attention_grad")
        .half("lse, dlse")
        .checks(DataCheck::kOffsets, "offsets", queries)
        .checks(DataCheck::kOffsets, "k_offsets", keys)
        .internal()
        .infer([](InferContext& c) {
          expect_separate(c);
          expect_outputs(c, c.shape("q")[0], c.shape("q")[1], c.in("q").dtype);
          for (const char* name : {"q", "k", "v"}) c.out(cat("d", name), c.shape(name), c.in("q").dtype);
        }));

[[maybe_unused]] OpDef& op_ragged_self_attention = ragged_attrs(
    define_op("ragged_self_attention", "qkv, offsets, key? -> y, lse", __FILE__)
        .doc(cat("ragged_attention of q, k and v that lie side by side, as one matrix product gives them: ", kWhat,
                 "\n\nqkv: [T, 3 D]; offsets: int32 or int64 [B + 1], rising from 0 to T; y: [T, D], columns head by "
                 "head; lse: [T, heads]; key: int64[2], of the dropout of weights."))
        .fused_from("ragged_self_attention")
        .half("lse")
        .checks(DataCheck::kOffsets, "offsets", packed_rows)
        .narrows("qkv")
        .infer([](InferContext& c) {
          const int64_t columns = expect_packed(c), rows = c.shape("qkv")[0];
          c.out("y", {rows, columns}, c.in("qkv").dtype);
          c.out("lse", {rows, c.attr<int64_t>("heads")}, c.in("qkv").dtype);
        }));

[[maybe_unused]] OpDef& op_ragged_self_attention_grad = ragged_attrs(
    define_op("ragged_self_attention_grad", "dy, y, lse, qkv, offsets, key?, dlse? -> dqkv", __FILE__)
        .doc("Gradient of ragged_self_attention, which computes its weights again.  dy, y: [T, D]; lse, dlse: [T, "
             "heads]; qkv, dqkv: [T, 3 D]; the others as there.")
        .fused_from("ragged_self_attention_grad")
        .half("lse, dlse")
        .checks(DataCheck::kOffsets, "offsets", packed_rows)
        .internal()
        .infer([](InferContext& c) {
          const int64_t columns = expect_packed(c);
          expect_outputs(c, c.shape("qkv")[0], columns, c.in("qkv").dtype);
          c.out("dqkv", c.shape("qkv"), c.in("qkv").dtype);
        }));

}  // namespace
}  // namespace paddock
