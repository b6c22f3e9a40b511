// Kernel of ops/proposals.cc.
#include "cpu/boxes/suppress.h"

namespace paddock::cpu {
namespace {

constexpr double kNoScore = -1e30;  // of rows without a region

template <class T>
struct Selection {
  int64_t anchors, pre_nms, post_nms;
  T iou_threshold, min_side;
  BoxCoder<T> coder;

  // One image of height x width; returns how many regions it has.
  int32_t run(const T* logits, const T* deltas, const Box<T>* at, T height, T width, Box<T>* boxes, T* scores) const {
    std::vector<Candidate<T>> best;
    for (int64_t p = 0; p < anchors; ++p)
      if (logits[p] == logits[p]) best.push_back({logits[p], 0, p});
    keep_best(best, pre_nms);
    std::vector<Box<T>> regions;
    std::vector<Candidate<T>> usable;
    for (const Candidate<T>& candidate : best) {
      const int64_t p = candidate.index;
      const Box<T> region = clipped(coder.decode(deltas + 4 * p, at[p]), height, width);
      if (!region.has_area() || region.x2 - region.x1 < min_side || region.y2 - region.y1 < min_side) continue;
      usable.push_back({candidate.score, 0, static_cast<int64_t>(regions.size())});
      regions.push_back(region);
    }
    suppress<T>(usable, {regions.data()}, iou_threshold, post_nms);
    const auto n = static_cast<int64_t>(usable.size());
    for (int64_t i = 0; i < post_nms; ++i) {
      boxes[i] = i < n ? regions[usable[i].index] : Box<T>{};
      scores[i] = i < n ? usable[i].score : static_cast<T>(kNoScore);
    }
    return static_cast<int32_t>(n);
  }
};

PADDOCK_CPU_KERNEL(select_proposals) {
  const Shape& shape = c.in("logits").shape();
  dispatch_float(c.in("logits").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Selection<T> selection{shape[1],
                                 c.attr<int64_t>("pre_nms"),
                                 c.attr<int64_t>("post_nms"),
                                 c.attr<T>("iou_threshold"),
                                 c.attr<T>("min_side"),
                                 {c.attr<std::vector<double>>("weights"), c.attr<double>("max_log_scale")}};
    const int64_t each = shape[1], kept = selection.post_nms;
    dispatch_index(c.in("sizes").dtype(), [&](auto size_tag) {
      const auto* sizes = c.in("sizes").template data<typename decltype(size_tag)::type>();
      parallel_for(shape[0], 1, [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n)
          c.out("count").template data<int32_t>()[n] = selection.run(
              c.in("logits").template data<T>() + n * each, c.in("deltas").template data<T>() + n * each * 4,
              c.in("anchors").template data<Box<T>>(), static_cast<T>(sizes[2 * n]), static_cast<T>(sizes[2 * n + 1]),
              c.out("boxes").template data<Box<T>>() + n * kept, c.out("scores").template data<T>() + n * kept);
      });
    });
  });
}

}  // namespace
}  // namespace paddock::cpu
