// Kernels of softmax and its losses. Every row is shifted by its maximum before exponentials are taken.
#include <cmath>
#include <limits>

#include "cpu/elementwise/micro_op.h"
#include "cpu/elementwise/row_block.h"
#include "cpu/elementwise/rows.h"

namespace paddock::cpu {
namespace {

// x as [outer, length, inner] around the softmax's axis.
struct Slices {
  int64_t outer, length, inner;
};

template <class T>
void softmax_row(const T* x, int64_t n, bool log, T* y) {
  const T shift = row_max(x, n);
  if (log) {
    const T base = math::log(row_sum_exp(x, n, shift));
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - shift) - base;
    return;
  }
  constexpr int64_t kShort = 64;
  T buffer[kShort], *e = n <= kShort ? buffer : y;
  if (n <= kShort) {
    row_exp(x, n, shift, buffer);
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = math::exp(x[i] - shift);
  }
  const T scale = 1 / row_sum<T>(n, [e](auto at) { return at(e); });
  for (int64_t i = 0; i < n; ++i) y[i] = e[i] * scale;
}

// Softmax down each of `width` <= kStrip columns of a slice; element (i, c) stands at i * stride + c.
constexpr int64_t kStrip = 64;

template <class T>
void softmax_columns(const T* x, int64_t n, int64_t stride, int64_t width, bool log, T* y) {
  T shift[kStrip], total[kStrip];
  std::copy(x, x + width, shift);
  std::fill(total, total + width, T{0});
  for (int64_t i = 1; i < n; ++i)
    for (int64_t c = 0; c < width; ++c) shift[c] = std::max(shift[c], x[i * stride + c]);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < width; ++c) total[c] += math::exp(x[i * stride + c] - shift[c]);
  for (int64_t c = 0; c < width; ++c) total[c] = log ? math::log(total[c]) : 1 / total[c];
  for (int64_t i = 0; i < n; ++i) {
    const T* from = x + i * stride;
    T* to = y + i * stride;
    if (log) {
#pragma GCC ivdep
      for (int64_t c = 0; c < width; ++c) to[c] = (from[c] - shift[c]) - total[c];
    } else {
#pragma GCC ivdep
      for (int64_t c = 0; c < width; ++c) to[c] = math::exp(from[c] - shift[c]) * total[c];
    }
  }
}

template <class T>
void softmax(const Slices& s, const T* x, bool log, T* y) {
  if (s.length == 0) return;
  if (s.inner == 1) {
    parallel_for(s.outer, row_grain(4 * s.length), [=](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) softmax_row(x + r * s.length, s.length, log, y + r * s.length);
    });
    return;
  }
  const int64_t strips = (s.inner + kStrip - 1) / kStrip;
  parallel_for(s.outer * strips, row_grain(4 * s.length * std::min(s.inner, kStrip)), [=](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t first = t % strips * kStrip, at = t / strips * s.length * s.inner + first;
      softmax_columns(x + at, s.length, s.inner, std::min(kStrip, s.inner - first), log, y + at);
    }
  });
}

void run_softmax(const KernelContext& c, bool log) {
  const Shape& x = c.in(0).shape();
  const int axis = c.axis("axis", x.rank());
  const Slices slices{x.count(0, axis), x[axis], x.count(axis + 1, x.rank())};
  dispatch_float(c.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    softmax(slices, c.in(0).data<T>(), log, c.out(0).data<T>());
  });
}

PADDOCK_CPU_KERNEL(softmax) { run_softmax(c, false); }
PADDOCK_CPU_KERNEL(log_softmax) { run_softmax(c, true); }

// The maximum of a row of logits, and the logarithm of the sum of exponentials beyond it.
template <class T>
struct RowNorm {
  T shift, log_sum;
  RowNorm(const T* x, int64_t n) : shift(row_max(x, n)), log_sum(math::log(row_sum_exp(x, n, shift))) {}
};

// Rows of logits with their class numbers, in parallel. Calls block(first row, classes) for blocks of RowBlock's rows
// where they fit, row(row, class) for the others; the class is -1 for an ignored row.
template <class T, class Block, class Row>
void for_labelled_rows(const KernelContext& c, Block&& block, Row&& row) {
  constexpr int64_t rows = RowBlock<T>::kRows;
  const Tensor& labels = c.in("labels");
  const int64_t classes = c.in("logits").shape().back(), ignore = c.attr<int64_t>("ignore_index");
  const int64_t lowest = c.attr<bool>("from_end") ? -classes : 0;
  const bool ignores = ignore != std::numeric_limits<int64_t>::min();
  dispatch_index(labels.dtype(), [&](auto tag) {
    const auto* label = labels.data<typename decltype(tag)::type>();
    auto ignored = [=](int64_t r) { return ignores & (label[r] == ignore); };
    auto strange = [=](int64_t r) { return ((label[r] < lowest) | (label[r] >= classes)) & (ignored(r) == false); };
    int64_t wrong = 0;
    for (int64_t r = 0; r < labels.numel(); ++r) wrong += strange(r);
    for (int64_t r = 0; wrong && r < labels.numel(); ++r)
      if (strange(r))
        fail(ErrorKind::kAttribute, c.op().name, ": labels holds ", label[r], " in row ", r, " but logits has ",
             classes, " classes; a label lies in [", lowest, ", ", classes - 1, "]",
             ignores ? cat(" or is ignore_index ", ignore) : "");
    const bool blocks = classes > 0 && classes <= RowBlock<T>::kLongest;
    parallel_for(labels.numel(), row_grain(4 * classes), [&](int64_t begin, int64_t end) {
      auto known = [&](int64_t r) {
        return ignored(r) ? int64_t{-1} : label[r] < 0 ? label[r] + classes : int64_t{label[r]};
      };
      int64_t r = begin;
      for (; blocks && r + rows <= end; r += rows) {
        int64_t chosen[rows];
        for (int64_t i = 0; i < rows; ++i) chosen[i] = known(r + i);
        block(r, chosen);
      }
      for (; r < end; ++r) row(r, known(r));
    });
  });
}

