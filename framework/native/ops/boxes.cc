// Boxes and what networks predict of them: their offsets from anchors and back, cuts to the image, grids of anchors.
#include "ops/boxes.h"

#include <cmath>

#include "ops/broadcast.h"

namespace paddock {
namespace {

// The shape of two inputs of boxes that broadcast along all axes but the last.
Shape paired_boxes(const InferContext& c, const char* a, const char* b) {
  for (const char* name : {a, b}) expect_boxes(c, name);
  c.expect_floating(a);
  c.expect_same_dtype();
  return broadcast_inputs(c, c.op().input_index(a), c.op().input_index(b));
}

OpDef& coding_attrs(OpDef& op) {
  return op.attr("weights", AttrType::kFloats, std::vector<double>{1, 1, 1, 1}, kWeightsDoc);
}

OpDef& decoding_attrs(OpDef& op) {
  return coding_attrs(op).attr("max_log_scale", AttrType::kFloat, kMaxLogScale, kMaxLogScaleDoc);
}

Shape decoded_shape(const InferContext& c) {
  expect_weights(c);
  if (std::isnan(c.attr<double>("max_log_scale"))) c.attr_error("max_log_scale is not a number");
  return paired_boxes(c, "deltas", "anchors");
}

[[maybe_unused]] OpDef& box_encode = coding_attrs(
    define_op("box_encode", "boxes, anchors -> deltas", __FILE__)
        .doc(
            "Where boxes lie from their anchors: (x - xa) / wa, (y - ya) / ha, log(w / wa) and log(h / ha), of centres "
            "(x, y), widths and heights, each times its weight (Ren et al. 2015, Faster R-CNN, arXiv:1506.01497, "
            "equation 2). Zeros where the box or the anchor has no area.\n\n"
            "boxes, anchors: [..., 4], which broadcast along all axes but the last; deltas: [..., 4].")
        .infer([](InferContext& c) {
          expect_weights(c);
          c.out(0, paired_boxes(c, "boxes", "anchors"), c.in("boxes").dtype);
        }));

[[maybe_unused]] OpDef& box_decode =
    decoding_attrs(define_op("box_decode", "deltas, anchors -> boxes", __FILE__)
                       .doc("The boxes that lie from their anchors as `deltas` say: what undoes box_encode.\n\n"
                            "deltas, anchors: [..., 4], which broadcast along all axes but the last; boxes: [..., 4].")
                       .infer([](InferContext& c) { c.out(0, decoded_shape(c), c.in("deltas").dtype); }));

[[maybe_unused]] OpDef& box_decode_grad =
    decoding_attrs(define_op("box_decode_grad", "dy, deltas, anchors -> ddeltas, danchors", __FILE__)
                       .doc("Gradients of box_decode, before they are summed along the axes that its inputs repeat.\n\n"
                            "deltas, anchors: [..., 4]; dy, ddeltas, danchors: [..., 4], as the boxes.")
                       .internal()
                       .infer([](InferContext& c) {
                         const Shape boxes = decoded_shape(c);
                         c.expect_shape("dy", boxes);
                         c.out(0, boxes, c.in("deltas").dtype);
                         c.out(1, boxes, c.in("deltas").dtype);
                       }));

void infer_clip(InferContext& c, const char* moved) {
  c.expect_rank("boxes", 3);
  expect_boxes(c, "boxes");
  c.expect_floating("boxes");
  expect_sizes(c, c.shape("boxes")[0]);
  c.expect_shape(moved, c.shape("boxes"));
  c.expect_dtype(moved, c.in("boxes").dtype);
  c.out(0, c.shape("boxes"), c.in("boxes").dtype);
}

PADDOCK_OP(clip_boxes, "boxes, sizes -> clipped")
    .doc(
        "Boxes cut to their image: x to [0, width], y to [0, height].\n\n"
        "boxes, clipped: [N, P, 4]; sizes: [N, 2] int32 or int64, each image's true (height, width).")
    .inplace("boxes", "clipped")
    .infer([](InferContext& c) { infer_clip(c, "boxes"); });

PADDOCK_OP(clip_boxes_grad, "dy, boxes, sizes -> dboxes")
    .doc(
        "Gradient of clip_boxes: dy where the coordinate was not moved, else 0.\n\n"
        "dy, boxes, dboxes: [N, P, 4]; sizes: [N, 2] int32 or int64.")
    .inplace("dy", "dboxes")
    .internal()
    .infer([](InferContext& c) { infer_clip(c, "dy"); });

PADDOCK_OP(anchor_grid, "map -> anchors")
    .doc(
        "The anchors of a feature map: every cell's boxes around every pixel's place in the image, which is "
        "((column + offset) * stride, (row + offset) * stride). They depend on the map's shape only.\n\n"
        "map: [N, H, W, C]; anchors: [H * W * A, 4], by row, column and box of the cell; float64 for a float64 map, "
        "else float32.")
    .shape_only("map")
    .attr("cells", AttrType::kFloats, "The A boxes of a pixel around (0, 0), one after the other: 4 * A numbers.")
    .attr("stride", AttrType::kFloats,
          "The image's pixels from one of the map to the next: one number or two "
          "(height, width).")
    .attr("offset", AttrType::kFloat, 0.0,
          "Where a pixel's boxes have their centre, in strides: 0 (R-CNN, RetinaNet) or 0.5 (SSD).")
    .infer([](InferContext& c) {
      c.expect_rank("map", 4);
      const auto cells = c.attr<std::vector<double>>("cells");
      if (cells.empty() || cells.size() % kCoordinates != 0)
        c.attr_error("cells has ", cells.size(), " numbers but takes 4 a box, of at least one box");
      const auto stride = c.attr<std::vector<double>>("stride");
      if (stride.empty() || stride.size() > 2)
        c.attr_error("stride has ", stride.size(), " numbers; takes one, or two (height, width)");
      int64_t anchors = static_cast<int64_t>(cells.size()) / kCoordinates;
      for (int axis : {1, 2})
        if (__builtin_mul_overflow(anchors, c.shape("map")[axis], &anchors))
          c.shape_error("map of shape ", c.shape("map"), " has too many pixels");
      c.out(0, {anchors, kCoordinates}, c.in("map").dtype == DType::kF64 ? DType::kF64 : DType::kF32);
    });

}  // namespace
}  // namespace paddock
