// Suppression of boxes that overlap a better one: what nms, multiclass_nms and select_proposals share.
// Candidates are ordered by (score, class, index), so that ties never depend on chance.
#pragma once
#include <cmath>
#include <limits>

#include "cpu/boxes/box.h"
#include "cpu/kernel.h"
#include "cpu/vec/vec.h"

namespace paddock::cpu {

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

// An image's boxes: one a row for all classes, or one for each of its classes.
template <class T>
struct BoxTable {
  const Box<T>* boxes;
  int64_t row = 1, label = 0;  // boxes from one row to the next, and from one class to the next
  const Box<T>& of(const Candidate<T>& c) const { return boxes[c.index * row + c.label * label]; }
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
        const T common = shared(box, i);
        hits += common > threshold_ * (area + area_[i] - common);
      }
      if (hits) return true;
    }
    return false;
  }

  // IoU of `box` with each of the boxes added so far; 0 where neither has an area.
  void overlaps(const Box<T>& box, T* iou) const {
    const T area = box.area();
    for (size_t i = 0; i < x1_.size(); ++i) {
      const T common = shared(box, static_cast<int64_t>(i));
      iou[i] = common > 0 ? common / (area + area_[i] - common) : T(0);
    }
  }

  void add(const Box<T>& box) {
    x1_.push_back(box.x1);
    y1_.push_back(box.y1);
    x2_.push_back(box.x2);
    y2_.push_back(box.y2);
    area_.push_back(box.area());
  }

 private:
  PADDOCK_INLINE T shared(const Box<T>& box, int64_t i) const {
    const T w = std::min(box.x2, x2_[i]) - std::max(box.x1, x1_[i]);
    const T h = std::min(box.y2, y2_[i]) - std::max(box.y1, y1_[i]);
    return std::max(T(0), w) * std::max(T(0), h);
  }

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

// Keeps the candidates, in order, that overlap none kept before; at most `limit`.
template <class T>
void suppress(std::vector<Candidate<T>>& sorted, const BoxTable<T>& boxes, T iou_threshold, int64_t limit) {
  KeptBoxes<T> kept(iou_threshold);
  int64_t n = 0;
  for (size_t i = 0; i < sorted.size() && n < limit; ++i) {
    const Box<T>& box = boxes.of(sorted[i]);
    if (kept.overlaps(box)) continue;
    kept.add(box);
    sorted[n++] = sorted[i];
  }
  sorted.resize(n);
}

// How a score falls with the overlap with a better box.
template <class T>
struct Decay {
  bool gaussian;
  T iou_threshold, sigma;  // sigma of the Gaussian, the threshold of the linear form
};

// Soft suppression (Bodla et al. 2017): the best candidate lowers the scores of all others, and so on.
template <class T>
void soften(std::vector<Candidate<T>>& some, const BoxTable<T>& boxes, const Decay<T>& decay, T threshold,
            int64_t limit) {
  const auto n = static_cast<int64_t>(some.size());
  for (int64_t i = 0; i < n; ++i) {
    std::iter_swap(some.begin() + i, std::min_element(some.begin() + i, some.end()));
    if (i == limit || !(some[i].score > threshold)) {
      some.resize(i);
      return;
    }
    const Box<T>& best = boxes.of(some[i]);
    for (int64_t j = i + 1; j < n; ++j) {
      const Box<T>& box = boxes.of(some[j]);
      const T common = intersection(best, box);
      if (!(common > 0)) continue;
      const T iou = common / (best.area() + box.area() - common);
      if (decay.gaussian)
        some[j].score *= std::exp(-iou * iou / decay.sigma);
      else if (iou > decay.iou_threshold)
        some[j].score *= 1 - iou;
    }
  }
}

// Matrix suppression (Wang et al. 2020, SOLOv2): each score is lowered once, by the better candidate that overlaps it
// most in relation to how much that one is overlapped itself. Leaves the candidates in their new order.
template <class T>
void soften_at_once(std::vector<Candidate<T>>& sorted, const BoxTable<T>& boxes, const Decay<T>& decay, T threshold,
                    int64_t limit) {
  const size_t n = sorted.size();
  KeptBoxes<T> better(T(0));
  std::vector<T> iou(n), most(n, T(0));  // most: of each candidate, with any better one
  for (size_t j = 0; j < n; ++j) {
    const Box<T>& box = boxes.of(sorted[j]);
    better.overlaps(box, iou.data());
    T least = 1;
    for (size_t i = 0; i < j; ++i) {
      most[j] = std::max(most[j], iou[i]);
      const T rest = 1 - most[i];
      if (decay.gaussian)
        least = std::min(least, std::exp((most[i] * most[i] - iou[i] * iou[i]) / decay.sigma));
      else if (rest > 0)
        least = std::min(least, (1 - iou[i]) / rest);
    }
    better.add(box);
    sorted[j].score *= least;
  }
  std::erase_if(sorted, [&](const Candidate<T>& c) { return !(c.score > threshold); });
  keep_best(sorted, limit);
}

}  // namespace paddock::cpu
