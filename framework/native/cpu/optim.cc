// Optimizer steps. Outputs may share memory with inputs element by element, hence the ivdep marks.
#include <cmath>

#include "cpu/kernel.h"

namespace paddock::cpu {
namespace {

double scalar(const Tensor& t) { return t.dtype() == DType::kF64 ? *t.data<double>() : *t.data<float>(); }

// For every element i: body(i), in parallel. A body reads and writes element i of its buffers only.
template <class F>
void for_each(int64_t n, F&& body) {
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
#pragma GCC ivdep
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

PADDOCK_CPU_KERNEL(sgd_step) {
  dispatch_float(c.in("param").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *p = c.in("param").data<T>(), *g = c.in("grad").data<T>();
    T* out = c.out("param_out").data<T>();
    const T lr = static_cast<T>(scalar(c.in("lr"))), decay = static_cast<T>(c.attr<double>("weight_decay"));
    for_each(c.in("param").numel(), [=](int64_t i) { out[i] = p[i] - lr * (g[i] + decay * p[i]); });
  });
}

PADDOCK_CPU_KERNEL(momentum_step) {
  dispatch_float(c.in("param").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *p = c.in("param").data<T>(), *g = c.in("grad").data<T>(), *v = c.in("velocity").data<T>();
    T *param = c.out("param_out").data<T>(), *velocity = c.out("velocity_out").data<T>();
    const T lr = static_cast<T>(scalar(c.in("lr"))), decay = static_cast<T>(c.attr<double>("weight_decay"));
    const T momentum = static_cast<T>(c.attr<double>("momentum"));
    const int64_t n = c.in("param").numel();
    if (c.attr<bool>("nesterov")) {
      for_each(n, [=](int64_t i) {
        const T value = p[i], slope = g[i] + decay * value, next = momentum * v[i] + slope;
        param[i] = value - lr * (slope + momentum * next);
        velocity[i] = next;
      });
    } else {
      for_each(n, [=](int64_t i) {
        const T value = p[i], next = momentum * v[i] + (g[i] + decay * value);
        param[i] = value - lr * next;
        velocity[i] = next;
      });
    }
  });
}

PADDOCK_CPU_KERNEL(adam_step) {
  const int64_t step = *c.in("step").data<int64_t>();
  if (step < 1) fail(ErrorKind::kAttribute, c.op().name, ": step is ", step, " but counts from 1");
  const double lr = scalar(c.in("lr")), decay = c.attr<double>("weight_decay");
  const double beta1 = c.attr<double>("beta1"), beta2 = c.attr<double>("beta2");
  const bool decoupled = c.attr<bool>("decoupled");
  const double t = static_cast<double>(step);
  dispatch_float(c.in("param").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *p = c.in("param").data<T>(), *g = c.in("grad").data<T>();
    const T *m = c.in("m").data<T>(), *v = c.in("v").data<T>();
    T *param = c.out("param_out").data<T>(), *m_out = c.out("m_out").data<T>(), *v_out = c.out("v_out").data<T>();
    const T b1 = static_cast<T>(beta1), b2 = static_cast<T>(beta2);
    const T new1 = static_cast<T>(1 - beta1), new2 = static_cast<T>(1 - beta2);
    const T rate = static_cast<T>(lr / (1 - std::pow(beta1, t)));
    const T unbias = static_cast<T>(1 / std::sqrt(1 - std::pow(beta2, t)));
    const T eps = static_cast<T>(c.attr<double>("eps"));
    const T l2 = static_cast<T>(decoupled ? 0.0 : decay), keep = static_cast<T>(decoupled ? 1 - lr * decay : 1.0);
    for_each(c.in("param").numel(), [=](int64_t i) {
      const T value = p[i], slope = g[i] + l2 * value;
      const T mean = b1 * m[i] + new1 * slope, square = b2 * v[i] + new2 * slope * slope;
      param[i] = keep * value - rate * mean / (std::sqrt(square) * unbias + eps);
      m_out[i] = mean;
      v_out[i] = square;
    });
  });
}

PADDOCK_CPU_KERNEL(ema_step) {
  dispatch_float(c.in("average").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *average = c.in("average").data<T>(), *value = c.in("value").data<T>();
    T* out = c.out(0).data<T>();
    const T share = static_cast<T>(1 - scalar(c.in("decay")));
    for_each(c.in("average").numel(), [=](int64_t i) { out[i] = average[i] + share * (value[i] - average[i]); });
  });
}

}  // namespace
}  // namespace paddock::cpu
