// Loops over tensors that broadcast: axes are joined where every operand allows it, the last joined axis is the inner
// loop, and each operand steps through it by 1 or stays (0).
#pragma once
#include <array>

#include "cpu/kernel.h"

namespace paddock::cpu {

template <int kOperands>
struct BroadcastPlan {
  int rank = 0;  // at least 1 after make_plan
  int64_t numel = 0;
  int64_t extent[kMaxRank];
  int64_t stride[kOperands][kMaxRank];  // in elements; 0 where the operand repeats
};

template <int kOperands>
BroadcastPlan<kOperands> make_plan(const Shape& y, const std::array<const Shape*, kOperands>& shapes) {
  BroadcastPlan<kOperands> plan;
  plan.numel = y.numel();
  int64_t step[kOperands];
  std::fill_n(step, kOperands, 1);
  // From the last axis to the first; plan axes are built in that order and reversed at the end.
  for (int axis = -1; axis >= -y.rank(); --axis) {
    if (y.dim(axis) == 1) continue;
    int64_t stride[kOperands];
    bool joins = plan.rank > 0;
    for (int k = 0; k < kOperands; ++k) {
      int64_t d = -axis <= shapes[k]->rank() ? shapes[k]->dim(axis) : 1;
      stride[k] = d == 1 ? 0 : step[k];
      step[k] *= d;
      if (joins) joins = stride[k] == plan.stride[k][plan.rank - 1] * plan.extent[plan.rank - 1];
    }
    if (joins) {
      plan.extent[plan.rank - 1] *= y.dim(axis);
      continue;
    }
    plan.extent[plan.rank] = y.dim(axis);
    for (int k = 0; k < kOperands; ++k) plan.stride[k][plan.rank] = stride[k];
    ++plan.rank;
  }
  if (plan.rank == 0) {
    plan.extent[plan.rank] = 1;
    for (int k = 0; k < kOperands; ++k) plan.stride[k][plan.rank] = 0;
    ++plan.rank;
  }
  std::reverse(plan.extent, plan.extent + plan.rank);
  for (int k = 0; k < kOperands; ++k) std::reverse(plan.stride[k], plan.stride[k] + plan.rank);
  return plan;
}

// Calls inner(offsets of the operands, offset of y, n) for runs of the inner axis that cover elements [begin, end) of
// y.
template <int kOperands, class Inner>
void run_range(const BroadcastPlan<kOperands>& plan, int64_t begin, int64_t end, const Inner& inner) {
  const int last = plan.rank - 1;
  int64_t index[kMaxRank], rest = begin;
  std::array<int64_t, kOperands> offset{};
  for (int axis = last; axis >= 0; --axis) {
    index[axis] = rest % plan.extent[axis];
    rest /= plan.extent[axis];
    for (int k = 0; k < kOperands; ++k) offset[k] += index[axis] * plan.stride[k][axis];
  }
  while (begin < end) {
    int64_t n = std::min(plan.extent[last] - index[last], end - begin);
    inner(offset, begin, n);
    begin += n;
    for (int k = 0; k < kOperands; ++k) offset[k] += n * plan.stride[k][last];
    index[last] += n;
    for (int axis = last; axis > 0 && index[axis] == plan.extent[axis]; --axis) {
      for (int k = 0; k < kOperands; ++k)
        offset[k] += plan.stride[k][axis - 1] - plan.extent[axis] * plan.stride[k][axis];
      index[axis] = 0;
      ++index[axis - 1];
    }
  }
}

template <int kOperands, class Inner>
void run_plan(const BroadcastPlan<kOperands>& plan, const Inner& inner) {
  parallel_for(plan.numel, kGrain, [&](int64_t begin, int64_t end) { run_range(plan, begin, end, inner); });
}

// y = f(a, b) over n elements; a step of 0 repeats the operand. y may be a or b.
template <class T, class R, class F>
void map_run(const T* a, const T* b, R* y, int64_t n, bool step_a, bool step_b, F f) {
  if (step_a && step_b) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
  } else if (step_a) {
    const T fixed = *b;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], fixed);
  } else if (step_b) {
    const T fixed = *a;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = f(fixed, b[i]);
  } else {
    std::fill_n(y, n, f(*a, *b));
  }
}

using BinaryRun = void (*)(const void* a, const void* b, void* y, int64_t n, bool step_a, bool step_b);

// Runs `run` over y with a and b broadcast; sizes in bytes of their elements.
void broadcast_binary(const Tensor& a, const Tensor& b, const Tensor& y, int64_t in_size, int64_t out_size,
                      BinaryRun run);

}  // namespace paddock::cpu