PADDOCK_CPU_KERNEL(cross_entropy) {
  dispatch_float(c.in("logits").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t classes = c.in("logits").shape().back();
    const T *logits = c.in("logits").data<T>(), smoothing = static_cast<T>(c.attr<double>("label_smoothing"));
    T* loss = c.out(0).data<T>();
    // log_sum: of the exponentials beyond the maximum, `shift`.
    auto write = [&](int64_t r, int64_t label, T shift, T log_sum) {
      const T* x = logits + r * classes;
      loss[r] = label < 0 ? T{0} : log_sum - (x[label] - shift);
      if (smoothing > 0 && label >= 0) {
        const Vec<T> all = Vec<T>::broadcast(shift);
        const T mean = row_sum<T>(classes, [&](auto at) { return at(x) - all; }) / static_cast<T>(classes);
        loss[r] = (1 - smoothing) * loss[r] + smoothing * (log_sum - mean);
      }
    };
    auto block = [&](int64_t first, const int64_t* labels) {
      constexpr int64_t rows = RowBlock<T>::kRows;
      T shift[rows], log_sum[rows];
      RowBlock<T>(logits + first * classes, classes).exponentiate(shift, log_sum);
#pragma GCC ivdep
      for (int64_t i = 0; i < rows; ++i) log_sum[i] = math::log(log_sum[i]);
      for (int64_t i = 0; i < rows; ++i) write(first + i, labels[i], shift[i], log_sum[i]);
    };
    for_labelled_rows<T>(c, block, [&](int64_t r, int64_t label) {
      const RowNorm<T> norm(logits + r * classes, classes);
      write(r, label, norm.shift, norm.log_sum);
    });
  });
}

PADDOCK_CPU_KERNEL(cross_entropy_grad) {
  dispatch_float(c.in("logits").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t classes = c.in("logits").shape().back();
    const T *dloss = c.in("dloss").data<T>(), *logits = c.in("logits").data<T>();
    const T smoothing = static_cast<T>(c.attr<double>("label_smoothing"));
    const T everywhere = smoothing / static_cast<T>(std::max<int64_t>(1, classes));
    T* dlogits = c.out(0).data<T>();
    // dlogits[label] from the label's probability; an ignored row is 0 whatever its logits are.
    auto correct = [&](int64_t r, int64_t label, T probability) {
      T* dx = dlogits + r * classes;
      if (label < 0)
        std::fill(dx, dx + classes, T{0});
      else
        dx[label] = dloss[r] * ((probability - (1 - smoothing)) - everywhere);
    };
    auto block = [&](int64_t first, const int64_t* labels) {
      constexpr int64_t rows = RowBlock<T>::kRows;
      T shift[rows], share[rows], probability[rows];
      RowBlock<T> x(logits + first * classes, classes);
      x.exponentiate(shift, share);
      for (int64_t i = 0; i < rows; ++i) share[i] = 1 / share[i];
      x.scale(share, T{0});
      for (int64_t i = 0; i < rows; ++i) probability[i] = x(i, std::max<int64_t>(0, labels[i]));
      x.scale(dloss + first, everywhere);
      x.write(dlogits + first * classes);
      for (int64_t i = 0; i < rows; ++i) correct(first + i, labels[i], probability[i]);
    };
    for_labelled_rows<T>(c, block, [&](int64_t r, int64_t label) {
      T* dx = dlogits + r * classes;
      softmax_row(logits + r * classes, classes, /*log=*/false, dx);
      const T probability = label < 0 ? T{0} : dx[label];
      for (int64_t k = 0; k < classes; ++k) dx[k] = dloss[r] * (dx[k] - everywhere);
      correct(r, label, probability);
    });
  });
}

PADDOCK_CPU_KERNEL(soft_cross_entropy) {
  dispatch_float(c.in("logits").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t classes = c.in("logits").shape().back();
    const T *logits = c.in("logits").data<T>(), *targets = c.in("targets").data<T>();
    T* loss = c.out(0).data<T>();
    parallel_for(c.out(0).numel(), row_grain(4 * classes), [=](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T *x = logits + r * classes, *t = targets + r * classes;
        const RowNorm<T> norm(x, classes);
        const Vec<T> shift = Vec<T>::broadcast(norm.shift), log_sum = Vec<T>::broadcast(norm.log_sum);
        loss[r] = row_sum<T>(classes, [=](auto at) { return at(t) * (log_sum - (at(x) - shift)); });
      }
    });
  });
}

template <class T>
void sigmoid_cross_entropy_run(const void* const* in, void* y, int64_t n, const double*) {
  const T *x = static_cast<const T*>(in[0]), *t = static_cast<const T*>(in[1]);
  T* loss = static_cast<T*>(y);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T v = x[i], beyond = math::log1p(math::exp(-std::fabs(v)));
    loss[i] = beyond + ((v > T{0} ? v : T{0}) - v * t[i]);
  }
}
const MicroRegistrar sigmoid_cross_entropy_micro = micro_ops<kFloats>(
    "sigmoid_cross_entropy", false, [](auto tag) { return &sigmoid_cross_entropy_run<typename decltype(tag)::type>; });

PADDOCK_CPU_KERNEL(sigmoid_cross_entropy) {
  dispatch_float(c.in("logits").dtype(), [&](auto tag) {
    run_whole(c, sigmoid_cross_entropy_run<typename decltype(tag)::type>, {}, kGrain / 4);
  });
}

}  // namespace
}  // namespace paddock::cpu
