// Kernels of the binary and ternary operators of ops/elementwise.cc.
#include <limits>

#include "cpu/broadcast.h"
#include "cpu/dispatch.h"
#include "cpu/scalar_ops.h"
#include "cpu/vec_math.h"

namespace paddock::cpu {
namespace {

#define BINARY(name, types, doc, ...)                               \
  struct name##_formula {                                           \
    template <class T>                                              \
    static T call(T a, T b) {                                       \
      return static_cast<T>(__VA_ARGS__);                           \
    }                                                               \
  };                                                                \
  PADDOCK_CPU_KERNEL(name) {                                        \
    dispatch_types<types>(c.in(0).dtype(), [&](auto tag) {          \
      using T = typename decltype(tag)::type;                       \
      map_binary<T, T, name##_formula>(c.in(0), c.in(1), c.out(0)); \
    });                                                             \
  }
#define COMPARE(name, types, doc, ...)                                 \
  struct name##_formula {                                              \
    template <class T>                                                 \
    static bool call(T a, T b) {                                       \
      return (__VA_ARGS__);                                            \
    }                                                                  \
  };                                                                   \
  PADDOCK_CPU_KERNEL(name) {                                           \
    dispatch_types<types>(c.in(0).dtype(), [&](auto tag) {             \
      using T = typename decltype(tag)::type;                          \
      map_binary<T, bool, name##_formula>(c.in(0), c.in(1), c.out(0)); \
    });                                                                \
  }
#define GRAD(name, second, doc, ...)          \
  PADDOCK_CPU_KERNEL(name) {                  \
    map_grad(c, [](auto d, auto v) {          \
      using T [[maybe_unused]] = decltype(d); \
      return (__VA_ARGS__);                   \
    });                                       \
  }
#define UNARY(...)
#define UNARY_ATTR(...)
#define TEST(...)

// dx = f(dy, second input), all of one shape.
template <class F>
void map_grad(const KernelContext& c, F f) {
  dispatch_float(c.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *d = c.in(0).data<T>(), *v = c.in(1).data<T>();
    T* dx = c.out(0).data<T>();
    parallel_for(c.out(0).numel(), kGrain, [=](int64_t begin, int64_t end) {
      map_run(d + begin, v + begin, dx + begin, end - begin, true, true, f);
    });
  });
}

#include "ops/elementwise_table.inc"

PADDOCK_CPU_KERNEL(leaky_relu_grad) {
  map_grad(c, [slope = c.attr<double>("slope")](auto d, auto v) {
    using T = decltype(d);
    return v > T(0) ? d : static_cast<T>(slope) * d;
  });
}

PADDOCK_CPU_KERNEL(gelu_grad) {
  if (c.attr<bool>("approximate"))
    map_grad(c, [](auto d, auto v) { return d * math::gelu_tanh_slope(v); });
  else
    map_grad(c, [](auto d, auto v) { return d * (math::normal_cdf(v) + v * math::normal_pdf(v)); });
}

template <bool kStepA, bool kStepB, bool kStepC, class A, class T, class F>
void ternary_run(const A* a, const T* b, const T* c, T* y, int64_t n, F f) {
  const A fixed_a = *a;
  const T fixed_b = *b, fixed_c = *c;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = f(kStepA ? a[i] : fixed_a, kStepB ? b[i] : fixed_b, kStepC ? c[i] : fixed_c);
}

// y = f(a, b, c) with broadcasting; y may be b or c, or a if it has y's type.
template <class A, class T, class F>
void map_ternary(const KernelContext& k, F f) {
  const Tensor &a = k.in(0), &b = k.in(1), &c = k.in(2), &y = k.out(0);
  auto plan = make_plan<3>(y.shape(), {&a.shape(), &b.shape(), &c.shape()});
  using Run = void (*)(const A*, const T*, const T*, T*, int64_t, F);
  constexpr Run runs[8] = {ternary_run<0, 0, 0, A, T, F>, ternary_run<0, 0, 1, A, T, F>, ternary_run<0, 1, 0, A, T, F>,
                           ternary_run<0, 1, 1, A, T, F>, ternary_run<1, 0, 0, A, T, F>, ternary_run<1, 0, 1, A, T, F>,
                           ternary_run<1, 1, 0, A, T, F>, ternary_run<1, 1, 1, A, T, F>};
  const int last = plan.rank - 1;
  const int steps = (plan.stride[0][last] != 0) * 4 + (plan.stride[1][last] != 0) * 2 + (plan.stride[2][last] != 0);
  const A* pa = a.data<A>();
  const T *pb = b.data<T>(), *pc = c.data<T>();
  T* py = y.data<T>();
  run_plan(plan, [&](const std::array<int64_t, 3>& offset, int64_t to, int64_t n) {
    runs[steps](pa + offset[0], pb + offset[1], pc + offset[2], py + to, n, f);
  });
}

PADDOCK_CPU_KERNEL(where) {
  dispatch_bits(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_ternary<uint8_t, T>(c, [](uint8_t cond, T a, T b) { return cond ? a : b; });
  });
}

PADDOCK_CPU_KERNEL(lerp) {
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_ternary<T, T>(c, [](T a, T b, T weight) { return a + weight * (b - a); });
  });
}

}  // namespace
}  // namespace paddock::cpu
