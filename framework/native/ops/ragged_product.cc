// Matrix products of each sequence of ragged data by itself.
#include "ops/ragged.h"

namespace paddock {
namespace {

constexpr const char* kOffsetsDoc = "offsets: int32 or int64 [B + 1], rising from 0 to T, as of segment_sum";

PADDOCK_OP(segment_outer, "x, z, offsets -> y")
    .doc(cat("Of each sequence the sum over its rows of the outer products of x's and z's row: x^T z; 0 for an empty "
             "one.\n\nx: [T, K]; z: [T, D]; ",
             kOffsetsDoc, "; y: [B, K, D]."))
    .half()
    .checks(DataCheck::kOffsets, "offsets", rows_of_x)
    .flops([](const InferContext& c) { return 2 * c.shape("x").numel() * c.shape("z")[1]; })
    .infer([](InferContext& c) {
      c.expect_rank("x", 2);
      c.expect_rank("z", 2);
      c.expect_floating("x");
      const Shape &x = c.shape("x"), &z = c.shape("z");
      if (c.in("z").dtype != c.in("x").dtype)
        c.dtype_error("z is ", c.in("z").dtype, " but x is ", c.in("x").dtype, "; cast one to the other's type");
      if (z[0] != x[0]) c.shape_error("z ", z, " and x ", x, " must have as many rows");
      c.out(0, {expect_offsets(c, "offsets"), x[1], z[1]}, c.in("x").dtype);
    });

PADDOCK_OP(segment_product, "x, m, offsets -> y")
    .doc(cat("Each row times the matrix of its sequence.\n\nx: [T, K]; m: [B, K, D], or [B, D, K] with "
             "`transpose_m`; ",
             kOffsetsDoc, "; y: [T, D]."))
    .attr("transpose_m", AttrType::kBool, false, "The matrices are given transposed.")
    .half()
    .checks(DataCheck::kOffsets, "offsets", rows_of_x)
    .flops([](const InferContext& c) { return 2 * c.result(0).numel() * c.shape("x")[1]; })
    .infer([](InferContext& c) {
      c.expect_rank("x", 2);
      c.expect_rank("m", 3);
      c.expect_floating("x");
      const Shape &x = c.shape("x"), &m = c.shape("m");
      const bool turned = c.attr<bool>("transpose_m");
      if (c.in("m").dtype != c.in("x").dtype)
        c.dtype_error("m is ", c.in("m").dtype, " but x is ", c.in("x").dtype, "; cast one to the other's type");
      if (m[0] != expect_offsets(c, "offsets"))
        c.shape_error("m ", m, " has ", m[0], " matrices but offsets ", c.shape("offsets"), " cut ",
                      expect_offsets(c, "offsets"), " sequences");
      if (m[turned ? 2 : 1] != x[1])
        c.shape_error("x ", x, " has ", x[1], " columns but each matrix of m ", m, " takes ", m[turned ? 2 : 1]);
      c.out(0, {x[0], m[turned ? 1 : 2]}, c.in("x").dtype);
    });

}  // namespace
}  // namespace paddock
