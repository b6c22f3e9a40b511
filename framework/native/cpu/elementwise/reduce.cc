// Kernels of ops/reduce.cc, and sum_to.
#include "cpu/elementwise/reduce.h"

#include <limits>

#include "cpu/elementwise/broadcast.h"
#include "cpu/elementwise/dispatch.h"
#include "cpu/elementwise/scalar_ops.h"
#include "cpu/vec/vec_math.h"

namespace paddock::cpu {

ReducePlan plan_reduction(const Shape& x, uint32_t mask) {
  ReducePlan plan;
  int64_t step = 1;
  int last = -1;  // 1 when the group under construction is reduced, 0 when kept
  for (int axis = x.rank() - 1; axis >= 0; --axis) {
    if (x[axis] == 1) continue;
    const int is_reduced = mask >> axis & 1;
    auto& group = is_reduced ? plan.reduced : plan.kept;
    if (is_reduced == last) {
      group.extent[group.rank - 1] *= x[axis];
    } else {
      group.extent[group.rank] = x[axis];
      group.stride[group.rank++] = step;
    }
    if (last < 0) plan.columns = !is_reduced;
    last = is_reduced;
    step *= x[axis];
  }
  // The innermost group, the first found, becomes the inner loop.
  auto take_first = [](ReducePlan::Axes& group, int64_t& inner) {
    if (group.rank == 0) return;
    inner = group.extent[0];
    --group.rank;
    std::copy_n(group.extent + 1, group.rank, group.extent);
    std::copy_n(group.stride + 1, group.rank, group.stride);
  };
  if (plan.columns)
    take_first(plan.kept, plan.width);
  else
    take_first(plan.reduced, plan.run);
  for (auto* group : {&plan.kept, &plan.reduced}) {
    std::reverse(group->extent, group->extent + group->rank);
    std::reverse(group->stride, group->stride + group->rank);
  }
  return plan;
}

namespace {

template <class T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
template <class T>
using PartOf = std::conditional_t<std::is_floating_point_v<T>, T, int64_t>;

template <class T>
struct Sum {
  using In = T;
  using Part = PartOf<T>;
  using Acc = Wide<T>;
  static constexpr bool kSameForAll = true;
  Acc identity() const { return 0; }
  Part load(T x, int64_t) const { return static_cast<Part>(x); }
  template <class P>
  P join(P a, P b) const {
    return wrap_add(a, b);
  }
};

template <class T>
struct Product : Sum<T> {
  using typename Sum<T>::Acc;
  Acc identity() const { return 1; }
  template <class P>
  P join(P a, P b) const {
    return multiply(a, b);
  }
};

struct Any {
  using In = uint8_t;
  using Part = uint8_t;
  using Acc = uint8_t;
  static constexpr bool kSameForAll = true;
  uint8_t identity() const { return 0; }
  uint8_t load(uint8_t x, int64_t) const { return x; }
  uint8_t join(uint8_t a, uint8_t b) const { return a | b; }
};

struct All : Any {
  uint8_t identity() const { return 1; }
  uint8_t join(uint8_t a, uint8_t b) const { return a & b; }
};

// sum(e^(x - largest[out]))
template <class T>
struct SumExp : Sum<T> {
  static constexpr bool kSameForAll = false;
  const T* largest;
  explicit SumExp(const T* m) : largest(m) {}
  T load(T x, int64_t out) const { return math::exp(x - largest[out]); }
};

ReducePlan plan_of(const KernelContext& c) {
  const Shape& x = c.in(0).shape();
  return plan_reduction(x, c.axes_mask("axes", x.rank()));
}

template <template <class> class Reduction, Types kTypes>
void accumulate(const KernelContext& c) {
  dispatch_types<kTypes>(c.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Out = std::conditional_t<std::is_floating_point_v<T>, T, int64_t>;
    Out* y = c.out(0).data<Out>();
    reduce(Reduction<T>(), plan_of(c), c.in(0).data<T>(),
           [y](int64_t i, Wide<T> acc) { y[i] = static_cast<Out>(acc); });
  });
}

template <bool kLargest>
void extreme(const KernelContext& c) {
  dispatch_types<kComparable>(c.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* y = c.out(0).data<T>();
    reduce(Extreme<T, kLargest>(), plan_of(c), c.in(0).data<T>(), [y](int64_t i, T acc) { y[i] = acc; });
  });
}

template <class R>
void logical(const KernelContext& c) {
  uint8_t* y = c.out(0).data<uint8_t>();
  reduce(R(), plan_of(c), c.in(0).data<uint8_t>(), [y](int64_t i, uint8_t acc) { y[i] = acc; });
}

PADDOCK_CPU_KERNEL(sum) { accumulate<Sum, kComparable>(c); }
PADDOCK_CPU_KERNEL(prod) { accumulate<Product, kNumbers>(c); }
PADDOCK_CPU_KERNEL(max) { extreme<true>(c); }
PADDOCK_CPU_KERNEL(min) { extreme<false>(c); }
PADDOCK_CPU_KERNEL(any) { logical<Any>(c); }
PADDOCK_CPU_KERNEL(all) { logical<All>(c); }

