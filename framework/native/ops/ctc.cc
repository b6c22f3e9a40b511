// Connectionist temporal classification (Graves et al. 2006) over ragged data: the loss of labels without times.
#include "ops/ragged.h"

namespace paddock {
namespace {

int64_t expect_labelled(const InferContext& c) {
  c.expect_floating("logits");
  c.expect_rank("logits", 2);
  c.expect_index("labels");
  c.expect_rank("labels", 1);
  const int64_t B = expect_offsets(c, "offsets"), K = c.shape("logits")[1], blank = c.attr<int64_t>("blank");
  if (expect_offsets(c, "label_offsets") != B) c.expect_shape("label_offsets", {B + 1});
  if (blank < 0 || blank >= K)
    c.attr_error("blank is ", blank, " but logits ", c.shape("logits"), " have ", K, " classes");
  return B;
}

int64_t logit_rows(const InferContext& c) { return c.shape("logits")[0]; }
int64_t label_rows(const InferContext& c) { return c.shape("labels")[0]; }
int64_t class_count(const InferContext& c) { return c.shape("logits")[1]; }

constexpr const char* kShapes =
    "logits: [T, K], the scores of the classes in each row, before softmax; offsets: int32 or int64 [B + 1], rising "
    "from "
    "0 to T; labels: int32 or int64 [L], the classes of each sequence in order, none of them the blank; label_offsets: "
    "int32 or int64 [B + 1], rising from 0 to L";

OpDef& ctc_attrs(OpDef& op) {
  return op.attr("blank", AttrType::kInt, int64_t{0}, "The class that stands for no label.")
      .attr("zero_infinity", AttrType::kBool, false,
            "A sequence whose labels do not fit into its rows has loss 0 in place of infinity, and no gradient.")
      .checks(DataCheck::kOffsets, "offsets", logit_rows)
      .checks(DataCheck::kOffsets, "label_offsets", label_rows)
      .checks(DataCheck::kIndices, "labels", class_count);
}

[[maybe_unused]] OpDef& op_ctc_loss = ctc_attrs(
    define_op("ctc_loss", "logits, offsets, labels, label_offsets -> loss", __FILE__)
        .doc(cat(
            "Negative log-likelihood of the labels of each sequence: loss = -log(sum over all paths of the product of "
            "softmax(logits) along them), where a path names a class in each row and reads as the labels once "
            "repetitions and then blanks are taken away (Graves et al. 2006); by the forward algorithm in log space. "
            "Two equal labels in a row need a blank between them; labels that do not fit have loss infinity.\n\n",
            kShapes, "; loss: [B]."))
        .infer([](InferContext& c) { c.out(0, {expect_labelled(c)}, c.in("logits").dtype); }));

[[maybe_unused]] OpDef& op_ctc_loss_grad = ctc_attrs(
    define_op("ctc_loss_grad", "dloss, logits, offsets, labels, label_offsets -> dlogits", __FILE__)
        .doc(cat("Gradient of ctc_loss, exact by the forward-backward algorithm: softmax(logits) minus how likely each "
                 "class is in each row of the paths that read as the labels, times dloss; NaN where the loss is "
                 "infinite.\n\n",
                 kShapes, "; dloss: [B]; dlogits: [T, K]."))
        .internal()
        .infer([](InferContext& c) {
          const int64_t B = expect_labelled(c);
          c.expect_dtype("dloss", c.in("logits").dtype);
          c.expect_shape("dloss", {B});
          c.out(0, c.shape("logits"), c.in("logits").dtype);
        }));

}  // namespace
}  // namespace paddock
