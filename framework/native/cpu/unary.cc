// Kernels of the unary operators of ops/elementwise.cc.
#include <limits>

#include "cpu/broadcast.h"
#include "cpu/dispatch.h"
#include "cpu/scalar_ops.h"
#include "cpu/vec_math.h"

namespace paddock::cpu {
namespace {

#define UNARY(name, types, doc, ...)                                        \
  PADDOCK_CPU_KERNEL(name) {                                                \
    dispatch_types<types>(c.in(0).dtype(), [&](auto tag) {                  \
      using T = typename decltype(tag)::type;                               \
      map<T, T>(c.in(0), c.out(0), [](T x) -> T { return (__VA_ARGS__); }); \
    });                                                                     \
  }
#define UNARY_ATTR(name, attr_name, fallback, attr_doc, doc, ...)            \
  PADDOCK_CPU_KERNEL(name) {                                                 \
    dispatch_float(c.in(0).dtype(), [&](auto tag) {                          \
      using T = typename decltype(tag)::type;                                \
      const T p = c.attr<T>(#attr_name);                                     \
      map<T, T>(c.in(0), c.out(0), [p](T x) -> T { return (__VA_ARGS__); }); \
    });                                                                      \
  }
#define TEST(name, types, doc, ...)                                               \
  PADDOCK_CPU_KERNEL(name) {                                                      \
    dispatch_types<types>(c.in(0).dtype(), [&](auto tag) {                        \
      using T = typename decltype(tag)::type;                                     \
      map<T, bool>(c.in(0), c.out(0), [](T x) -> bool { return (__VA_ARGS__); }); \
    });                                                                           \
  }
#define BINARY(...)
#define COMPARE(...)
#define GRAD(...)
#include "ops/elementwise_table.inc"

PADDOCK_CPU_KERNEL(gelu) {
  const bool approximate = c.attr<bool>("approximate");
  dispatch_float(c.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (approximate)
      map<T, T>(c.in(0), c.out(0), [](T x) { return math::gelu_tanh(x); });
    else
      map<T, T>(c.in(0), c.out(0), [](T x) { return x * math::normal_cdf(x); });
  });
}

PADDOCK_CPU_KERNEL(clip) {
  dispatch_types<kNumbers>(c.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const double min = c.attr<double>("min");
    const T low = math::saturate<T>(std::is_integral_v<T> ? std::floor(min) : min);
    const T high = math::saturate<T>(c.attr<double>("max"));
    map<T, T>(c.in(0), c.out(0), [=](T x) { return x < low ? low : x > high ? high : x; });
  });
}

}  // namespace
}  // namespace paddock::cpu
