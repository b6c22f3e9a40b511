// Kernels of ops/reduce.cc that look at one axis in order (argmax, argmin, cumsum), and unreduce.
#include "cpu/elementwise/broadcast.h"
#include "cpu/elementwise/dispatch.h"
#include "cpu/elementwise/reduce.h"
#include "cpu/elementwise/scalar_ops.h"

namespace paddock::cpu {
namespace {

// x as [outer, n, inner] around an axis.
struct Around {
  int64_t outer, n, inner;
  Around(const Shape& x, int axis) : outer(x.count(0, axis)), n(x[axis]), inner(x.count(axis + 1, x.rank())) {}
};

constexpr int64_t kColumns = 256;  // inner positions that one task takes

// Calls body(first element, inner positions) for tasks of at most kColumns inner positions.
template <class Body>
void for_columns(const Around& at, Body body) {
  const int64_t tiles = (at.inner + kColumns - 1) / kColumns;
  parallel_for(at.outer * tiles, row_grain(at.n * std::min(at.inner, kColumns)), [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      int64_t o = task / tiles, first = task % tiles * kColumns;
      body(o, first, std::min(kColumns, at.inner - first));
    }
  });
}

// Whether b comes before a in the search; a NaN comes before all, and the earlier of equals stays.
template <bool kLargest, class T>
bool is_better(T a, T b) {
  return (kLargest ? b > a : b < a) | ((b != b) & (a == a));
}

// The index of the extreme element among n neighbours: its value first, then where it stands.
template <bool kLargest, class T>
int64_t find_in_run(const T* x, int64_t n) {
  constexpr int64_t kStretch = 64;
  const T extreme = reduce_run(Extreme<T, kLargest>(), x, n, 0);
  auto is_it = [extreme](T v) { return (v == extreme) | ((v != v) & (extreme != extreme)); };
  int64_t i = 0;
  for (; i + kStretch <= n; i += kStretch) {
    bool found = false;
    for (int64_t j = i; j < i + kStretch; ++j) found |= is_it(x[j]);
    if (found) break;
  }
  while (!is_it(x[i])) ++i;
  return i;
}

template <bool kLargest, class T>
void find_in_columns(const T* row, const Around& at, int64_t width, int64_t* index) {
  T best[kColumns];
  std::copy_n(row, width, best);
  std::fill_n(index, width, 0);
  for (int64_t i = 1; i < at.n; ++i) {
    row += at.inner;
#pragma GCC ivdep
    for (int64_t j = 0; j < width; ++j) {
      bool better = is_better<kLargest>(best[j], row[j]);
      index[j] = better ? i : index[j];
      best[j] = better ? row[j] : best[j];
    }
  }
}

template <bool kLargest>
void arg(const KernelContext& c) {
  const Tensor& x = c.in(0);
  const Around at(x.shape(), c.axis("axis", x.shape().rank()));
  int64_t* y = c.out(0).data<int64_t>();
  dispatch_types<kComparable>(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_columns(at, [&](int64_t o, int64_t first, int64_t width) {
      const T* start = x.data<T>() + o * at.n * at.inner + first;
      int64_t* index = y + o * at.inner + first;
      if (at.inner == 1)
        *index = find_in_run<kLargest>(start, at.n);
      else
        find_in_columns<kLargest>(start, at, width, index);
    });
  });
}

PADDOCK_CPU_KERNEL(argmax) { arg<true>(c); }
PADDOCK_CPU_KERNEL(argmin) { arg<false>(c); }

PADDOCK_CPU_KERNEL(cumsum) {
  const Tensor& x = c.in(0);
  const Around at(x.shape(), c.axis("axis", x.shape().rank()));
  const bool reverse = c.attr<bool>("reverse");
  dispatch_types<kNumbers>(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Acc = std::conditional_t<std::is_floating_point_v<T>, double, T>;
    for_columns(at, [&](int64_t o, int64_t first, int64_t width) {
      Acc total[kColumns] = {};
      for (int64_t i = 0; i < at.n; ++i) {
        const int64_t row = ((reverse ? at.n - 1 - i : i) + o * at.n) * at.inner + first;
        for (int64_t j = 0; j < width; ++j) {
          total[j] = wrap_add(total[j], static_cast<Acc>(x.data<T>()[row + j]));
          c.out(0).data<T>()[row + j] = static_cast<T>(total[j]);
        }
      }
    });
  });
}

