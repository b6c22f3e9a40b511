// Masks of objects: from annotations to what a mask head learns, and from what it says to pictures.
// Letters: N images, M ground truths of an image, R regions, D detections, S the size of a mask.
#include <cmath>

#include "ops/boxes.h"
#include "ops/ragged.h"

namespace paddock {
namespace {

PADDOCK_OP(crop_masks, "runs, offsets, boxes, index, sizes -> targets")
    .doc(
        "The part of a ground truth's mask that lies in a region, as S x S numbers: 1 where the mask covers at least "
        "half of the area of a bin, else 0. A pixel is a square, so that areas are exact.\n\n"
        "runs: [total] int32, COCO's uncompressed run lengths of all masks, one after the other: how many pixels are "
        "outside, then inside, and so on, column by column; offsets: [N * M + 1] int32 or int64, rising from 0 to "
        "total: "
        "where each mask's runs start; boxes: [N, R, 4], in pixels of the masks' pictures; index: [N, R] int64, which "
        "of its image's M masks a region is cut from; sizes: [N, 2] int32 or int64, each picture's (height, width); "
        "targets: [N, R, S, S], zeros for regions without area and where the index is below 0 or not below M.")
    .attr("size", AttrType::kInt, "S.")
    .checks(DataCheck::kOffsets, "offsets", [](const InferContext& c) { return c.shape("runs")[0]; })
    .infer([](InferContext& c) {
      c.expect_rank("runs", 1);
      c.expect_dtype("runs", DType::kI32);
      const int64_t masks = expect_offsets(c, "offsets");
      c.expect_rank("boxes", 3);
      expect_boxes(c, "boxes");
      c.expect_floating("boxes");
      const Shape& boxes = c.shape("boxes");
      if (boxes[0] ? masks % boxes[0] != 0 : masks != 0)
        c.shape_error("offsets ", c.shape("offsets"), " cut ", masks, " masks, which ", boxes[0],
                      " images (axis 0 of boxes) do not divide");
      c.expect_shape("index", {boxes[0], boxes[1]});
      c.expect_dtype("index", DType::kI64);
      expect_sizes(c, boxes[0]);
      const auto size = c.attr<int64_t>("size");
      if (size < 1 || size > 1024) c.attr_error("size is ", size, " but must lie in [1, 1024]");
      c.out(0, {boxes[0], boxes[1], size, size}, c.in("boxes").dtype);
    });

PADDOCK_OP(paste_masks, "masks, boxes -> bitmaps")
    .doc(
        "Masks of boxes as bitmaps of the picture: 1 where the mask, stretched over its box and interpolated at the "
        "centre of the pixel, is at least `threshold`. A mask's values lie at the centres of its bins and fall to 0 "
        "around it.\n\n"
        "masks: [D, S, S]; boxes: [D, 4]; bitmaps: [D, height, width] uint8, zeros for boxes without area.")
    .attr("height", AttrType::kInt, "Of the picture.")
    .attr("width", AttrType::kInt, "Of the picture.")
    .attr("threshold", AttrType::kFloat, 0.5, "The least value inside, above 0.")
    .infer([](InferContext& c) {
      c.expect_rank("masks", 3);
      c.expect_floating("masks");
      const Shape& masks = c.shape("masks");
      if (masks[1] < 1 || masks[2] < 1) c.shape_error("masks of shape ", masks, " have no values");
      c.expect_shape("boxes", {masks[0], kCoordinates});
      c.expect_dtype("boxes", c.in("masks").dtype);
      for (const char* side : {"height", "width"}) expect_positive(c, side);
      const auto threshold = c.attr<double>("threshold");
      if (!(threshold > 0)) c.attr_error("threshold is ", threshold, " but must be above 0");
      c.out(0, {masks[0], c.attr<int64_t>("height"), c.attr<int64_t>("width")}, DType::kU8);
    });

}  // namespace
}  // namespace paddock
