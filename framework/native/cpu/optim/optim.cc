// Steps of SGD, Momentum, Adam and moving averages, over one parameter or a group of them. Outputs may share memory
// with inputs element by element, hence the ivdep marks.
#include "cpu/optim/adam_rule.h"
#include "cpu/optim/optim_step.h"

namespace paddock::cpu {
namespace {

template <class T>
struct Sgd {
  static constexpr int kInputs = 2, kOutputs = 1;
  static constexpr int kReplaced[] = {0};
  T lr, decay, scale;

  explicit Sgd(const KernelContext& c)
      : lr(static_cast<T>(scalar(c.in("lr")))),
        decay(c.attr<T>("weight_decay")),
        scale(static_cast<T>(gradient_scale(c))) {}

  void operator()(const T* const* in, T* const* out, int64_t n) const {
    const T *p = in[0], *g = in[1];
    T* param = out[0];
    const Sgd r = *this;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) param[i] = p[i] - r.lr * plus_decay(r.scale * g[i], r.decay, p[i]);
  }
};

template <class T>
struct Momentum {
  static constexpr int kInputs = 3, kOutputs = 2;
  static constexpr int kReplaced[] = {0, 2};
  T lr, decay, scale, momentum;
  bool nesterov;

  explicit Momentum(const KernelContext& c)
      : lr(static_cast<T>(scalar(c.in("lr")))),
        decay(c.attr<T>("weight_decay")),
        scale(static_cast<T>(gradient_scale(c))),
        momentum(c.attr<T>("momentum")),
        nesterov(c.attr<bool>("nesterov")) {}

  void operator()(const T* const* in, T* const* out, int64_t n) const {
    const T *p = in[0], *g = in[1], *v = in[2];
    T *param = out[0], *velocity = out[1];
    const Momentum r = *this;
    if (nesterov) {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) {
        const T value = p[i], slope = plus_decay(r.scale * g[i], r.decay, value), next = r.momentum * v[i] + slope;
        param[i] = value - r.lr * (slope + r.momentum * next);
        velocity[i] = next;
      }
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) {
        const T value = p[i], next = r.momentum * v[i] + plus_decay(r.scale * g[i], r.decay, value);
        param[i] = value - r.lr * next;
        velocity[i] = next;
      }
    }
  }
};

template <class T>
struct Adam : AdamNumbers<T> {
  static constexpr int kInputs = 4, kOutputs = 3;
  static constexpr int kReplaced[] = {0, 2, 3};

  explicit Adam(const KernelContext& c) {
    const CountedStep step(c);
    const double decay = c.attr<double>("weight_decay");
    const bool decoupled = c.attr<bool>("decoupled");
    step.fill(c, *this);
    this->rate = static_cast<T>(step.lr / step.first_left());
    this->unbias = static_cast<T>(1 / std::sqrt(step.second_left()));
    this->l2 = static_cast<T>(decoupled ? 0.0 : decay);
    this->keep = static_cast<T>(decoupled ? 1 - step.lr * decay : 1.0);
  }

  void operator()(const T* const* in, T* const* out, int64_t n) const { adam_elements<T>(*this, in, out, n); }
};

template <class T>
struct Ema {
  static constexpr int kInputs = 2, kOutputs = 1;
  T share;

  explicit Ema(const KernelContext& c) : share(static_cast<T>(1 - scalar(c.in("decay")))) {}

  void operator()(const T* const* in, T* const* out, int64_t n) const {
    const T *average = in[0], *value = in[1], part = share;
    T* next = out[0];
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) next[i] = average[i] + part * (value[i] - average[i]);
  }
};

PADDOCK_CPU_KERNEL(sgd_step) { update<Sgd>(c, 0, 1); }
PADDOCK_CPU_KERNEL(momentum_step) { update<Momentum>(c, 0, 1); }
PADDOCK_CPU_KERNEL(adam_step) { update<Adam>(c, 0, 1); }
PADDOCK_CPU_KERNEL(ema_step) { update<Ema>(c, 0, 1); }
PADDOCK_CPU_KERNEL(sgd_steps) { update_group<Sgd>(c, 2); }
PADDOCK_CPU_KERNEL(momentum_steps) { update_group<Momentum>(c, 2); }
PADDOCK_CPU_KERNEL(adam_steps) { update_group<Adam>(c, 3); }
PADDOCK_CPU_KERNEL(ema_steps) { update_group<Ema>(c, 1); }

