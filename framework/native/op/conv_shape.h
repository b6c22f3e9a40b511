// How a convolution's attributes and shapes fit together, for the shape rules and for the kernels.
// Letters: x [N, H, W, C], weight [K, R, S, C/groups], y [N, P, Q, K].
#pragma once
#include "op/choice.h"
#include "op/padding.h"

namespace paddock {

// What separable_conv2d applies between its convolutions; the order is that of cpu::Activation.
template <class Context>
int depth_activation_choice(const Context& c) {
  const int chosen = choice(c, "depth_activation");
  if (chosen == 3 && !(c.template attr<double>("depth_slope") >= 0))
    fail(ErrorKind::kAttribute, c.op().name, ": depth_slope is ", c.template attr<double>("depth_slope"),
         " but must be at least 0");
  return chosen;
}

// One spatial axis: window o reads from o * stride - before in steps of dilation, `taps` times.
struct ConvAxis {
  int64_t taps, stride, dilation, before, after;
  int64_t reach() const { return (taps - 1) * dilation + 1; }
  int64_t out(int64_t in) const { return (in + before + after - reach()) / stride + 1; }
};

struct ConvWindow {
  ConvAxis h, w;
  int64_t groups;
};

// Larger strides, dilations and paddings are a damaged file's: sums and products of them must not overflow.
inline constexpr int64_t kMostPixels = int64_t{1} << 20;

// The order is that of cpu::ConvAlgorithm.
inline constexpr std::initializer_list<const char*> kConvAlgorithms = {"auto", "direct", "winograd"};

template <class Context>
int algorithm_choice(const Context& c) {
  return choice(c, "algorithm");
}

// The attributes stride, padding, dilation and groups with the weight's extents; each checked to make sense alone.
template <class Context>
ConvWindow conv_window(const Context& c, const Shape& weight) {
  const auto stride = c.pair("stride"), dilation = c.pair("dilation");
  const auto pad = window_padding(c.op(), c.template attr<Ints>("padding"));
  const auto groups = c.template attr<int64_t>("groups");
  auto bad = [&](const auto&... what) { fail(ErrorKind::kAttribute, c.op().name, ": ", what...); };
  for (int i : {0, 1}) {
    if (stride[i] < 1) bad("stride is ", stride[i], " but must be at least 1");
    if (dilation[i] < 1) bad("dilation is ", dilation[i], " but must be at least 1");
    if (std::max(stride[i], dilation[i]) > kMostPixels)
      bad("stride ", stride[i], " and dilation ", dilation[i], " must be at most ", kMostPixels);
  }
  for (int64_t p : pad) {
    if (p < 0) bad("padding holds ", p, " but must be at least 0; use slice to cut an image");
    if (p > kMostPixels) bad("padding holds ", p, " but must be at most ", kMostPixels);
  }
  if (groups < 1) bad("groups is ", groups, " but must be at least 1");
  if (weight[1] < 1 || weight[2] < 1)
    fail(ErrorKind::kShape, c.op().name, ": weight of shape ", weight, " has no taps (axes 1 and 2)");
  return {
      {weight[1], stride[0], dilation[0], pad[0], pad[1]}, {weight[2], stride[1], dilation[1], pad[2], pad[3]}, groups};
}

}  // namespace paddock
