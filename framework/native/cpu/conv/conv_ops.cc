// Kernels of ops/conv.cc: from shapes and attributes to a geometry; cpu/conv/conv.h computes.
#include "cpu/conv/conv.h"
#include "cpu/conv/conv_geometry.h"
#include "cpu/kernel.h"
#include "op/choice.h"

namespace paddock::cpu {
namespace {

ConvAlgorithm algorithm(const KernelContext& c) { return static_cast<ConvAlgorithm>(algorithm_choice(c)); }

// Bias, residual and activation at the end of an operator.
template <class T>
Epilogue<T> epilogue_of(const KernelContext& c) {
  Epilogue<T> e;
  e.bias = c.maybe<T>("bias");
  e.residual = c.maybe<T>("residual");
  e.activation = static_cast<Activation>(activation_choice(c));
  e.slope = c.attr<T>("slope");
  e.residual_last = e.residual && c.attr<bool>("residual_last");
  return e;
}

PADDOCK_CPU_KERNEL(conv2d) {
  const Tensor &x = c.in("x"), &weight = c.in("weight"), &y = c.out(0);
  if (y.numel() == 0) return;
  const ConvGeometry g = conv_geometry(c, x.shape(), weight.shape(), y.shape());
  dispatch_float(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    conv2d_forward<T>(g, x.data<T>(), weight.data<T>(), y.data<T>(), epilogue_of<T>(c), algorithm(c),
                      c.prepared("weight"));
  });
}

PADDOCK_CPU_KERNEL(separable_conv2d) {
  const Tensor &x = c.in("x"), &depth_weight = c.in("depth_weight"), &y = c.out(0);
  if (y.numel() == 0) return;
  const Shape between{y.shape()[0], y.shape()[1], y.shape()[2], x.shape()[3]};
  const ConvGeometry g = conv_geometry(c, x.shape(), depth_weight.shape(), between);
  dispatch_float(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    SeparableConv<T> s{g, x.data<T>(), depth_weight.data<T>(), c.in("weight").data<T>(), y.shape()[3], y.data<T>()};
    s.depth_epilogue.bias = c.maybe<T>("depth_bias");
    s.depth_epilogue.activation = static_cast<Activation>(depth_activation_choice(c));
    s.depth_epilogue.slope = c.attr<T>("depth_slope");
    s.epilogue = epilogue_of<T>(c);
    s.depth_prepared = c.prepared("depth_weight");
    s.prepared = c.prepared("weight");
    separable_forward(s);
  });
}

PADDOCK_CPU_KERNEL(conv2d_grad_input) {
  const Tensor &dy = c.in("dy"), &weight = c.in("weight"), &dx = c.out(0);
  if (dx.numel() == 0) return;
  const ConvGeometry g = conv_geometry(c, dx.shape(), weight.shape(), dy.shape());
  dispatch_float(dx.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    conv2d_grad_input<T>(g, dy.data<T>(), weight.data<T>(), dx.data<T>(), algorithm(c), c.prepared("weight"));
  });
}

PADDOCK_CPU_KERNEL(conv2d_grad_weight) {
  const Tensor &x = c.in("x"), &dy = c.in("dy"), &dweight = c.out(0);
  if (dweight.numel() == 0) return;
  const ConvGeometry g = conv_geometry(c, x.shape(), dweight.shape(), dy.shape());
  dispatch_float(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    conv2d_grad_weight<T>(g, x.data<T>(), dy.data<T>(), dweight.data<T>(), algorithm(c));
  });
}

PADDOCK_CPU_KERNEL(conv2d_transpose) {
  const Tensor &x = c.in("x"), &weight = c.in("weight"), &y = c.out(0);
  if (y.numel() == 0) return;
  const ConvGeometry g = conv_geometry(c, y.shape(), weight.shape(), x.shape());
  dispatch_float(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    conv2d_grad_input<T>(g, x.data<T>(), weight.data<T>(), y.data<T>(), algorithm(c), c.prepared("weight"));
    const T* bias = c.maybe<T>("bias");
    if (!bias) return;
    T* out = y.data<T>();
    const int64_t channels = g.C;
    parallel_for(y.numel() / channels, row_grain(channels), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        for (int64_t j = 0; j < channels; ++j) out[r * channels + j] += bias[j];
    });
  });
}

}  // namespace
}  // namespace paddock::cpu
