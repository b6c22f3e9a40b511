// What shape rules of convolutions share: the attributes of their window, and how shapes must fit.
// Letters: x [N, H, W, C], weight [K, R, S, C/groups], y [N, P, Q, K].
#pragma once
#include "op/context.h"
#include "op/conv_shape.h"

namespace paddock {

inline OpDef& window_attrs(OpDef& op) {
  return op
      .attr("stride", AttrType::kInts, Ints{1}, "Pixels from one window to the next; one number, or (height, width).")
      .attr("padding", AttrType::kInts, Ints{0},
            "Rows and columns of zeros around the image: one number, (height, width), or (top, bottom, left, right).")
      .attr("dilation", AttrType::kInts, Ints{1},
            "Pixels from one tap of the kernel to the next; one number, or (height, width).")
      .attr("groups", AttrType::kInt, int64_t{1},
            "Parts of the channels that are convolved apart; C of them is a depthwise convolution.");
}

// pixels: [N, P, Q, K] of the smaller image; weight: [K, R, S, C/groups].
inline int64_t convolution_flops(const Shape& pixels, const Shape& weight) {
  return 2 * pixels.numel() * weight.count(1, weight.rank());
}

// Checks that `weight` fits `channels` input channels, given by `name` of shape `x`.
inline void expect_channels(const InferContext& c, const char* name, const Shape& x, const Shape& weight,
                            int64_t groups) {
  int64_t expected = 0;
  const bool overflow = __builtin_mul_overflow(weight[3], groups, &expected);
  if (overflow || x[3] != expected) {
    const std::string parts = groups == 1 ? "" : cat(groups, " groups of ", weight[3]);
    const std::string sum = overflow ? parts : groups == 1 ? cat(expected) : cat(expected, " (", parts, ")");
    c.shape_error(name, " has ", x[3], " channels (axis -1 of ", x, ") but weight ", weight, " expects ", sum);
  }
  if (weight[0] % groups != 0)
    c.shape_error("weight ", weight, " has ", weight[0], " output channels (axis 0), which ", groups,
                  " groups do not divide");
}

inline int64_t out_extent(const InferContext& c, const char* name, const Shape& x, int axis, const ConvAxis& a) {
  if (x[axis] + a.before + a.after < a.reach())
    c.shape_error(name, " of shape ", x, " has ", axis == 1 ? "height " : "width ", x[axis], ", which with padding (",
                  a.before, ", ", a.after, ") is less than the kernel's reach ", a.reach(), " (", a.taps,
                  " taps, dilation ", a.dilation, ")");
  return a.out(x[axis]);
}

// y's shape for an image of shape x, after all checks.
inline Shape conv_shape(const InferContext& c, const char* name, const Shape& x, const Shape& weight) {
  const ConvWindow window = conv_window(c, weight);
  expect_channels(c, name, x, weight, window.groups);
  return {x[0], out_extent(c, name, x, 1, window.h), out_extent(c, name, x, 2, window.w), weight[0]};
}

}  // namespace paddock