PADDOCK_CPU_KERNEL(cumprod) {
  const Tensor& x = c.in(0);
  const Around at(x.shape(), c.axis("axis", x.shape().rank()));
  const bool reverse = c.attr<bool>("reverse");
  dispatch_types<kNumbers>(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Acc = std::conditional_t<std::is_floating_point_v<T>, double, T>;
    for_columns(at, [&](int64_t o, int64_t first, int64_t width) {
      Acc total[kColumns];
      std::fill_n(total, width, Acc{1});
      for (int64_t i = 0; i < at.n; ++i) {
        const int64_t row = ((reverse ? at.n - 1 - i : i) + o * at.n) * at.inner + first;
        for (int64_t j = 0; j < width; ++j) {
          total[j] = multiply(total[j], static_cast<Acc>(x.data<T>()[row + j]));
          c.out(0).data<T>()[row + j] = static_cast<T>(total[j]);
        }
      }
    });
  });
}

// dx holds the products before each element first; the sums of what follows are multiplied in on the way back.
PADDOCK_CPU_KERNEL(cumprod_grad) {
  const Tensor& x = c.in("x");
  const Around at(x.shape(), c.axis("axis", x.shape().rank()));
  const bool reverse = c.attr<bool>("reverse");
  dispatch_float(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *factor = x.data<T>(), *dy = c.in("dy").data<T>();
    T* dx = c.out(0).data<T>();
    for_columns(at, [&](int64_t o, int64_t first, int64_t width) {
      auto row = [&](int64_t i) { return ((reverse ? at.n - 1 - i : i) + o * at.n) * at.inner + first; };
      double total[kColumns];
      std::fill_n(total, width, 1.0);
      for (int64_t i = 0; i < at.n; ++i)
        for (int64_t j = 0, k = row(i); j < width; ++j, ++k) {
          dx[k] = static_cast<T>(total[j]);
          total[j] *= factor[k];
        }
      std::fill_n(total, width, 0.0);
      for (int64_t i = at.n - 1; i >= 0; --i)
        for (int64_t j = 0, k = row(i); j < width; ++j, ++k) {
          total[j] += dy[k];
          dx[k] = static_cast<T>(dx[k] * total[j]);
          total[j] *= factor[k];
        }
    });
  });
}

PADDOCK_CPU_KERNEL(linear_scan) {
  const Tensor& a = c.in("a");
  const Around at(a.shape(), c.axis("axis", a.shape().rank()));
  const bool reverse = c.attr<bool>("reverse");
  dispatch_float(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *factor = a.data<T>(), *added = c.in("b").data<T>();
    T* y = c.out(0).data<T>();
    for_columns(at, [&](int64_t o, int64_t first, int64_t width) {
      double value[kColumns] = {};
      for (int64_t i = 0; i < at.n; ++i) {
        const int64_t row = ((reverse ? at.n - 1 - i : i) + o * at.n) * at.inner + first;
        for (int64_t j = 0; j < width; ++j) {
          value[j] = added[row + j] + (i ? factor[row + j] * value[j] : 0.0);
          y[row + j] = static_cast<T>(value[j]);
        }
      }
    });
  });
}

PADDOCK_CPU_KERNEL(unreduce) {
  const Tensor &x = c.in(0), &y = c.out(0);
  const uint32_t mask = c.axes_mask("axes", y.shape().rank());
  Shape kept = y.shape();  // x's shape with the reduced axes
  for (int i = 0; i < kept.rank(); ++i)
    if (mask >> i & 1) kept[i] = 1;
  auto plan = make_plan<1>(y.shape(), {&kept});
  const double share = c.attr<bool>("average") && y.numel() ? static_cast<double>(x.numel()) / y.numel() : 1.0;
  const bool step = plan.stride[0][plan.rank - 1] != 0;
  dispatch_float(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = x.data<T>();
    T* to = y.data<T>();
    run_plan(plan, [=, share = static_cast<T>(share)](const std::array<int64_t, 1>& offset, int64_t begin, int64_t n) {
      const T* source = from + offset[0];
      if (step)
        for (int64_t i = 0; i < n; ++i) to[begin + i] = source[i] * share;
      else
        std::fill_n(to + begin, n, *source * share);
    });
  });
}

}  // namespace
}  // namespace paddock::cpu
