// Kernels of ops/boxes.cc.
#include <cmath>

#include "cpu/boxes/box.h"
#include "cpu/elementwise/broadcast.h"
#include "cpu/kernel.h"

namespace paddock::cpu {
namespace {

// The shape without its last axis: one number a box.
Shape rows_of(const Shape& boxes) {
  Shape rows = boxes;
  rows.erase(rows.rank() - 1);
  return rows;
}

// Calls body(row of a, row of b, row of the result) for every box of two inputs that broadcast, in parallel.
template <class F>
void for_each_pair(const Tensor& a, const Tensor& b, const Tensor& result, F&& body) {
  const Shape rows_a = rows_of(a.shape()), rows_b = rows_of(b.shape());
  const auto plan = make_plan<2>(rows_of(result.shape()), {&rows_a, &rows_b});
  const int last = plan.rank - 1;
  parallel_for(plan.numel, kGrain / 32, [&](int64_t begin, int64_t end) {
    run_range(plan, begin, end, [&](const std::array<int64_t, 2>& from, int64_t at, int64_t n) {
      for (int64_t i = 0; i < n; ++i)
        body(from[0] + i * plan.stride[0][last], from[1] + i * plan.stride[1][last], at + i);
    });
  });
}

template <class T>
BoxCoder<T> coder_of(const KernelContext& c) {
  return {c.attr<std::vector<double>>("weights"), c.attr<double>("max_log_scale")};
}

PADDOCK_CPU_KERNEL(box_encode) {
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto *boxes = c.in("boxes").data<Box<T>>(), *anchors = c.in("anchors").data<Box<T>>();
    const BoxCoder<T> coder(c.attr<std::vector<double>>("weights"), 0);
    T* deltas = c.out(0).data<T>();
    for_each_pair(c.in("boxes"), c.in("anchors"), c.out(0), [&](int64_t i, int64_t j, int64_t at) {
      const Box<T>&b = boxes[i], &a = anchors[j];
      T* d = deltas + 4 * at;
      if (!b.has_area() || !a.has_area()) {
        std::fill(d, d + 4, T(0));
        return;
      }
      const T w = a.x2 - a.x1, h = a.y2 - a.y1;
      d[0] = coder.weights[0] * ((b.x1 + b.x2) / 2 - (a.x1 + a.x2) / 2) / w;
      d[1] = coder.weights[1] * ((b.y1 + b.y2) / 2 - (a.y1 + a.y2) / 2) / h;
      d[2] = coder.weights[2] * std::log((b.x2 - b.x1) / w);
      d[3] = coder.weights[3] * std::log((b.y2 - b.y1) / h);
    });
  });
}

PADDOCK_CPU_KERNEL(box_decode) {
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* deltas = c.in("deltas").data<T>();
    const auto* anchors = c.in("anchors").data<Box<T>>();
    auto* boxes = c.out(0).data<Box<T>>();
    const BoxCoder<T> coder = coder_of<T>(c);
    for_each_pair(c.in("deltas"), c.in("anchors"), c.out(0),
                  [&](int64_t i, int64_t j, int64_t at) { boxes[at] = coder.decode(deltas + 4 * i, anchors[j]); });
  });
}

// Along one axis: a box from `low` to `high`, whose gradients are dlow and dhigh, from an anchor of extent `size`.
template <class T>
struct AxisGrad {
  T dcentre, dscale, danchor_low, danchor_high;

  AxisGrad(T dlow, T dhigh, T size, T shift, T shift_weight, T scale, T scale_weight, T limit) {
    const T log_scale = scale / scale_weight, stretch = std::exp(std::min(log_scale, limit));
    const T sum = dlow + dhigh, half = (dhigh - dlow) / 2 * stretch;
    dcentre = sum * size / shift_weight;
    dscale = log_scale > limit ? T(0) : half * size / scale_weight;
    const T dsize = sum * (shift / shift_weight) + half;
    danchor_low = sum / 2 - dsize;
    danchor_high = sum / 2 + dsize;
  }
};

