// Slices of a tensor along some axes, as Python writes them: how attributes become one range per axis.
#pragma once
#include <limits>

#include "op/context.h"

namespace paddock {

// Elements begin, begin + step, ... (count of them) of an axis.
struct AxisRange {
  int64_t begin, step, count;
};

// Resolves one axis of extent n like Python's x[start:end:step]: negative counts from the end, what lies outside is
// cut.
inline AxisRange resolve_range(int64_t n, int64_t start, int64_t end, int64_t step) {
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  auto cut = [&](int64_t i) { return std::clamp(i < 0 ? i + n : i, low, high); };
  const int64_t from = cut(start), to = cut(end);
  const int64_t length = step > 0 ? to - from : from - to, stride = step > 0 ? step : -step;
  return {from, step, length > 0 ? (length - 1) / stride + 1 : 0};
}

// One range for each axis of x; axes that the attributes do not name are taken whole.
template <class Context>
std::vector<AxisRange> slice_ranges(const Context& c, const Shape& x) {
  const auto starts = c.template attr<Ints>("starts"), ends = c.template attr<Ints>("ends");
  auto axes = c.template attr<Ints>("axes"), steps = c.template attr<Ints>("steps");
  auto bad = [&](const auto&... what) { fail(ErrorKind::kAttribute, c.op().name, ": ", what...); };
  if (axes.empty())
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    bad("starts, ends, axes and steps have ", starts.size(), ", ", ends.size(), ", ", axes.size(), " and ",
        steps.size(), " numbers; they must have as many");
  std::vector<AxisRange> ranges;
  for (int64_t n : x) ranges.push_back({0, 1, n});
  uint32_t seen = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t a = axes[i] < 0 ? axes[i] + x.rank() : axes[i];
    if (a < 0 || a >= x.rank()) bad("axis ", axes[i], " does not exist in shape ", x);
    if (seen >> a & 1) bad("axes names axis ", a, " twice");
    if (steps[i] == 0) bad("step 0 on axis ", a, "; a step is at least 1, or negative");
    // One more than the lowest number, so that its negative exists.
    const int64_t step = std::max(steps[i], -std::numeric_limits<int64_t>::max());
    seen |= 1u << a;
    ranges[a] = resolve_range(x[static_cast<int>(a)], starts[i], ends[i], step);
  }
  return ranges;
}

inline Shape sliced_shape(const std::vector<AxisRange>& ranges) {
  Shape y;
  for (const auto& r : ranges) y.push_back(r.count);
  return y;
}

}  // namespace paddock
