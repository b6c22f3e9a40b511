// What object detectors do with boxes: overlap and the suppression of those that overlap a better one.
// Boxes are [x1, y1, x2, y2]; M boxes, K classes, N images. Output shapes do not depend on the data.
#include "ops/boxes.h"
#include "ops/nms_method.h"

namespace paddock {
namespace {

PADDOCK_OP(box_iou, "a, b -> iou")
    .doc(
        "Intersection over union of every pair of boxes; 0 where the union is empty.\n\n"
        "a: [M, 4]; b: [K, 4]; iou: [M, K].")
    .infer([](InferContext& c) {
      for (const char* name : {"a", "b"}) {
        c.expect_rank(name, 2);
        expect_boxes(c, name);
      }
      c.expect_floating("a");
      c.expect_same_dtype();
      c.out(0, {c.shape("a")[0], c.shape("b")[0]}, c.in("a").dtype);
    });

PADDOCK_OP(nms, "boxes, scores -> keep, count")
    .doc(
        "Greedy non-maximum suppression: the best box is kept, those that overlap it go, and so on.\n\n"
        "Of equal scores the lower index is the better; NaN scores are ignored.\n"
        "boxes: [M, 4]; scores: [M]; keep: [max_outputs] int64, indices from the best on, then -1; count: [] int64.")
    .attr("iou_threshold", AttrType::kFloat, 0.5, kIouDoc)
    .attr("score_threshold", AttrType::kFloat, 0.0, "Boxes take part whose score is above this.")
    .attr("max_outputs", AttrType::kInt, int64_t{100}, "Boxes to keep at most.")
    .infer([](InferContext& c) {
      c.expect_rank("boxes", 2);
      expect_boxes(c, "boxes");
      c.expect_floating("boxes");
      c.expect_same_dtype();
      c.expect_shape("scores", {c.shape("boxes")[0]});
      expect_share(c, "iou_threshold");
      expect_positive(c, "max_outputs");
      c.out(0, {c.attr<int64_t>("max_outputs")}, DType::kI64);
      c.out(1, {}, DType::kI64);
    });

PADDOCK_OP(multiclass_nms, "boxes, scores -> detections, count, index")
    .doc(
        "Detections of each image: per class, the best boxes go through non-maximum suppression; what is kept of all "
        "classes is merged by score.\n\n"
        "Of equal scores the lower class, then the lower index is the better; NaN scores are ignored.\n"
        "boxes: [N, M, 4], or [N, M, K, 4] with a box for each class; scores: [N, M, K]; detections: [N, keep_top_k, "
        "6], rows (label, score, x1, y1, x2, y2) from the best on, then rows of label -1 and zeros; count: [N] int32, "
        "the rows that hold a detection; index: [N, keep_top_k] int64, which of the M boxes a detection is, -1 in the "
        "other rows.")
    .attr("score_threshold", AttrType::kFloat, 0.01, "Boxes take part in a class whose score there is above this.")
    .attr("nms_top_k", AttrType::kInt, int64_t{1000}, "Boxes of a class that go through suppression at most.")
    .attr("iou_threshold", AttrType::kFloat, 0.45, kIouDoc)
    .attr("keep_top_k", AttrType::kInt, int64_t{100}, "Detections of an image at most.")
    .attr("method", AttrType::kString, std::string("hard"),
          "'hard' drops a box that overlaps a better one. The others keep it with a lower score: 'soft_linear' times "
          "1 - IoU for each better one above iou_threshold, 'soft_gaussian' times exp(-IoU^2 / sigma) for each better "
          "one (Bodla et al. 2017, arXiv:1704.04503); 'matrix_linear' and 'matrix_gaussian' times the least of "
          "f(IoU) / f(the better one's own largest IoU) with f = 1 - IoU or exp(-IoU^2 / sigma), once and all at the "
          "same time (Wang et al. 2020, SOLOv2, arXiv:2003.10152, whose sigma is 1 / ours).")
    .choices(kNmsMethods)
    .attr("sigma", AttrType::kFloat, 0.5, "Of the Gaussian methods, above 0.")
    .attr("post_threshold", AttrType::kFloat, 0.0,
          "Detections count whose lowered score is above this; not read by 'hard'.")
    .infer([](InferContext& c) {
      c.expect_rank("scores", 3);
      expect_boxes(c, "boxes");
      c.expect_floating("boxes");
      c.expect_same_dtype();
      const Shape &boxes = c.shape("boxes"), &scores = c.shape("scores");
      if (boxes.rank() != 3 && boxes.rank() != 4)
        c.shape_error("boxes has ", boxes.rank(), " axes (shape ", boxes, ") but must be [N, M, 4] or [N, M, K, 4]");
      if (boxes[0] != scores[0] || boxes[1] != scores[1])
        c.shape_error("boxes ", boxes, " and scores ", scores, " must agree in images (axis 0) and boxes (axis 1)");
      if (boxes.rank() == 4 && boxes[2] != scores[2])
        c.shape_error("boxes ", boxes, " and scores ", scores, " must agree in classes (axis 2)");
      expect_share(c, "iou_threshold");
      expect_positive(c, "nms_top_k");
      expect_positive(c, "keep_top_k");
      nms_method(c);
      const auto sigma = c.attr<double>("sigma");
      if (!(sigma > 0)) c.attr_error("sigma is ", sigma, " but must be above 0");
      const Shape kept{boxes[0], c.attr<int64_t>("keep_top_k")};
      c.out(0, {kept[0], kept[1], 6}, c.in("boxes").dtype);
      c.out(1, {boxes[0]}, DType::kI32);
      c.out(2, kept, DType::kI64);
    });

}  // namespace
}  // namespace paddock
