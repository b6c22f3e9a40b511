// Kernels of the binary and ternary operators of ops/elementwise.cc.
#include <limits>

#include "cpu/elementwise/broadcast.h"
#include "cpu/elementwise/micro_op.h"
#include "cpu/elementwise/scalar_ops.h"
#include "cpu/vec/vec_math.h"

namespace paddock::cpu {
namespace {

// The loop of a binary operator, where either operand may repeat; and where both are whole.
template <class T, class R, class F>
void binary_run(const void* a, const void* b, void* y, int64_t n, bool step_a, bool step_b) {
  map_run(static_cast<const T*>(a), static_cast<const T*>(b), static_cast<R*>(y), n, step_a, step_b,
          [](T u, T v) { return static_cast<R>(F::template call<T>(u, v)); });
}
template <class T, class R, class F>
void whole_run(const void* const* in, void* y, int64_t n, const double*) {
  binary_run<T, R, F>(in[0], in[1], y, n, true, true);
}

#define BINARY_KERNEL(name, types, to_bool, R, ...)                                                         \
  struct name##_formula {                                                                                   \
    template <class T>                                                                                      \
    static R call(T a, T b) {                                                                               \
      return static_cast<R>(__VA_ARGS__);                                                                   \
    }                                                                                                       \
  };                                                                                                        \
  const MicroRegistrar name##_micro = micro_ops<types>(#name, to_bool, [](auto tag) {                       \
    using T = typename decltype(tag)::type;                                                                 \
    return &whole_run<T, R, name##_formula>;                                                                \
  });                                                                                                       \
  PADDOCK_CPU_KERNEL(name) {                                                                                \
    dispatch_types<types>(c.in(0).dtype(), [&](auto tag) {                                                  \
      using T = typename decltype(tag)::type;                                                               \
      broadcast_binary(c.in(0), c.in(1), c.out(0), sizeof(T), sizeof(R), binary_run<T, R, name##_formula>); \
    });                                                                                                     \
  }
#define BINARY(name, types, facts, doc, ...) BINARY_KERNEL(name, types, false, T, __VA_ARGS__)
#define COMPARE(name, types, doc, ...) BINARY_KERNEL(name, types, true, bool, __VA_ARGS__)
#define GRAD(name, function, second, doc, ...) GRAD_KERNEL(name, false, , __VA_ARGS__)
#define GRAD_KERNEL(name, attr_given, attr, ...)                                                           \
  struct name##_formula {                                                                                  \
    template <class T>                                                                                     \
    static T call(T d, T v, [[maybe_unused]] T p) {                                                        \
      return (__VA_ARGS__);                                                                                \
    }                                                                                                      \
  };                                                                                                       \
  template <class T>                                                                                       \
  constexpr MicroRun name##_run = grad_run<T, name##_formula, attr_given>;                                 \
  const MicroRegistrar name##_micro =                                                                      \
      micro_ops<kFloats>(#name, false, [](auto tag) { return name##_run<typename decltype(tag)::type>; }); \
  PADDOCK_CPU_KERNEL(name) {                                                                               \
    dispatch_float(c.in(0).dtype(),                                                                        \
                   [&](auto tag) { run_whole(c, name##_run<typename decltype(tag)::type>, {attr}); });     \
  }
#define UNARY(...)
#define UNARY_ATTR(...)
#define TEST(...)

// dx = F::call(dy, second input, p), all of one shape, with the first attribute p.
template <class T, class F, bool kAttr>
void grad_run(const void* const* in, void* dx, int64_t n, const double* attrs) {
  const T p = kAttr ? static_cast<T>(attrs[0]) : T{};
  map_run(static_cast<const T*>(in[0]), static_cast<const T*>(in[1]), static_cast<T*>(dx), n, true, true,
          [p](T d, T v) { return F::template call<T>(d, v, p); });
}

#include "ops/elementwise_table.inc"

BINARY_KERNEL(prelu, kFloats, false, T, a > T(0) ? a : a * b)

GRAD_KERNEL(leaky_relu_grad, true, c.attr<double>("slope"), v > T(0) ? d : p * d)

struct gelu_approximate_slope {
  template <class T>
  static T call(T d, T v, T) {
    return d * math::gelu_tanh_slope(v);
  }
};
struct gelu_exact_slope {
  template <class T>
  static T call(T d, T v, T) {
    return d * math::gelu_slope(v);
  }
};

template <class T>
void gelu_grad_run(const void* const* in, void* dx, int64_t n, const double* attrs) {
  (attrs[0] != 0 ? grad_run<T, gelu_approximate_slope, false> : grad_run<T, gelu_exact_slope, false>)(in, dx, n, attrs);
}
const MicroRegistrar gelu_grad_micro =
    micro_ops<kFloats>("gelu_grad", false, [](auto tag) { return &gelu_grad_run<typename decltype(tag)::type>; });

PADDOCK_CPU_KERNEL(gelu_grad) {
  const double approximate = c.attr<bool>("approximate");
  dispatch_float(c.in(0).dtype(),
                 [&](auto tag) { run_whole(c, gelu_grad_run<typename decltype(tag)::type>, {approximate}); });
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

struct Choose {
  template <class T>
  T operator()(uint8_t cond, T a, T b) const {
    return cond ? a : b;
  }
};
struct Interpolate {
  template <class T>
  T operator()(T a, T b, T weight) const {
    return a + weight * (b - a);
  }
};

template <class A, class T, class F>
void ternary_whole(const void* const* in, void* y, int64_t n, const double*) {
  if (n > 0)
    ternary_run<1, 1, 1>(static_cast<const A*>(in[0]), static_cast<const T*>(in[1]), static_cast<const T*>(in[2]),
                         static_cast<T*>(y), n, F{});
}
template <class T>
constexpr MicroRun choose_run = ternary_whole<uint8_t, T, Choose>;

const MicroRegistrar where_micro{
    {"where", DType::kF32, DType::kF32, choose_run<uint32_t>},
    {"where", DType::kF64, DType::kF64, choose_run<uint64_t>},
    {"where", DType::kI32, DType::kI32, choose_run<uint32_t>},
    {"where", DType::kI64, DType::kI64, choose_run<uint64_t>},
    {"where", DType::kF16, DType::kF16, choose_run<uint16_t>},
    {"where", DType::kBF16, DType::kBF16, choose_run<uint16_t>},
    {"where", DType::kI8, DType::kI8, choose_run<uint8_t>},
    {"where", DType::kU8, DType::kU8, choose_run<uint8_t>},
    {"where", DType::kBool, DType::kBool, choose_run<uint8_t>},
};
const MicroRegistrar lerp_micro = micro_ops<kFloats>("lerp", false, [](auto tag) {
  using T = typename decltype(tag)::type;
  return &ternary_whole<T, T, Interpolate>;
});

PADDOCK_CPU_KERNEL(where) {
  dispatch_bits(c.out(0).dtype(), [&](auto tag) { map_ternary<uint8_t, typename decltype(tag)::type>(c, Choose{}); });
}

PADDOCK_CPU_KERNEL(lerp) {
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_ternary<T, T>(c, Interpolate{});
  });
}

}  // namespace
}  // namespace paddock::cpu
