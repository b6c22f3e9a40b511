// What a detector's second stage reads from feature maps: regions of interest, resampled to one size.
// Letters: N images, R regions an image, maps [N, H, W, C], S the size of a resampled region.
#include <cmath>

#include "ops/boxes.h"

namespace paddock {
namespace {

OpDef& region_attrs(OpDef& op) {
  return op.attr("size", AttrType::kInt, "Height and width of a resampled region, S.")
      .attr("strides", AttrType::kFloats, "The image's pixels from one of a map to the next: one number a map.")
      .attr("sampling", AttrType::kInt, int64_t{0},
            "Points along a side of a bin whose mean it holds; 0: as many as it has pixels, rounded up (at most 1024).")
      .attr("aligned", AttrType::kBool, true,
            "A pixel's centre lies half a pixel from its corner (ROIAlign v2). Else boxes are half a pixel too far to "
            "the bottom right and count as at least one pixel of the map wide and high, as in Mask R-CNN.")
      .attr("canonical_size", AttrType::kFloat, 224.0,
            "A box of this size (the root of its area), in pixels of the image, is read from map canonical_level.")
      .attr("canonical_level", AttrType::kInt, int64_t{2},
            "A box twice as large is read from the next map, and so on, by floor(canonical_level + log2(size / "
            "canonical_size) + 1e-6) within the maps there are (Lin et al. 2017, FPN, arXiv:1612.03144, equation 1).");
}

// Checks all that the two directions share; maps are the inputs from `first` on.
void expect_regions(const InferContext& c, int first) {
  c.expect_rank("boxes", 3);
  expect_boxes(c, "boxes");
  c.expect_floating("boxes");
  const int64_t images = c.shape("boxes")[0];
  if (c.has("count")) {
    c.expect_index("count");
    c.expect_shape("count", {images});
  }
  const int maps = c.input_count() - first;
  if (maps < 1) c.shape_error("there are no maps; give at least one");
  for (int i = 0; i < maps; ++i) {
    const Shape &map = c.shape(first + i), &other = c.shape(first);
    if (map.rank() != 4) c.shape_error("maps[", i, "] of shape ", map, " must be [N, H, W, C]");
    if (map[0] != images || map[3] != other[3])
      c.shape_error("maps[", i, "] of shape ", map, " must have ", images, " images, as boxes, and ", other[3],
                    " channels, as maps[0]");
    if (c.in(first + i).dtype != c.in("boxes").dtype)
      c.dtype_error("maps[", i, "] is ", c.in(first + i).dtype, " but boxes is ", c.in("boxes").dtype);
  }
  const auto strides = c.attr<std::vector<double>>("strides");
  if (static_cast<int>(strides.size()) != maps)
    c.attr_error("strides has ", strides.size(), " numbers but there are ", maps, " maps; give one a map");
  for (double stride : strides)
    if (!(stride > 0 && std::isfinite(stride))) c.attr_error("strides holds ", stride, " but must be above 0");
  const auto size = c.attr<int64_t>("size"), sampling = c.attr<int64_t>("sampling");
  if (size < 1 || size > 1024) c.attr_error("size is ", size, " but must lie in [1, 1024]");
  if (sampling < 0 || sampling > 64) c.attr_error("sampling is ", sampling, " but must lie in [0, 64]");
  const auto canonical = c.attr<double>("canonical_size");
  if (!(canonical > 0)) c.attr_error("canonical_size is ", canonical, " but must be above 0");
}

Shape regions_shape(const InferContext& c, int first_map) {
  const Shape& boxes = c.shape("boxes");
  const auto size = c.attr<int64_t>("size");
  int64_t regions = 0;
  if (__builtin_mul_overflow(boxes[0], boxes[1], &regions)) c.shape_error("boxes ", boxes, " are too many");
  return {regions, size, size, c.shape(first_map)[3]};
}

[[maybe_unused]] OpDef& roi_align = region_attrs(
    define_op("roi_align", "boxes, count?, maps... -> y", __FILE__)
        .doc("Regions of feature maps, resampled to S x S: a bin holds the mean of points spread evenly over it, each "
             "interpolated between the four pixels around it (He et al. 2017, Mask R-CNN, arXiv:1703.06870). Points "
             "more than a pixel outside of the map count as 0. A region is read from the map that fits its size.\n\n"
             "boxes: [N, R, 4], in pixels of the image; count: [N] int32 or int64, how many of an image's rows count, "
             "all by default; maps: [N, H, W, C] each, finest first; y: [N * R, S, S, C], zeros for rows that do not "
             "count and for boxes without area.")
        .half("boxes")
        .follows()
        .infer([](InferContext& c) {
          expect_regions(c, 2);
          c.out(0, regions_shape(c, 2), c.in(2).dtype);
        }));

[[maybe_unused]] OpDef& roi_align_grad =
    region_attrs(define_op("roi_align_grad", "dy, boxes, count?, maps... -> dmaps...", __FILE__)
                     .doc("Gradient of roi_align by its maps.\n\n"
                          "dy: [N * R, S, S, C]; boxes: [N, R, 4]; count: [N]; maps, dmaps: [N, H, W, C] each.")
                     .shape_only("maps")
                     .half("boxes")
                     .internal()
                     .follows()
                     .infer([](InferContext& c) {
                       expect_regions(c, 3);
                       c.expect_shape("dy", regions_shape(c, 3));
                       c.expect_dtype("dy", c.in("boxes").dtype);
                       for (int i = 3; i < c.input_count(); ++i) c.out(i - 3, c.shape(i), c.in(i).dtype);
                     }));

}  // namespace
}  // namespace paddock
