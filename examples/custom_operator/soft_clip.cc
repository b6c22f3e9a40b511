// Two operators from outside of the tree: soft_clip, and the one that computes its gradient. See soft_clip.py.
#include <cmath>

#include "paddock/operator.h"

using namespace paddock;

// y = limit * tanh(x / limit); float32 or float64, work split by size so that any number of threads gives the same
// bits.
static void soft_clip_kernel(const KernelContext& c) {
  const double limit = c.attr<double>("limit");
  dispatch_float(c.in("x").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = c.in("x").data<T>();
    T* y = c.out("y").data<T>();
    const T bound = static_cast<T>(limit);
    parallel_for(c.in("x").numel(), 16384, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = bound * std::tanh(x[i] / bound);
    });
  });
}

PADDOCK_OPERATOR(soft_clip, "x -> y") {
  op.doc("limit * tanh(x / limit): x where it is small, and never beyond `limit`. x, y: [...], float32 or float64.")
      .attr("limit", AttrType::kFloat, 1.0, "Largest magnitude of y, above 0.")
      .infer([](InferContext& c) {
        c.expect_floating("x");
        if (!(c.attr<double>("limit") > 0)) c.attr_error("limit is ", c.attr<double>("limit"), " but must be above 0");
        c.out("y", c.shape("x"), c.in("x").dtype);
      })
      .inplace("x", "y")
      .cpu(soft_clip_kernel)
      .gradient("soft_clip_grad");
}

// dx = dy * (1 - (y / limit)^2)
static void soft_clip_grad_kernel(const KernelContext& c) {
  const double limit = c.attr<double>("limit");
  dispatch_float(c.in("dy").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *dy = c.in("dy").data<T>(), *y = c.in("y").data<T>();
    T* dx = c.out("dx").data<T>();
    const T bound = static_cast<T>(limit);
    parallel_for(c.in("dy").numel(), 16384, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) dx[i] = dy[i] * (1 - (y[i] / bound) * (y[i] / bound));
    });
  });
}

// Its arguments say what it reads of soft_clip (dy, y, limit) and what it gives (dx).
PADDOCK_OPERATOR(soft_clip_grad, "dy, y -> dx") {
  op.doc("Gradient of soft_clip: dx = dy * (1 - (y / limit)^2).")
      .attr("limit", AttrType::kFloat, 1.0, "As in soft_clip.")
      .infer([](InferContext& c) {
        c.expect_floating("dy");
        c.expect_same_dtype();
        c.expect_shape("y", c.shape("dy"));
        c.out("dx", c.shape("dy"), c.in("dy").dtype);
      })
      .inplace("dy", "dx")
      .cpu(soft_clip_grad_kernel);
}
