// From the outputs of a region proposal network to boxes worth a second look (Ren et al. 2015, arXiv:1506.01497).
#include "ops/boxes.h"

namespace paddock {
namespace {

PADDOCK_OP(select_proposals, "logits, deltas, anchors, sizes -> boxes, scores, count")
    .doc(
        "The best regions of each image, of one feature map: the anchors with the largest logits are decoded, cut to "
        "the image and dropped where a side is shorter than min_side; what overlaps a better one is suppressed, and "
        "the "
        "first that are left are given.\n\n"
        "Of equal logits the lower index is the better; NaN logits are ignored.\n"
        "logits: [N, P]; deltas: [N, P, 4]; anchors: [P, 4]; sizes: [N, 2] int32 or int64, each image's true (height, "
        "width); boxes: [N, post_nms, 4], from the best on, then boxes of zeros; scores: [N, post_nms], their logits, "
        "then -1e30; count: [N] int32, the rows that hold a region.")
    .attr("pre_nms", AttrType::kInt, int64_t{2000}, "Anchors of an image that are decoded at most.")
    .attr("post_nms", AttrType::kInt, int64_t{1000}, "Regions of an image that are given at most.")
    .attr("iou_threshold", AttrType::kFloat, 0.7, kIouDoc)
    .attr("min_side", AttrType::kFloat, 1e-3, "Regions count whose width and height are at least this, in pixels.")
    .attr("weights", AttrType::kFloats, std::vector<double>{1, 1, 1, 1}, kWeightsDoc)
    .attr("max_log_scale", AttrType::kFloat, kMaxLogScale, kMaxLogScaleDoc)
    .infer([](InferContext& c) {
      c.expect_rank("logits", 2);
      c.expect_floating("logits");
      for (const char* name : {"deltas", "anchors"}) c.expect_dtype(name, c.in("logits").dtype);
      const Shape& logits = c.shape("logits");
      c.expect_shape("deltas", {logits[0], logits[1], kCoordinates});
      c.expect_shape("anchors", {logits[1], kCoordinates});
      expect_sizes(c, logits[0]);
      expect_positive(c, "pre_nms");
      expect_positive(c, "post_nms");
      expect_share(c, "iou_threshold");
      expect_weights(c);
      const Shape kept{logits[0], c.attr<int64_t>("post_nms")};
      c.out(0, {kept[0], kept[1], kCoordinates}, c.in("logits").dtype);
      c.out(1, kept, c.in("logits").dtype);
      c.out(2, {logits[0]}, DType::kI32);
    });

}  // namespace
}  // namespace paddock
