// Layer normalisation, alone and of a sum: each row of [rows, D] by its own moments, taken twice over the cached row.
#include "cpu/norm/layer_norm.h"

#include <optional>

#include "cpu/random/dropout.h"
#include "cpu/vec/vec_half.h"

namespace paddock::cpu {
namespace {

template <class T>
RowNorm<T> row_norm(const KernelContext& c, int64_t n) {
  return {n, c.attr<double>("eps"), c.maybe<T>("scale"), c.maybe<T>("bias")};
}

PADDOCK_CPU_KERNEL(layer_norm) {
  dispatch_float(c.in("x").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = c.in("x").data<T>();
    T *y = c.out("y").data<T>(), *mean = c.out("mean").data<T>(), *rstd = c.out("rstd").data<T>();
    const int64_t n = c.in("x").shape().back();
    parallel_for(c.out("mean").numel(), row_grain(n), [=, norm = row_norm<T>(c, n)](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) norm(x + r * n, y + r * n, mean[r], rstd[r]);
    });
  });
}

template <class T>
std::optional<Dropout<T>> dropout_of(const KernelContext& c) {
  if (!c.has("key")) return std::nullopt;
  return Dropout<T>(c.in("key").data<int64_t>(), c.attr<double>("p"));
}

PADDOCK_CPU_KERNEL(residual_layer_norm) {
  dispatch_float(c.in("x").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *x = c.in("x").data<T>(), *residual = c.in("residual").data<T>();
    T *y = c.out("y").data<T>(), *sum = c.out("sum").data<T>();
    T *mean = c.out("mean").data<T>(), *rstd = c.out("rstd").data<T>();
    const int64_t n = c.in("x").shape().back();
    const auto norm = row_norm<T>(c, n);
    const auto drop = dropout_of<T>(c);
    parallel_for(c.out("mean").numel(), row_grain(n), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t at = r * n;
        const T *other = residual + at, *from = x + at;
        T* to = sum + at;
        if (drop) {
          (*drop)(at, n, from, y + at);  // y's row is there to be written
          from = y + at;
        }
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) to[i] = from[i] + other[i];
        norm(to, y + at, mean[r], rstd[r]);
      }
    });
  });
}

// An input that is float32 or half, as float32; null where it is absent.
class AsFloat32 {
 public:
  AsFloat32(const KernelContext& c, const char* name) : data_(c.maybe<float>(name)) {
    if (!data_ || c.in(name).dtype() == DType::kF32) return;
    copy_ = Tensor({c.in(name).shape(), DType::kF32});
    dispatch_half(c.in(name).dtype(), [&](auto tag) {
      widen_all(c.in(name).data<typename decltype(tag)::type>(), copy_.data<float>(), copy_.numel());
    });
    data_ = copy_.data<float>();
  }
  const float* data() const { return data_; }

 private:
  Tensor copy_;
  const float* data_;
};

// The sum is rounded before it is normalised, so that layer_norm of it gives y again.
PADDOCK_CPU_HALF_KERNEL(residual_layer_norm) {
  dispatch_half(c.out("y").dtype(), [&](auto tag) {
    using H = typename decltype(tag)::type;
    const H *x = c.in("x").data<H>(), *residual = c.in("residual").data<H>();
    H *y = c.out("y").data<H>(), *sum = c.out("sum").data<H>();
    float *mean = c.out("mean").data<float>(), *rstd = c.out("rstd").data<float>();
    const int64_t n = c.in("x").shape().back();
    const AsFloat32 scale(c, "scale"), bias(c, "bias");
    const RowNorm<float> norm{n, c.attr<double>("eps"), scale.data(), bias.data()};
    const auto drop = dropout_of<float>(c);
    parallel_for(c.out("mean").numel(), row_grain(n), [&](int64_t begin, int64_t end) {
      const Scratch rows = scratch(sizeof(float) * 2 * n);
      float *one = rows.as<float>(), *two = one + n;
      for (int64_t r = begin; r < end; ++r) {
        const int64_t at = r * n;
        widen_all(x + at, one, n);
        if (drop) (*drop)(at, n, one, one);
        widen_all(residual + at, two, n);
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) one[i] += two[i];
        narrow_all(one, sum + at, n);
        widen_all(sum + at, one, n);
        norm(one, one, mean[r], rstd[r]);
        narrow_all(one, y + at, n);
      }
    });
  });
}

template <class T>
RowNormGradient<T> row_gradient(const KernelContext& c, const T* x, int64_t n) {
  return {
      c.in("dy").data<T>(), x, c.maybe<T>("scale"), c.in("mean").data<T>(), c.in("rstd").data<T>(), c.maybe<T>("dmean"),
      c.maybe<T>("drstd"),  n};
}

PADDOCK_CPU_KERNEL(layer_norm_grad) {
  dispatch_float(c.in("x").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t n = c.in("x").shape().back();
    const auto gradient = row_gradient(c, c.in("x").data<T>(), n);
    T* dx = c.out("dx").data<T>();
    sum_over_rows(c.in("mean").numel(), n, c.out("dscale").data<T>(), c.out("dbias").data<T>(),
                  [&](int64_t r, T* dscale, T* dbias) { gradient(r, dx + r * n, dscale, dbias); });
  });
}

PADDOCK_CPU_KERNEL(residual_layer_norm_grad) {
  dispatch_float(c.in("sum").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t n = c.in("sum").shape().back();
    const auto gradient = row_gradient(c, c.in("sum").data<T>(), n);
    const Dropout<T> drop(c.in("key").data<int64_t>(), c.attr<double>("p"));
    const T* dsum = c.maybe<T>("dsum");
    T *dx = c.out("dx").data<T>(), *dresidual = c.out("dresidual").data<T>();
    sum_over_rows(c.in("mean").numel(), n, c.out("dscale").data<T>(), c.out("dbias").data<T>(),
                  [&](int64_t r, T* dscale, T* dbias) {
                    const int64_t at = r * n;
                    T* to = dresidual + at;
                    gradient(r, to, dscale, dbias);
                    if (dsum)
                      for (int64_t i = 0; i < n; ++i) to[i] += dsum[at + i];
                    drop(at, n, to, dx + at);
                  });
  });
}

}  // namespace
}  // namespace paddock::cpu
