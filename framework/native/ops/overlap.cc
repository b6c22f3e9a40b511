// Overlap of predicted boxes with the ground truth of a batch, without the [N, P, M] table of all pairs.
#include "op/context.h"

namespace paddock {
namespace {

PADDOCK_OP(max_iou, "boxes, others -> iou")
    .doc(
        "For each box its largest IoU with any of the other boxes of its image, 0 where they have no area.  "
        "boxes: [N, P, 4], others: [N, M, 4], both (x1, y1, x2, y2); iou: [N, P]. Padding with boxes of no area does "
        "not count.")
    .infer([](InferContext& c) {
      c.expect_rank("boxes", 3);
      c.expect_rank("others", 3);
      c.expect_floating("boxes");
      c.expect_same_dtype();
      const Shape& boxes = c.shape(0);
      const Shape& others = c.shape(1);
      if (boxes[2] != 4 || others[2] != 4 || boxes[0] != others[0])
        c.shape_error("boxes ", boxes, " and others ", others, " must be [N, P, 4] and [N, M, 4] with the same N");
      c.out(0, Shape{boxes[0], boxes[1]}, c.in(0).dtype);
    });

}  // namespace
}  // namespace paddock
