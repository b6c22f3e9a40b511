// Steps of RMSProp, Adagrad and LAMB. Outputs may share memory with inputs element by element, hence the ivdep marks.
#include "cpu/optim/adam_rule.h"
#include "cpu/optim/optim_step.h"

namespace paddock::cpu {
namespace {

template <class T>
struct RmsProp {
  static constexpr int kInputs = 4, kOutputs = 3;
  static constexpr int kReplaced[] = {0, 2, 3};
  T lr, decay, scale, rho, fresh, momentum, eps;

  explicit RmsProp(const KernelContext& c)
      : lr(static_cast<T>(scalar(c.in("lr")))),
        decay(c.attr<T>("weight_decay")),
        scale(static_cast<T>(gradient_scale(c))),
        rho(c.attr<T>("rho")),
        fresh(static_cast<T>(1 - c.attr<double>("rho"))),
        momentum(c.attr<T>("momentum")),
        eps(c.attr<T>("eps")) {}

  void operator()(const T* const* in, T* const* out, int64_t n) const {
    const T *p = in[0], *g = in[1], *s = in[2], *v = in[3];
    T *param = out[0], *square = out[1], *velocity = out[2];
    const RmsProp r = *this;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const T value = p[i], slope = plus_decay(r.scale * g[i], r.decay, value);
      const T mean = r.rho * s[i] + r.fresh * slope * slope;
      const T next = r.momentum * v[i] + slope / (std::sqrt(mean) + r.eps);
      param[i] = value - r.lr * next;
      square[i] = mean;
      velocity[i] = next;
    }
  }
};

template <class T>
struct Adagrad {
  static constexpr int kInputs = 3, kOutputs = 2;
  static constexpr int kReplaced[] = {0, 2};
  T lr, decay, scale, eps;

  explicit Adagrad(const KernelContext& c)
      : lr(static_cast<T>(scalar(c.in("lr")))),
        decay(c.attr<T>("weight_decay")),
        scale(static_cast<T>(gradient_scale(c))),
        eps(c.attr<T>("eps")) {}

  void operator()(const T* const* in, T* const* out, int64_t n) const {
    const T *p = in[0], *g = in[1], *s = in[2];
    T *param = out[0], *sum = out[1];
    const Adagrad r = *this;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const T value = p[i], slope = plus_decay(r.scale * g[i], r.decay, value), total = s[i] + slope * slope;
      param[i] = value - r.lr * slope / (std::sqrt(total) + r.eps);
      sum[i] = total;
    }
  }
};

PADDOCK_CPU_KERNEL(rmsprop_step) { update<RmsProp>(c, 0, 1); }
PADDOCK_CPU_KERNEL(rmsprop_steps) { update_group<RmsProp>(c, 2); }
PADDOCK_CPU_KERNEL(rmsprop_rows_step) { update_rows<RmsProp>(c); }
PADDOCK_CPU_KERNEL(adagrad_step) { update<Adagrad>(c, 0, 1); }
PADDOCK_CPU_KERNEL(adagrad_steps) { update_group<Adagrad>(c, 2); }
PADDOCK_CPU_KERNEL(adagrad_rows_step) { update_rows<Adagrad>(c); }

// LAMB needs the norms of a parameter and of its whole update before it changes anything: the first pass updates m and
// v and sums the squares, the second makes the update again from m and v.
template <class T>
struct Lamb {
  static constexpr int kInputs = 4, kOutputs = 3;
  static constexpr int kReplaced[] = {0, 2, 3};
  T scale, b1, b2, new1, new2, unbias1, unbias2, eps, decay;
  double lr;

  explicit Lamb(const KernelContext& c) {
    const CountedStep step(c);
    step.fill(c, *this);
    lr = step.lr;
    unbias1 = static_cast<T>(1 / step.first_left());
    unbias2 = static_cast<T>(1 / std::sqrt(step.second_left()));
    decay = c.attr<T>("weight_decay");
  }