// Which entry of `rows` each of `count` rows of a parameter has its gradient in; -1 for none.
std::vector<int64_t> entries_of(const KernelContext& c, int64_t count) {
  const Tensor& rows = c.in("rows");
  std::vector<int64_t> entries(static_cast<size_t>(count), -1);
  for (int64_t i = 0; i < rows.numel(); ++i) {
    const int64_t row = rows.data<int64_t>()[i];
    if (row == -1) continue;
    if (row < 0 || row >= count)
      fail(ErrorKind::kAttribute, c.op().name, ": rows[", i, "] is ", row, " but param has ", count,
           " rows; it must be -1 (none) or lie in [0, ", count - 1, "]");
    if (entries[static_cast<size_t>(row)] >= 0)
      fail(ErrorKind::kAttribute, c.op().name, ": rows[", i, "] is ", row, ", as rows[",
           entries[static_cast<size_t>(row)], "] was; a row may stand there once");
    entries[static_cast<size_t>(row)] = i;
  }
  return entries;
}

PADDOCK_CPU_KERNEL(sgd_rows_step) { update_rows<Sgd>(c); }
PADDOCK_CPU_KERNEL(momentum_rows_step) { update_rows<Momentum>(c); }
PADDOCK_CPU_KERNEL(adam_rows_step) {
  if (c.attr<bool>("lazy")) return update_rows<Adam>(c);
  if (is_skipped(c)) {
    for (const char* name : {"param", "m", "v"}) keep(c.in(name), c.out(std::string(name) + "_out"));
    return;
  }
  dispatch_float(c.in("param").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Adam<T> rule(c);
    const int64_t rows = c.in("param").shape()[0], width = c.in("param").shape()[1];
    const auto entries = entries_of(c, rows);
    const std::vector<T> none(static_cast<size_t>(width), T{0});
    const bool zero_stays = std::isfinite(rule.scale);  // NaN or infinity times 0 is NaN
    const T *param = c.in("param").data<T>(), *values = c.in("values").data<T>(), *m = c.in("m").data<T>(),
            *v = c.in("v").data<T>();
    T *param_out = c.out("param_out").data<T>(), *m_out = c.out("m_out").data<T>(), *v_out = c.out("v_out").data<T>();
    parallel_for(rows, row_grain(width), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t at = r * width, entry = entries[static_cast<size_t>(r)];
        if (entry < 0 && rule.l2 == T{0} && zero_stays && m_out == m && v_out == v && all_zero(v + at, width) &&
            all_zero(m + at, width)) {
          for (int64_t j = 0; j < width; ++j)
            param_out[at + j] = rule.keep * param[at + j];  // what is left of the rule
          continue;
        }
        const T* in[] = {param + at, entry < 0 ? none.data() : values + entry * width, m + at, v + at};
        T* out[] = {param_out + at, m_out + at, v_out + at};
        rule(in, out, width);
      }
    });
  });
}

// Each chunk of the tensors in a row is summed in T, the chunks in double, in order.
PADDOCK_CPU_KERNEL(sum_of_squares) {
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto starts = starts_of(c.input_count(), [&](int i) { return c.in(i).numel(); });
    std::vector<double> partial((starts.back() + kGrain - 1) / kGrain);
    parallel_for(starts.back(), kGrain, [&](int64_t begin, int64_t end) {
      double sum = 0;
      for_each_part(starts, begin, end, [&](int i, int64_t from, int64_t to) {
        const T* x = c.in(i).template data<T>() + from;
        sum += row_sum<T>(to - from, [x](auto at) {
          const Vec<T> v = at(x);
          return v * v;
        });
      });
      partial[begin / kGrain] = sum;
    });
    double total = 0;
    for (double p : partial) total += p;
    *c.out(0).template data<T>() = static_cast<T>(total);
  });
}

}  // namespace
}  // namespace paddock::cpu
