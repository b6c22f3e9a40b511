// Linear-chain conditional random fields (Lafferty et al. 2001) over ragged data: the loss and the best path.
#include "ops/ragged.h"

namespace paddock {
namespace {

struct Extents {
  int64_t rows, sequences;
};

Extents expect_chain(const InferContext& c) {
  c.expect_floating("emissions");
  c.expect_rank("emissions", 2);
  const DType type = c.in("emissions").dtype;
  const int64_t K = c.shape("emissions")[1];
  if (K < 1) c.shape_error("emissions ", c.shape("emissions"), " must have at least one tag: [T, K]");
  for (const char* name : {"transitions", "start", "stop"}) c.expect_dtype(name, type);
  c.expect_shape("transitions", {K, K});
  c.expect_shape("start", {K});
  c.expect_shape("stop", {K});
  return {c.shape("emissions")[0], expect_offsets(c, "offsets")};
}

Extents expect_tagged(const InferContext& c) {
  const Extents e = expect_chain(c);
  c.expect_index("tags");
  c.expect_shape("tags", {e.rows});
  return e;
}

int64_t emitted_rows(const InferContext& c) { return c.shape("emissions")[0]; }
int64_t tag_count(const InferContext& c) { return c.shape("emissions")[1]; }

constexpr const char* kShapes =
    "emissions: [T, K], the score of every tag of every row; transitions: [K, K], of tag i followed by tag j; start, "
    "stop: [K], of the first and the last tag; offsets: int32 or int64 [B + 1], rising from 0 to T";

PADDOCK_OP(crf_loss, "emissions, transitions, start, stop, tags, offsets -> loss")
    .doc(cat("Negative log-likelihood of the tags of each sequence: with score(path) = start + emissions + transitions "
             "+ stop along it, loss = log(sum over all paths of exp(score)) - score(tags), by the forward algorithm in "
             "log space. An empty sequence has loss 0.\n\n",
             kShapes, "; tags: int32 or int64 [T]; loss: [B]."))
    .checks(DataCheck::kOffsets, "offsets", emitted_rows)
    .checks(DataCheck::kIndices, "tags", tag_count)
    .infer([](InferContext& c) { c.out(0, {expect_tagged(c).sequences}, c.in("emissions").dtype); });

PADDOCK_OP(crf_loss_grad,
           "dloss, emissions, transitions, start, stop, tags, offsets -> demissions, dtransitions, dstart, dstop")
    .doc(
        cat("Gradients of crf_loss, exact by the forward-backward algorithm: how likely each tag and each pair of tags "
            "is, minus those given, times dloss.\n\n",
            kShapes,
            "; tags: int32 or int64 [T]; dloss: [B]; demissions: [T, K]; dtransitions: [K, K]; dstart, "
            "dstop: [K]."))
    .checks(DataCheck::kOffsets, "offsets", emitted_rows)
    .checks(DataCheck::kIndices, "tags", tag_count)
    .internal()
    .infer([](InferContext& c) {
      const Extents e = expect_tagged(c);
      c.expect_dtype("dloss", c.in("emissions").dtype);
      c.expect_shape("dloss", {e.sequences});
      for (const char* name : {"emissions", "transitions", "start", "stop"})
        c.out(cat("d", name), c.shape(name), c.in("emissions").dtype);
    });

PADDOCK_OP(crf_decode, "emissions, transitions, start, stop, offsets -> tags, score")
    .doc(cat("The path of the largest score of each sequence (Viterbi 1967); of equal ones that with the smallest last "
             "tag, then the one before, and so on. Forbidden transitions may be -infinity.\n\n",
             kShapes, "; tags: int64 [T]; score: [B], 0 for an empty sequence."))
    .checks(DataCheck::kOffsets, "offsets", emitted_rows)
    .infer([](InferContext& c) {
      const Extents e = expect_chain(c);
      c.out("tags", {e.rows}, DType::kI64);
      c.out("score", {e.sequences}, c.in("emissions").dtype);
    });

}  // namespace
}  // namespace paddock
