// Kernels of ops/detection.cc. Candidates are ordered by (score, class, index), so that ties never depend on chance.
#include "cpu/box.h"
#include "cpu/kernel.h"

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

template <class T>
struct Candidate {
  T score;
  int32_t label;
  int64_t index;
  bool operator<(const Candidate& o) const {  // the better comes first
    if (score != o.score) return score > o.score;
    return label != o.label ? label < o.label : index < o.index;
  }
};

// The kept boxes, one coordinate after the other, so that a candidate is compared with many of them at once.
template <class T>
class KeptBoxes {
 public:
  explicit KeptBoxes(T threshold) : threshold_(threshold) {}

  bool overlaps(const Box<T>& box) const {
    const T area = box.area();
    const auto n = static_cast<int64_t>(x1_.size());
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      const int64_t end = std::min(n, begin + kBlock);
      int hits = 0;
      for (int64_t i = begin; i < end; ++i) {
        const T w = std::min(box.x2, x2_[i]) - std::max(box.x1, x1_[i]);
        const T h = std::min(box.y2, y2_[i]) - std::max(box.y1, y1_[i]);
        const T common = std::max(T(0), w) * std::max(T(0), h);
        hits += common > threshold_ * (area + area_[i] - common);
      }
      if (hits) return true;
    }
    return false;
  }

  void add(const Box<T>& box) {
    x1_.push_back(box.x1);
    y1_.push_back(box.y1);
    x2_.push_back(box.x2);
    y2_.push_back(box.y2);
    area_.push_back(box.area());
  }

 private:
  static constexpr int64_t kBlock = 32;
  T threshold_;
  std::vector<T> x1_, y1_, x2_, y2_, area_;
};

// Brings the best `top` of the candidates to the front, in order, and drops the rest.
template <class T>
void keep_best(std::vector<Candidate<T>>& found, int64_t top) {
  if (top < static_cast<int64_t>(found.size())) {
    std::nth_element(found.begin(), found.begin() + top, found.end());
    found.resize(top);
  }
  std::sort(found.begin(), found.end());
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

// Keeps the candidates, in order, that overlap none kept before; at most `limit`.
template <class T>
void suppress(std::vector<Candidate<T>>& sorted, const Box<T>* boxes, T iou_threshold, int64_t limit) {
  KeptBoxes<T> kept(iou_threshold);
  int64_t n = 0;
  for (size_t i = 0; i < sorted.size() && n < limit; ++i) {
    const Box<T>& box = boxes[sorted[i].index];
    if (kept.overlaps(box)) continue;
    kept.add(box);
    sorted[n++] = sorted[i];
  }
  sorted.resize(n);
}

PADDOCK_CPU_KERNEL(nms) {
  dispatch_float(c.in("boxes").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t count = c.in("scores").numel(), limit = c.out("keep").numel();
    std::vector<Candidate<T>> kept;
    collect<T>(c.in("scores").data<T>(), count, 1, 0, 1, c.attr<T>("score_threshold"), &kept);
    keep_best(kept, count);
    suppress<T>(kept, c.in("boxes").data<Box<T>>(), c.attr<T>("iou_threshold"), limit);
    auto* keep = c.out("keep").data<int64_t>();
    std::fill(keep, keep + limit, int64_t{-1});
    for (size_t i = 0; i < kept.size(); ++i) keep[i] = kept[i].index;
    *c.out("count").data<int64_t>() = static_cast<int64_t>(kept.size());
  });
}

// One image's rows of the output from what its classes kept.
template <class T>
int32_t write_detections(std::vector<Candidate<T>>& kept, const Box<T>* boxes, T* rows, int64_t limit) {
  keep_best(kept, limit);
  const auto n = static_cast<int64_t>(kept.size());
  for (int64_t i = 0; i < limit; ++i, rows += 6) {
    std::fill(rows, rows + 6, T(0));
    rows[0] = T(-1);
    if (i >= n) continue;
    const Box<T>& box = boxes[kept[i].index];
    const T row[6] = {static_cast<T>(kept[i].label), kept[i].score, box.x1, box.y1, box.x2, box.y2};
    std::copy(row, row + 6, rows);
  }
  return static_cast<int32_t>(n);
}

template <class T>
void detect(const KernelContext& c) {
  const Shape& s = c.in("scores").shape();
  const int64_t images = s[0], boxes_each = s[1], classes = s[2], limit = c.attr<int64_t>("keep_top_k");
  const auto* boxes = c.in("boxes").data<Box<T>>();
  const T* scores = c.in("scores").data<T>();
  const T threshold = c.attr<T>("score_threshold"), iou_threshold = c.attr<T>("iou_threshold");
  const auto top = c.attr<int64_t>("nms_top_k");
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
        suppress<T>(lists[k], boxes + image * boxes_each, iou_threshold, limit);
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
    c.out("count").data<int32_t>()[image] = write_detections<T>(all, boxes + image * boxes_each, rows, limit);
  }
}

PADDOCK_CPU_KERNEL(multiclass_nms) {
  dispatch_float(c.in("boxes").dtype(), [&](auto tag) { detect<typename decltype(tag)::type>(c); });
}

}  // namespace
}  // namespace paddock::cpu
