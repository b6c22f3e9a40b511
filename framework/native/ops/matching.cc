// Which anchors stand for which ground truth, and which of them a training step looks at.
// Letters: N images, P anchors, M ground truths of an image (padded with boxes of no area), S samples.
#include <limits>

#include "ops/boxes.h"

namespace paddock {
namespace {

PADDOCK_OP(match_boxes, "anchors, truths, ignored? -> match")
    .doc(
        "The ground truth that each anchor overlaps most, by IoU: its number where the IoU is at least `high`, -1 "
        "(background) where it is below `low`, -2 (neither, not to be trained on) between, and for anchors without "
        "area. Of truths with equal IoU the first counts; those without area or marked as ignored match nothing.\n\n"
        "anchors: [P, 4] or [N, P, 4]; truths: [N, M, 4]; ignored: [N, M] bool; match: [N, P] int64.")
    .attr("high", AttrType::kFloat, 0.5, "The least IoU of a match, in [0, 1].")
    .attr("low", AttrType::kFloat, 0.5, "An anchor whose largest IoU is below this is background; in [0, high].")
    .attr("keep_best", AttrType::kBool, false,
          "An anchor with the largest IoU that any has with some truth, above 0, is matched to the truth that it "
          "overlaps most itself, however little (Faster R-CNN, RetinaNet).")
    .attr("claim_best", AttrType::kBool, false,
          "Each truth takes the anchor that it overlaps most, if at all, for itself: the pairs are taken from the "
          "largest IoU on, each anchor and truth once (SSD's bipartite matching, Liu et al. 2016, arXiv:1512.02325).")
    .attr("ignore_iou", AttrType::kFloat, 0.5,
          "A background anchor of whose area at least this share, in [0, 1], lies in one ignored truth gets -2.")
    .infer([](InferContext& c) {
      expect_boxes(c, "anchors");
      expect_boxes(c, "truths");
      c.expect_floating("anchors");
      c.expect_dtype("truths", c.in("anchors").dtype);
      c.expect_rank("truths", 3);
      const Shape &anchors = c.shape("anchors"), &truths = c.shape("truths");
      if (anchors.rank() == 3 ? anchors[0] != truths[0] : anchors.rank() != 2)
        c.shape_error("anchors ", anchors, " must be [P, 4], or [N, P, 4] with the images of truths ", truths);
      if (c.has("ignored")) {
        c.expect_shape("ignored", {truths[0], truths[1]});
        c.expect_dtype("ignored", DType::kBool);
      }
      if (anchors.dim(-2) > std::numeric_limits<int32_t>::max())
        c.shape_error("anchors ", anchors, " are too many; 2^31 - 1 at most");
      for (const char* share : {"high", "low", "ignore_iou"}) expect_share(c, share);
      if (c.attr<double>("low") > c.attr<double>("high"))
        c.attr_error("low is ", c.attr<double>("low"), " but must be at most high, ", c.attr<double>("high"));
      c.out(0, {truths[0], anchors.dim(-2)}, DType::kI64);
    });

PADDOCK_OP(sample_matches, "match, keys -> index, kind")
    .doc(
        "A training step's choice of anchors: of those that are matched the ones with the smallest keys, at most "
        "floor(count * positive_share) of them; then background with the smallest keys until there are `count`. With "
        "random keys the choice is random. Of equal keys the lower index comes first; a NaN is the largest.\n\n"
        "match: [N, P] int64, of match_boxes: -1 is background, what is below is never taken; keys: [N, P]; index: "
        "[N, count] int64, matched anchors first, 0 in rows that stay empty; kind: [N, count] int64, match at index, "
        "-2 in rows that stay empty.")
    .attr("count", AttrType::kInt, "Anchors of an image, S.")
    .attr("positive_share", AttrType::kFloat, 0.5, "Which part of them may be matched ones, in [0, 1].")
    .infer([](InferContext& c) {
      c.expect_rank("match", 2);
      c.expect_dtype("match", DType::kI64);
      c.expect_shape("keys", c.shape("match"));
      c.expect_floating("keys");
      expect_positive(c, "count");
      expect_share(c, "positive_share");
      const Shape sampled{c.shape("match")[0], c.attr<int64_t>("count")};
      c.out(0, sampled, DType::kI64);
      c.out(1, sampled, DType::kI64);
    });

}  // namespace
}  // namespace paddock
