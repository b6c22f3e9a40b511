// Kernels of ops/selection.cc.
#include "cpu/elementwise/scalar_ops.h"
#include "cpu/kernel.h"
#include "cpu/movement/sort_key.h"

namespace paddock::cpu {
namespace {

PADDOCK_CPU_KERNEL(nonzero_sized) {
  const Tensor& x = c.in(0);
  const Shape& shape = x.shape();
  const int rank = shape.rank();
  const int64_t size = c.out(0).shape()[0];
  auto* out = c.out(0).data<int64_t>();
  int64_t found = 0;
  dispatch_all(x.dtype(), [&](auto tag) {
    const auto* in = x.data<typename decltype(tag)::type>();
    for (int64_t i = 0; i < x.numel() && found < size; ++i) {
      if (sort_key_of(in[i]) == 0) continue;
      int64_t rest = i;
      for (int a = rank - 1; a >= 0; --a) {
        out[found * rank + a] = rest % shape[a];
        rest /= shape[a];
      }
      ++found;
    }
  });
  std::fill(out + found * rank, out + size * rank, c.attr<int64_t>("fill"));
}

template <class T>
T rounded(double v) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
    return T(static_cast<float>(v));
  else if constexpr (std::is_same_v<T, bool>)
    return v != 0;
  else
    return math::saturate<T>(v);
}

PADDOCK_CPU_KERNEL(unique_sized) {
  const Tensor &x = c.in(0), &values = c.out("values");
  const int64_t size = values.shape()[0], n = x.numel();
  const auto fill = c.attr<std::vector<double>>("fill");
  auto *inverse = c.out("inverse").data<int64_t>(), *counts = c.out("counts").data<int64_t>();
  dispatch_all(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = x.data<T>();
    T* out = values.data<T>();
    std::vector<std::pair<int64_t, int64_t>> items(static_cast<size_t>(n));  // key, place
    for (int64_t i = 0; i < n; ++i) items[static_cast<size_t>(i)] = {sort_key_of(in[i]), i};
    std::sort(items.begin(), items.end());
    std::fill_n(counts, size, int64_t{0});
    int64_t found = 0;  // values so far
    for (size_t i = 0; i < items.size(); ++i) {
      const int64_t place = items[i].second;
      if (i == 0 || items[i].first != items[i - 1].first) {
        if (found < size) out[found] = in[place];
        ++found;
      }
      inverse[place] = std::min(found - 1, size);
      if (found <= size) ++counts[found - 1];
    }
    const T rest = !fill.empty() ? rounded<T>(fill[0]) : items.empty() ? T{} : in[items[0].second];
    std::fill(out + std::min(found, size), out + size, rest);
  });
}

}  // namespace
}  // namespace paddock::cpu