PADDOCK_CPU_KERNEL(mean) {
  dispatch_float(c.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* y = c.out(0).data<T>();
    auto plan = plan_of(c);
    const double count = static_cast<double>(plan.elements_per_output());
    reduce(Sum<T>(), plan, c.in(0).data<T>(), [=](int64_t i, double acc) { y[i] = static_cast<T>(acc / count); });
  });
}

// sum((x - mean[out])^2)
template <class T>
struct SquaredDistance : Sum<T> {
  static constexpr bool kSameForAll = false;
  const T* mean;
  explicit SquaredDistance(const T* m) : mean(m) {}
  T load(T x, int64_t out) const {
    const T d = x - mean[out];
    return d * d;
  }
};

template <class T>
std::vector<T> means(const ReducePlan& plan, const T* x) {
  std::vector<T> mean(plan.outputs());
  const double count = static_cast<double>(plan.elements_per_output());
  reduce(Sum<T>(), plan, x, [&](int64_t i, double acc) { mean[i] = static_cast<T>(acc / count); });
  return mean;
}

// What a variance over a plan's elements divides by.
double degrees(const KernelContext& c, const ReducePlan& plan) {
  return std::max(0.0, static_cast<double>(plan.elements_per_output()) - c.attr<double>("correction"));
}

template <bool kRoot>
void variance(const KernelContext& c) {
  dispatch_float(c.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = c.in(0).data<T>();
    T* y = c.out(0).data<T>();
    const auto plan = plan_of(c);
    const double count = degrees(c, plan);
    const auto mean = means(plan, x);
    reduce(SquaredDistance<T>(mean.data()), plan, x,
           [=](int64_t i, double acc) { y[i] = static_cast<T>(kRoot ? std::sqrt(acc / count) : acc / count); });
  });
}
PADDOCK_CPU_KERNEL(var) { variance<false>(c); }
PADDOCK_CPU_KERNEL(std) { variance<true>(c); }

PADDOCK_CPU_KERNEL(var_grad) {
  const Tensor& x = c.in("x");
  const Shape& shape = x.shape();
  const uint32_t mask = c.axes_mask("axes", shape.rank());
  Shape kept = shape;  // dy's shape with the reduced axes
  for (int i = 0; i < kept.rank(); ++i)
    if (mask >> i & 1) kept[i] = 1;
  const auto plan = plan_reduction(shape, mask);
  const auto walk = make_plan<1>(shape, {&kept});
  const bool step = walk.stride[0][walk.rank - 1] != 0;
  const double factor = 2 / degrees(c, plan);
  dispatch_float(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *from = x.data<T>(), *dy = c.in("dy").data<T>();
    T* dx = c.out(0).data<T>();
    const auto mean = means(plan, from);
    const T k = static_cast<T>(factor);
    run_plan(walk, [&](const std::array<int64_t, 1>& offset, int64_t begin, int64_t n) {
      const T *center = mean.data() + offset[0], *slope = dy + offset[0];
      if (step)
        for (int64_t i = 0; i < n; ++i) dx[begin + i] = k * slope[i] * (from[begin + i] - center[i]);
      else
        for (int64_t i = 0; i < n; ++i) dx[begin + i] = k * *slope * (from[begin + i] - *center);
    });
  });
}

PADDOCK_CPU_KERNEL(logsumexp) {
  dispatch_float(c.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = c.in(0).data<T>();
    T* y = c.out(0).data<T>();
    auto plan = plan_of(c);
    std::vector<T> largest(c.out(0).numel());
    // An infinite largest element would give inf - inf: with 0 in its place the sum is 0 or infinite, as it must be.
    reduce(Extreme<T, true>(), plan, x, [&](int64_t i, T acc) { largest[i] = std::isfinite(acc) ? acc : T(0); });
    reduce(SumExp<T>(largest.data()), plan, x,
           [&](int64_t i, double acc) { y[i] = static_cast<T>(largest[i] + std::log(acc)); });
  });
}

PADDOCK_CPU_KERNEL(sum_to) {
  const Tensor &x = c.in(0), &y = c.out(0);
  uint32_t mask = 0;
  const int lead = x.shape().rank() - y.shape().rank();
  for (int i = 0; i < x.shape().rank(); ++i)
    if (i < lead || y.shape()[i - lead] != x.shape()[i]) mask |= 1u << i;
  if (x.numel() == y.numel()) {
    if (x.raw() == y.raw()) return;  // in place; an empty x may lie anywhere
    const char* from = x.data<char>();
    char* to = y.data<char>();
    parallel_for(x.bytes(), 4 * kGrain,
                 [=](int64_t begin, int64_t end) { std::copy(from + begin, from + end, to + begin); });
    return;
  }
  dispatch_types<kNumbers>(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = y.data<T>();
    reduce(Sum<T>(), plan_reduction(x.shape(), mask), x.data<T>(),
           [to](int64_t i, Wide<T> acc) { to[i] = static_cast<T>(acc); });
  });
}

}  // namespace
}  // namespace paddock::cpu
