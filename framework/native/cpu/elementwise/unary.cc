// Kernels of the unary operators of ops/elementwise.cc.
#include <limits>

#include "cpu/elementwise/micro_op.h"
#include "cpu/elementwise/scalar_ops.h"
#include "cpu/vec/vec_math.h"

namespace paddock::cpu {
namespace {

// y[i] = F::call(x[i], p) with the first attribute p, if there is one.
template <class T, class R, class F, bool kAttr>
void unary_run(const void* const* in, void* y, int64_t n, const double* attrs) {
  const T* from = static_cast<const T*>(in[0]);
  R* to = static_cast<R*>(y);
  const T p = kAttr ? static_cast<T>(attrs[0]) : T{};
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<R>(F::template call<T>(from[i], p));
}

#define FORMULA(name, ...)                        \
  struct name##_formula {                         \
    template <class T>                            \
    static auto call(T x, [[maybe_unused]] T p) { \
      return (__VA_ARGS__);                       \
    }                                             \
  };
#define UNARY_KERNEL(name, types, attr_given, ...)                                                                   \
  template <class T>                                                                                                 \
  constexpr MicroRun name##_run = unary_run<T, T, name##_formula, attr_given>;                                       \
  const MicroRegistrar name##_micro =                                                                                \
      micro_ops<types>(#name, false, [](auto tag) { return name##_run<typename decltype(tag)::type>; });             \
  PADDOCK_CPU_KERNEL(name) {                                                                                         \
    dispatch_types<types>(c.in(0).dtype(),                                                                           \
                          [&](auto tag) { run_whole(c, name##_run<typename decltype(tag)::type>, {__VA_ARGS__}); }); \
  }
#define UNARY(name, types, facts, doc, ...) FORMULA(name, static_cast<T>(__VA_ARGS__)) UNARY_KERNEL(name, types, false)
#define UNARY_ATTR(name, attr_name, fallback, attr_doc, facts, doc, ...) \
  FORMULA(name, static_cast<T>(__VA_ARGS__)) UNARY_KERNEL(name, kFloats, true, c.attr<double>(#attr_name))
#define TEST(name, types, doc, ...)                                                                                    \
  FORMULA(name, __VA_ARGS__)                                                                                           \
  template <class T>                                                                                                   \
  constexpr MicroRun name##_run = unary_run<T, bool, name##_formula, false>;                                           \
  const MicroRegistrar name##_micro =                                                                                  \
      micro_ops<types>(#name, true, [](auto tag) { return name##_run<typename decltype(tag)::type>; });                \
  PADDOCK_CPU_KERNEL(name) {                                                                                           \
    dispatch_types<types>(c.in(0).dtype(), [&](auto tag) { run_whole(c, name##_run<typename decltype(tag)::type>); }); \
  }
#define BINARY(...)
#define COMPARE(...)
#define GRAD(...)
#include "ops/elementwise_table.inc"

FORMULA(gelu_exact, math::gelu(x))
FORMULA(gelu_approximate, math::gelu_tanh(x))

template <class T>
void gelu_run(const void* const* in, void* y, int64_t n, const double* attrs) {
  (attrs[0] != 0 ? unary_run<T, T, gelu_approximate_formula, false>
                 : unary_run<T, T, gelu_exact_formula, false>)(in, y, n, attrs);
}
const MicroRegistrar gelu_micro =
    micro_ops<kFloats>("gelu", false, [](auto tag) { return &gelu_run<typename decltype(tag)::type>; });

PADDOCK_CPU_KERNEL(gelu) {
  const double approximate = c.attr<bool>("approximate");
  dispatch_float(c.in(0).dtype(),
                 [&](auto tag) { run_whole(c, gelu_run<typename decltype(tag)::type>, {approximate}); });
}

template <class T>
void clip_run(const void* const* in, void* y, int64_t n, const double* limits) {
  const T low = math::saturate<T>(std::is_integral_v<T> ? std::floor(limits[0]) : limits[0]);
  const T high = math::saturate<T>(limits[1]);
  const T* from = static_cast<const T*>(in[0]);
  T* to = static_cast<T*>(y);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = from[i] < low ? low : from[i] > high ? high : from[i];
}
const MicroRegistrar clip_micro =
    micro_ops<kNumbers>("clip", false, [](auto tag) { return &clip_run<typename decltype(tag)::type>; });

PADDOCK_CPU_KERNEL(clip) {
  dispatch_types<kNumbers>(c.in(0).dtype(), [&](auto tag) {
    run_whole(c, clip_run<typename decltype(tag)::type>, {c.attr<double>("min"), c.attr<double>("max")});
  });
}

}  // namespace
}  // namespace paddock::cpu