PADDOCK_CPU_KERNEL(box_decode_grad) {
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *deltas = c.in("deltas").data<T>(), *dy = c.in("dy").data<T>();
    const auto* anchors = c.in("anchors").data<Box<T>>();
    T *ddeltas = c.out(0).data<T>(), *danchors = c.out(1).data<T>();
    const BoxCoder<T> coder = coder_of<T>(c);
    const T *weights = coder.weights, limit = coder.max_log_scale;
    for_each_pair(c.in("deltas"), c.in("anchors"), c.out(0), [&](int64_t i, int64_t j, int64_t at) {
      const T *d = deltas + 4 * i, *g = dy + 4 * at;
      const Box<T>& a = anchors[j];
      const AxisGrad<T> x(g[0], g[2], a.x2 - a.x1, d[0], weights[0], d[2], weights[2], limit);
      const AxisGrad<T> y(g[1], g[3], a.y2 - a.y1, d[1], weights[1], d[3], weights[3], limit);
      const T by_deltas[4] = {x.dcentre, y.dcentre, x.dscale, y.dscale};
      const T by_anchors[4] = {x.danchor_low, y.danchor_low, x.danchor_high, y.danchor_high};
      std::copy(by_deltas, by_deltas + 4, ddeltas + 4 * at);
      std::copy(by_anchors, by_anchors + 4, danchors + 4 * at);
    });
  });
}

// Calls body(number of the box, height, width of its image) for every box of [N, P, 4], in parallel.
template <class T, class F>
void for_each_in_image(const KernelContext& c, F&& body) {
  const Shape& shape = c.in("boxes").shape();
  const int64_t each = shape[1];
  dispatch_index(c.in("sizes").dtype(), [&](auto tag) {
    const auto* sizes = c.in("sizes").template data<typename decltype(tag)::type>();
    parallel_for(shape[0] * each, kGrain / 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto* size = sizes + i / each * 2;
        body(i, static_cast<T>(size[0]), static_cast<T>(size[1]));
      }
    });
  });
}

PADDOCK_CPU_KERNEL(clip_boxes) {
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* boxes = c.in("boxes").data<Box<T>>();
    auto* out = c.out(0).data<Box<T>>();
    for_each_in_image<T>(c, [&](int64_t i, T height, T width) { out[i] = clipped(boxes[i], height, width); });
  });
}

PADDOCK_CPU_KERNEL(clip_boxes_grad) {
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *dy = c.in("dy").data<T>(), *boxes = c.in("boxes").data<T>();
    T* out = c.out(0).data<T>();
    for_each_in_image<T>(c, [&](int64_t i, T height, T width) {
      for (int64_t k = 0; k < 4; ++k) {
        const T v = boxes[4 * i + k];
        out[4 * i + k] = v < 0 || v > (k % 2 ? height : width) ? T(0) : dy[4 * i + k];
      }
    });
  });
}

PADDOCK_CPU_KERNEL(anchor_grid) {
  const Shape& map = c.in("map").shape();
  const auto cells = c.attr<std::vector<double>>("cells"), stride = c.attr<std::vector<double>>("stride");
  const double offset = c.attr<double>("offset");
  const int64_t width = map[2], each = static_cast<int64_t>(cells.size());
  if (c.out(0).numel() == 0) return;
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* anchors = c.out(0).data<T>();
    parallel_for(map[1], row_grain(width * each), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t j = 0; j < width; ++j) {
          const double y = (static_cast<double>(i) + offset) * stride.front();
          const double x = (static_cast<double>(j) + offset) * stride.back();
          T* out = anchors + (i * width + j) * each;
          for (int64_t k = 0; k < each; ++k) out[k] = static_cast<T>(cells[k] + (k % 2 ? y : x));
        }
    });
  });
}

}  // namespace
}  // namespace paddock::cpu