  // update[i] from m, v and the parameter.
  void direction(const T* p, const T* m, const T* v, int64_t n, T* update) const {
    const Lamb r = *this;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i)
      update[i] = plus_decay(m[i] * r.unbias1 / (std::sqrt(v[i]) * r.unbias2 + r.eps), r.decay, p[i]);
  }

  void moments(const T* g, const T* m, const T* v, int64_t n, T* m_out, T* v_out) const {
    const Lamb r = *this;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const T slope = r.scale * g[i];
      const T mean = r.b1 * m[i] + r.new1 * slope, square = r.b2 * v[i] + r.new2 * slope * slope;
      m_out[i] = mean;
      v_out[i] = square;
    }
  }
};

constexpr int64_t kPiece = 1024;  // elements whose update stays in the first cache

// A part of one parameter: elements [from, to), and the squares that were summed there.
struct LambTask {
  int tensor;
  int64_t from, to;
  double param = 0, update = 0;
};

// Parts are cut within each parameter, so that one in a group has the bits of one by itself.
std::vector<LambTask> lamb_tasks(const KernelContext& c, int first, int count) {
  std::vector<LambTask> tasks;
  for (int i = 0; i < count; ++i) {
    const int64_t n = c.in(first + i * Lamb<float>::kInputs).numel();
    for (int64_t at = 0; at < n; at += kGrain) tasks.push_back({i, at, std::min(n, at + kGrain)});
  }
  return tasks;
}

template <class T>
double squares(const T* x, int64_t n) {
  return row_sum<T>(n, [x](auto at) {
    const Vec<T> v = at(x);
    return v * v;
  });
}

void lamb(const KernelContext& c, int first, int count) {
  constexpr int kIn = Lamb<float>::kInputs, kOut = Lamb<float>::kOutputs;
  if (is_skipped(c)) {
    for (int i = 0; i < count; ++i)
      for (int k = 0; k < kOut; ++k) keep(c.in(first + i * kIn + Lamb<float>::kReplaced[k]), c.out(i * kOut + k));
    return;
  }
  auto tasks = lamb_tasks(c, first, count);
  const auto grain = row_grain(tasks.empty() ? 1 : tasks[0].to);
  dispatch_float(c.in(first).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Lamb<T> rule(c);
    auto in = [&](const LambTask& t, int k) { return c.in(first + t.tensor * kIn + k).template data<T>(); };
    auto out = [&](const LambTask& t, int k) { return c.out(t.tensor * kOut + k).template data<T>(); };
    auto for_pieces = [&](auto body) {
      parallel_for(static_cast<int64_t>(tasks.size()), grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          LambTask& t = tasks[static_cast<size_t>(i)];
          for (int64_t at = t.from; at < t.to; at += kPiece) body(t, at, std::min(kPiece, t.to - at));
        }
      });
    };
    for_pieces([&](LambTask& t, int64_t at, int64_t n) {
      T update[kPiece];
      rule.moments(in(t, 1) + at, in(t, 2) + at, in(t, 3) + at, n, out(t, 1) + at, out(t, 2) + at);
      rule.direction(in(t, 0) + at, out(t, 1) + at, out(t, 2) + at, n, update);
      t.param += squares(in(t, 0) + at, n);
      t.update += squares<T>(update, n);
    });
    std::vector<double> param(count), total(count);
    for (const LambTask& t : tasks) {
      param[t.tensor] += t.param;
      total[t.tensor] += t.update;
    }
    for_pieces([&](const LambTask& t, int64_t at, int64_t n) {
      const double weight = std::sqrt(param[t.tensor]), size = std::sqrt(total[t.tensor]);
      const T rate = static_cast<T>(rule.lr * (weight == 0 || size == 0 ? 1.0 : weight / size));
      const T* p = in(t, 0) + at;
      T update[kPiece], *to = out(t, 0) + at;
      rule.direction(p, out(t, 1) + at, out(t, 2) + at, n, update);
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) to[i] = p[i] - rate * update[i];
    });
  });
}

PADDOCK_CPU_KERNEL(lamb_step) { lamb(c, 0, 1); }
PADDOCK_CPU_KERNEL(lamb_steps) { lamb(c, 3, (c.input_count() - 3) / Lamb<float>::kInputs); }

}  // namespace
}  // namespace paddock::cpu
