// Kernels of ops/detection.cc.
#include "cpu/boxes/suppress.h"
#include "ops/nms_method.h"

namespace paddock::cpu {
namespace {

PADDOCK_CPU_KERNEL(box_iou) {
  dispatch_float(c.out(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto *a = c.in("a").data<Box<T>>(), *b = c.in("b").data<Box<T>>();
    T* iou = c.out(0).data<T>();
    const int64_t rows = c.out(0).shape()[0], columns = c.out(0).shape()[1];
    parallel_for(rows, row_grain(8 * columns), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          const T common = intersection(a[i], b[j]), both = a[i].area() + b[j].area() - common;
          iou[i * columns + j] = both > 0 ? common / both : T(0);
        }
      }
    });
  });
}

// The scores [rows, classes] of classes [first, last) above the threshold, one list a class, in the order of the rows.
// A NaN is above nothing.
template <class T>
void collect(const T* scores, int64_t rows, int64_t classes, int64_t first, int64_t last, T threshold,
             std::vector<Candidate<T>>* found) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = first; k < last; ++k)
      if (scores[i * classes + k] > threshold)
        found[k - first].push_back({scores[i * classes + k], static_cast<int32_t>(k), i});
}

PADDOCK_CPU_KERNEL(nms) {
  dispatch_float(c.in("boxes").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t count = c.in("scores").numel(), limit = c.out("keep").numel();
    std::vector<Candidate<T>> kept;
    collect<T>(c.in("scores").data<T>(), count, 1, 0, 1, c.attr<T>("score_threshold"), &kept);
    keep_best(kept, count);
    suppress<T>(kept, {c.in("boxes").data<Box<T>>()}, c.attr<T>("iou_threshold"), limit);
    auto* keep = c.out("keep").data<int64_t>();
    std::fill(keep, keep + limit, int64_t{-1});
    for (size_t i = 0; i < kept.size(); ++i) keep[i] = kept[i].index;
    *c.out("count").data<int64_t>() = static_cast<int64_t>(kept.size());
  });
}

// One image's rows of the outputs from what its classes kept.
template <class T>
int32_t write_detections(std::vector<Candidate<T>>& kept, const BoxTable<T>& boxes, T* rows, int64_t* index,
                         int64_t limit) {
  keep_best(kept, limit);
  const auto n = static_cast<int64_t>(kept.size());
  for (int64_t i = 0; i < limit; ++i, rows += 6) {
    std::fill(rows, rows + 6, T(0));
    rows[0] = T(-1);
    index[i] = -1;
    if (i >= n) continue;
    const Box<T>& box = boxes.of(kept[i]);
    const T row[6] = {static_cast<T>(kept[i].label), kept[i].score, box.x1, box.y1, box.x2, box.y2};
    std::copy(row, row + 6, rows);
    index[i] = kept[i].index;
  }
  return static_cast<int32_t>(n);
}

// What multiclass_nms does to the sorted candidates of one class.
template <class T>
struct Method {
  explicit Method(const KernelContext& c)
      : chosen(nms_method(c)),
        threshold(c.attr<T>("post_threshold")),
        decay{chosen == NmsMethod::kSoftGaussian || chosen == NmsMethod::kMatrixGaussian, c.attr<T>("iou_threshold"),
              c.attr<T>("sigma")} {}

  void apply(std::vector<Candidate<T>>& sorted, const BoxTable<T>& boxes, int64_t limit) const {
    if (chosen == NmsMethod::kHard)
      suppress(sorted, boxes, decay.iou_threshold, limit);
    else if (chosen == NmsMethod::kSoftLinear || chosen == NmsMethod::kSoftGaussian)
      soften(sorted, boxes, decay, threshold, limit);
    else
      soften_at_once(sorted, boxes, decay, threshold, limit);
  }

  NmsMethod chosen;
  T threshold;
  Decay<T> decay;
};

template <class T>
void detect(const KernelContext& c) {
  const Shape& s = c.in("scores").shape();
  const int64_t images = s[0], boxes_each = s[1], classes = s[2], limit = c.attr<int64_t>("keep_top_k");
  const int64_t per_row = c.in("boxes").shape().rank() == 4 ? classes : 1;
  const T* scores = c.in("scores").data<T>();
  const T threshold = c.attr<T>("score_threshold");
  const auto top = c.attr<int64_t>("nms_top_k");
  const Method<T> method(c);
  const auto boxes_of = [&](int64_t image) {
    return BoxTable<T>{c.in("boxes").data<Box<T>>() + image * boxes_each * per_row, per_row, per_row > 1 ? 1 : 0};
  };
  std::vector<std::vector<Candidate<T>>> kept(images * classes);
  // A task takes the classes of one cache line of scores, so that each line is read once.
  const int64_t together = 64 / static_cast<int64_t>(sizeof(T)), blocks = (classes + together - 1) / together;
  parallel_for(images * blocks, row_grain(boxes_each * together), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t image = t / blocks, first = t % blocks * together, last = std::min(classes, first + together);
      auto* lists = &kept[image * classes + first];
      collect<T>(scores + image * boxes_each * classes, boxes_each, classes, first, last, threshold, lists);
      for (int64_t k = 0; k < last - first; ++k) {
        keep_best(lists[k], top);
        method.apply(lists[k], boxes_of(image), limit);
      }
    }
  });
  for (int64_t image = 0; image < images; ++image) {
    std::vector<Candidate<T>> all;
    for (int64_t k = 0; k < classes; ++k) {
      const auto& some = kept[image * classes + k];
      all.insert(all.end(), some.begin(), some.end());
    }
    T* rows = c.out("detections").data<T>() + image * limit * 6;
    int64_t* index = c.out("index").data<int64_t>() + image * limit;
    c.out("count").data<int32_t>()[image] = write_detections<T>(all, boxes_of(image), rows, index, limit);
  }
}

PADDOCK_CPU_KERNEL(multiclass_nms) {
  dispatch_float(c.in("boxes").dtype(), [&](auto tag) { detect<typename decltype(tag)::type>(c); });
}

}  // namespace
}  // namespace paddock::cpu
