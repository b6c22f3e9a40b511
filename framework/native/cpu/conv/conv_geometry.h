// From a kernel's shapes and attributes to the geometry of its convolution.
#pragma once
#include "cpu/conv/conv.h"
#include "cpu/kernel.h"
#include "op/conv_shape.h"

namespace paddock::cpu {

// The convolution of an image of shape x to one of shape y.
inline ConvGeometry conv_geometry(const KernelContext& c, const Shape& x, const Shape& weight, const Shape& y) {
  const ConvWindow window = conv_window(c, weight);
  ConvGeometry g{x[0], x[1], x[2], x[3], y[3], weight[1], weight[2], y[1], y[2]};
  g.stride_h = window.h.stride;
  g.stride_w = window.w.stride;
  g.pad_top = window.h.before;
  g.pad_left = window.w.before;
  g.dil_h = window.h.dilation;
  g.dil_w = window.w.dilation;
  g.groups = window.groups;
  return g;
}

}  // namespace paddock::cpu
