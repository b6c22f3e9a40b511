// Operators of clips: what moves features from frame to frame, and what lays frames side by side for a 3-D convolution.
#include "op/context.h"

namespace paddock {
namespace {

void expect_frames(const InferContext& c, const Shape& x, const char* what) {
  if (x.rank() < 3) c.shape_error(what, " ", x, " must have the axes [N, T, ..., C], three or more");
}

PADDOCK_OP(temporal_shift, "x -> y")
    .doc(
        "Moves some channels to the frame before and as many to the frame after; what nothing moves to is 0.\n"
        "(Lin et al. 2019, TSM, arXiv:1811.08383, section 3.)  x: [N, T, ..., C]; y: [N, T, ..., C].")
    .attr("channels", AttrType::kInt, "c: channels [0, c) of frame t come from frame t + 1, [c, 2 c) from t - 1.")
    .attr("reverse", AttrType::kBool, false, "The other way round, which is the gradient.")
    .infer([](InferContext& c) {
      const Shape& x = c.shape(0);
      expect_frames(c, x, "x");
      const int64_t moved = c.attr<int64_t>("channels"), channels = x[x.rank() - 1];
      if (moved < 0 || moved > channels / 2)
        c.attr_error("channels is ", moved, " but x ", x, " has ", channels,
                     " channels; at most half of them can move ", "each way");
      c.out(0, x, c.in(0).dtype);
    });

constexpr int64_t kMostFrames = int64_t{1} << 30;  // of an attribute, so that products of two fit

constexpr const char* kSizeDoc = "Q: frames that are laid side by side.";
constexpr const char* kStrideDoc = "From one window's first frame to the next one's.";
constexpr const char* kPaddingDoc = "Frames of zeros before the first and after the last.";
constexpr const char* kDilationDoc = "From one frame of a window to the next.";

// [N, T', ..., Q * C] of x [N, T, ..., C].
Shape unfolded_shape(const InferContext& c, Shape x, const char* what) {
  expect_frames(c, x, what);
  const int64_t size = c.attr<int64_t>("size"), stride = c.attr<int64_t>("stride");
  const int64_t padding = c.attr<int64_t>("padding"), dilation = c.attr<int64_t>("dilation");
  for (int64_t number : {size, stride, dilation})
    if (number < 1 || number > kMostFrames)
      c.attr_error("size ", size, ", stride ", stride, " and dilation ", dilation, " must lie in [1, ", kMostFrames,
                   "]");
  if (padding < 0 || padding > kMostFrames)
    c.attr_error("padding is ", padding, "; it must lie in [0, ", kMostFrames, "]");
  const int64_t reach = dilation * (size - 1) + 1, frames = x[1] + 2 * padding;
  if (frames < reach) c.shape_error(what, " ", x, " has ", frames, " frames with its padding; a window takes ", reach);
  x[1] = (frames - reach) / stride + 1;
  if (__builtin_mul_overflow(x[x.rank() - 1], size, &x[x.rank() - 1]))
    c.attr_error("size is ", size, ", too many frames of ", what, " side by side");
  return x;
}

PADDOCK_OP(unfold_frames, "x -> y")
    .doc(
        "Lays the frames of sliding windows side by side: a 2-D convolution of y is a 3-D convolution of x.\n"
        "x: [N, T, ..., C]; y: [N, T', ..., Q * C], frame by frame within the last axis.")
    .attr("size", AttrType::kInt, kSizeDoc)
    .attr("stride", AttrType::kInt, int64_t{1}, kStrideDoc)
    .attr("padding", AttrType::kInt, int64_t{0}, kPaddingDoc)
    .attr("dilation", AttrType::kInt, int64_t{1}, kDilationDoc)
    .infer([](InferContext& c) { c.out(0, unfolded_shape(c, c.shape(0), "x"), c.in(0).dtype); });

PADDOCK_OP(fold_frames, "dy, like -> dx")
    .doc("Gradient of unfold_frames: each frame sums what lies at its places.  dy: [N, T', ..., Q * C]; dx: as `like`.")
    .attr("size", AttrType::kInt, kSizeDoc)
    .attr("stride", AttrType::kInt, int64_t{1}, kStrideDoc)
    .attr("padding", AttrType::kInt, int64_t{0}, kPaddingDoc)
    .attr("dilation", AttrType::kInt, int64_t{1}, kDilationDoc)
    .shape_only("like")
    .half()
    .infer([](InferContext& c) {
      c.expect_floating("dy");
      c.expect_shape("dy", unfolded_shape(c, c.shape("like"), "like"));
      c.out(0, c.shape("like"), c.in("dy").dtype);
    });

}  // namespace
}  // namespace paddock
