// Operators on ragged data: rows of sequences of different lengths, one after the other, cut by `offsets`.
// Row-wise operators need no help; these look at where sequences begin and end. ops/attention.cc has attention.
#include "ops/ragged.h"

namespace paddock {
namespace {

constexpr const char* kOffsetsDoc =
    "offsets: int32 or int64 [B + 1], rising from 0 to T: sequence b has rows offsets[b] ... offsets[b + 1] - 1";

// y [B, ...]: one row a sequence.
void infer_segments(InferContext& c) {
  c.expect_rank_at_least("x", 1);
  c.expect_floating("x");
  Shape y = c.shape("x");
  y[0] = expect_offsets(c, "offsets");
  c.out(0, y, c.in("x").dtype);
}

PADDOCK_OP(segment_sum, "x, offsets -> y")
    .doc(cat("Sum over the rows of each sequence; 0 for an empty one.\n\nx: [T, ...]; ", kOffsetsDoc, "; y: [B, ...]."))
    .half()
    .checks(DataCheck::kOffsets, "offsets", rows_of_x)
    .infer(infer_segments);

PADDOCK_OP(segment_mean, "x, offsets -> y")
    .doc(cat("Mean over the rows of each sequence; 0 for an empty one.\n\nx: [T, ...]; ", kOffsetsDoc,
             "; y: [B, ...]."))
    .half()
    .checks(DataCheck::kOffsets, "offsets", rows_of_x)
    .infer(infer_segments);

PADDOCK_OP(segment_max, "x, offsets -> y, rows")
    .doc(cat("Maximum over the rows of each sequence, which must not be empty, and the first row that has it; NaN "
             "counts as larger than any number.\n\nx: [T, ...]; ",
             kOffsetsDoc, "; y: [B, ...]; rows: int64, as y."))
    .half()
    .checks(DataCheck::kFilled, "offsets", rows_of_x)
    .follows()
    .infer([](InferContext& c) {
      infer_segments(c);
      Shape y = c.shape("x");
      y[0] = c.shape("offsets")[0] - 1;
      c.out("rows", y, DType::kI64);
    });

PADDOCK_OP(segment_spread, "x, offsets, like -> y")
    .doc(cat("Each sequence's row of `x` for all rows of the sequence.\n\nx: [B, ...]; ", kOffsetsDoc,
             "; like: [T, ...], read for T only; y: [T, ...] with the axes of x."))
    .shape_only("like")
    .half()
    .checks(DataCheck::kOffsets, "offsets", rows_of_like)
    .follows()
    .infer([](InferContext& c) {
      const int64_t sequences = expect_offsets(c, "offsets");
      c.expect_rank_at_least("x", 1);
      c.expect_floating("x");
      c.expect_rank_at_least("like", 1);
      if (c.shape("x")[0] != sequences)
        c.shape_error("x ", c.shape("x"), " has ", c.shape("x")[0], " rows but offsets ", c.shape("offsets"), " cut ",
                      sequences, " sequences");
      Shape y = c.shape("x");
      y[0] = c.shape("like")[0];
      c.out(0, y, c.in("x").dtype);
    });

// int64 [T].
void infer_row_numbers(InferContext& c) {
  expect_offsets(c, "offsets");
  c.expect_rank_at_least("like", 1);
  c.out(0, {c.shape("like")[0]}, DType::kI64);
}

PADDOCK_OP(ragged_positions, "offsets, like -> y")
    .doc(cat("How far each row stands from the first of its sequence: 0, 1, ...\n\n", kOffsetsDoc,
             "; like: [T, ...], read for T only; y: int64 [T]."))
    .shape_only("like")
    .checks(DataCheck::kOffsets, "offsets", rows_of_like)
    .infer(infer_row_numbers);

PADDOCK_OP(ragged_segments, "offsets, like -> y")
    .doc(cat("The number of the sequence that each row belongs to.\n\n", kOffsetsDoc,
             "; like: [T, ...], read for T only; y: int64 [T]."))
    .shape_only("like")
    .checks(DataCheck::kOffsets, "offsets", rows_of_like)
    .infer(infer_row_numbers);

int64_t window_rows(const InferContext& c) {
  const auto before = c.attr<int64_t>("before"), after = c.attr<int64_t>("after");
  if (before < 0 || after < 0)
    c.attr_error("before is ", before, " and after is ", after, " but both must be at least 0");
  constexpr int64_t kMost = int64_t{1} << 20;  // more would overflow further on
  if (std::max(before, after) > kMost)
    c.attr_error("before is ", before, " and after is ", after, " but both must be at most ", kMost);
  return before + 1 + after;
}

constexpr const char* kBeforeDoc = "Rows before the row at hand.";
constexpr const char* kAfterDoc = "Rows after it.";

PADDOCK_OP(ragged_window, "x, offsets -> y")
    .doc(
        cat("Each row with its neighbours in the sequence, from `before` rows ahead of it to `after` rows behind, side "
            "by side; zeros where the sequence has ended. A matrix product with it is a convolution along the "
            "sequences.\n\nx: [T, D]; ",
            kOffsetsDoc, "; y: [T, (before + 1 + after) * D]."))
    .attr("before", AttrType::kInt, kBeforeDoc)
    .attr("after", AttrType::kInt, kAfterDoc)
    .half()
    .checks(DataCheck::kOffsets, "offsets", rows_of_x)
    .follows()
    .infer([](InferContext& c) {
      expect_offsets(c, "offsets");
      c.expect_rank("x", 2);
      c.expect_floating("x");
      c.out(0, {c.shape("x")[0], window_rows(c) * c.shape("x")[1]}, c.in("x").dtype);
    });

PADDOCK_OP(ragged_window_grad, "dy, offsets -> dx")
    .doc(cat("Gradient of ragged_window: each row sums what its neighbours got from it.\n\ndy: [T, (before + 1 + "
             "after) * D]; ",
             kOffsetsDoc, "; dx: [T, D]."))
    .attr("before", AttrType::kInt, kBeforeDoc)
    .attr("after", AttrType::kInt, kAfterDoc)
    .half()
    .checks(DataCheck::kOffsets, "offsets", rows_of_dy)
    .internal()
    .infer([](InferContext& c) {
      expect_offsets(c, "offsets");
      c.expect_rank("dy", 2);
      c.expect_floating("dy");
      const int64_t rows = window_rows(c), width = c.shape("dy")[1];
      if (width % rows)
        c.shape_error("dy ", c.shape("dy"), " has ", width, " columns, which are not ", rows, " rows side by side");
      c.out(0, {c.shape("dy")[0], width / rows}, c.in("dy").dtype);
    });

}  // namespace
}  // namespace paddock
