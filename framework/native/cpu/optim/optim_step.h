// How a rule that updates elements becomes a step of one parameter, of a group of them, or of some rows of one.
// A rule updates n elements from kInputs buffers to kOutputs. Output k of a skipped step is input kReplaced[k]; a rule
// without it cannot be skipped.
#pragma once
#include <cmath>
#include <cstring>

#include "cpu/elementwise/rows.h"

namespace paddock::cpu {

inline double scalar(const Tensor& t) { return t.dtype() == DType::kF64 ? *t.data<double>() : *t.data<float>(); }

inline double gradient_scale(const KernelContext& c) { return c.has("grad_scale") ? scalar(c.in("grad_scale")) : 1.0; }

// What the steps that count read: lr, the step's number and the shares of the two means.
struct CountedStep {
  double lr, number, beta1, beta2;

  explicit CountedStep(const KernelContext& c)
      : lr(scalar(c.in("lr"))), beta1(c.attr<double>("beta1")), beta2(c.attr<double>("beta2")) {
    const int64_t step = *c.in("step").data<int64_t>();
    if (step < 1) fail(ErrorKind::kAttribute, c.op().name, ": step is ", step, " but counts from 1");
    number = static_cast<double>(step);
  }
  double first_left() const { return 1 - std::pow(beta1, number); }  // what the mean lacks of its weights' sum
  double second_left() const { return 1 - std::pow(beta2, number); }

  // Fills in what Adam and LAMB share.
  template <class Rule>
  void fill(const KernelContext& c, Rule& rule) const {
    using T = decltype(rule.scale);
    rule.scale = static_cast<T>(gradient_scale(c));
    rule.b1 = static_cast<T>(beta1);
    rule.b2 = static_cast<T>(beta2);
    rule.new1 = static_cast<T>(1 - beta1);
    rule.new2 = static_cast<T>(1 - beta2);
    rule.eps = c.attr<T>("eps");
  }
};

// Where each of `count` tensors begins when they stand one after another; `size(i)` elements each.
template <class Size>
std::vector<int64_t> starts_of(int count, Size size) {
  std::vector<int64_t> starts(count + 1, 0);
  for (int i = 0; i < count; ++i) starts[i + 1] = starts[i] + size(i);
  return starts;
}

// Calls body(tensor, first element, last element) for the parts of [begin, end) of the tensors in a row.
template <class Body>
void for_each_part(const std::vector<int64_t>& starts, int64_t begin, int64_t end, Body body) {
  size_t i = std::upper_bound(starts.begin(), starts.end(), begin) - starts.begin() - 1;
  for (; begin < end; ++i) {
    const int64_t to = std::min(end, starts[i + 1]);
    if (begin < to) body(static_cast<int>(i), begin - starts[i], to - starts[i]);
    begin = to;
  }
}

inline bool is_skipped(const KernelContext& c) { return !std::isfinite(gradient_scale(c)) && c.attr<bool>("skip"); }

inline void keep(const Tensor& old, const Tensor& result) {
  if (result.raw() != old.raw()) std::memcpy(result.raw(), old.raw(), old.bytes());
}

// Applies a rule to `count` parameters at once; inputs from number `first` on hold kInputs tensors for each. Threads
// share the elements of all of them, however small each is.
template <template <class> class Rule>
void update(const KernelContext& c, int first, int count) {
  dispatch_float(c.in(first).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kIn = Rule<T>::kInputs, kOut = Rule<T>::kOutputs;
    if constexpr (requires { Rule<T>::kReplaced; }) {
      if (is_skipped(c)) {
        for (int i = 0; i < count; ++i)
          for (int k = 0; k < kOut; ++k) keep(c.in(first + i * kIn + Rule<T>::kReplaced[k]), c.out(i * kOut + k));
        return;
      }
    }
    const Rule<T> rule(c);
    const auto starts = starts_of(count, [&](int i) { return c.in(first + i * kIn).numel(); });
    parallel_for(starts.back(), kGrain, [&](int64_t begin, int64_t end) {
      for_each_part(starts, begin, end, [&](int i, int64_t from, int64_t to) {
        const T* in[kIn];
        T* out[kOut];
        for (int k = 0; k < kIn; ++k) in[k] = c.in(first + i * kIn + k).template data<T>() + from;
        for (int k = 0; k < kOut; ++k) out[k] = c.out(i * kOut + k).template data<T>() + from;
        rule(in, out, to - from);
      });
    });
  });
}

// The number of parameters in a group whose tensors start at input `first`.
template <template <class> class Rule>
void update_group(const KernelContext& c, int first) {
  update<Rule>(c, first, (c.input_count() - first) / Rule<float>::kInputs);
}

template <class T>
bool all_zero(const T* x, int64_t n) {
  bool found = false;
  for (int64_t i = 0; i < n; ++i) found |= x[i] != T{0};
  return !found;
}

// Refuses a row outside of a parameter of `count` rows, and one that is listed twice.
inline void check_listed(const KernelContext& c, int64_t count) {
  const Tensor& rows = c.in("rows");
  const int64_t n = rows.numel();
  const auto* row = rows.data<int64_t>();
  size_t slots = 4;
  while (slots < 2 * static_cast<size_t>(n)) slots *= 2;
  std::vector<int64_t> seen(slots, -1);  // entries, by a hash of their rows
  for (int64_t i = 0; i < n; ++i) {
    if (row[i] == -1) continue;
    if (row[i] < 0 || row[i] >= count)
      fail(ErrorKind::kAttribute, c.op().name, ": rows[", i, "] is ", row[i], " but param has ", count,
           " rows; it must be -1 (none) or lie in [0, ", count - 1, "]");
    size_t at = static_cast<size_t>(row[i]) * 0x9E3779B97F4A7C15u >> 20 & (slots - 1);
    for (; seen[at] >= 0; at = (at + 1) & (slots - 1))
      if (row[seen[at]] == row[i])
        fail(ErrorKind::kAttribute, c.op().name, ": rows[", i, "] is ", row[i], ", as rows[", seen[at],
             "] was; a row may stand there once");
    seen[at] = i;
  }
}

// Applies a rule to the rows that are listed. Inputs: param, rows, values, then what else the rule reads and replaces.
template <template <class> class Rule>
void update_rows(const KernelContext& c) {
  constexpr int kIn = Rule<float>::kInputs, kOut = Rule<float>::kOutputs;
  auto input = [&](int k) -> const Tensor& {
    return c.in(k == 0 ? 0 : k + 1);
  };  // of the rule: values for the gradient
  const int64_t width = c.in("param").shape()[1], n = c.in("rows").numel();
  check_listed(c, c.in("param").shape()[0]);
  for (int k = 0; k < kOut; ++k) keep(input(Rule<float>::kReplaced[k]), c.out(k));
  if (is_skipped(c)) return;
  dispatch_float(c.in("param").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Rule<T> rule(c);
    const auto* rows = c.in("rows").data<int64_t>();
    parallel_for(n, row_grain(width), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* grad = input(1).template data<T>() + i * width;
        if (rows[i] < 0 || all_zero(grad, width)) continue;
        const T* in[kIn];
        T* out[kOut];
        for (int k = 0; k < kOut; ++k) out[k] = c.out(k).template data<T>() + rows[i] * width;
        for (int k = 0; k < kIn; ++k) in[k] = input(k).template data<T>() + (k == 1 ? i : rows[i]) * width;
        rule(in, out, width);
      }
    });
  });
}

}  // namespace paddock::cpu
