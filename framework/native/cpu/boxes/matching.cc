// Kernels of ops/matching.cc. Built without fused multiply-adds: an IoU has the same bits wherever it is worked out.
#include <limits>

#include "cpu/boxes/box.h"
#include "cpu/kernel.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kBackground = -1, kNeither = -2;

// Of a ground truth, the first anchor with the largest IoU; -1 where none overlaps it.
template <class T>
struct Best {
  T iou = 0;
  int64_t anchor = -1;
  void take(const Best& o) {
    if (o.iou > iou) *this = o;
  }
};

constexpr int kLanes = 16;                  // anchors handled together
constexpr int64_t kAnchorsTogether = 4096;  // and by one task, a multiple of kLanes

// Of a ground truth and of every kLanes-th anchor the first with the largest IoU: it stands `lane` after `first`.
template <class T>
struct Lanes {
  T iou[kLanes] = {};
  int32_t first[kLanes] = {};
};

// The truths that can be matched and those that are ignored, of one image.
template <class T>
struct Truths {
  std::vector<Box<T>> boxes, ignored;
  std::vector<T> areas;
  std::vector<int64_t> numbers;  // in the padded list
};

template <class T>
T overlap(const Box<T>& a, T area_a, const Box<T>& b, T area_b) {
  const T common = intersection(a, b);
  return common > 0 ? common / (area_a + area_b - common) : T(0);
}

struct Rules {
  double high, low, ignore_iou;
  bool keep_best, claim_best;
};

// One image: anchors [P, 4] to match [P].
template <class T>
class Matcher {
 public:
  Matcher(const Box<T>* anchors, int64_t count, const Truths<T>& truths, const Rules& rules, int64_t* match)
      : anchors_(anchors), count_(count), truths_(truths), rules_(rules), match_(match) {}

  void run() {
    const int64_t grain = kAnchorsTogether, chunks = (count_ + grain - 1) / grain;
    std::vector<std::vector<Best<T>>> found(chunks);
    which_.resize(count_);
    most_.resize(count_);
    parallel_for(count_, grain, [&](int64_t begin, int64_t end) { look(begin, end, &found[begin / grain]); });
    if (truths_.boxes.empty() || !(rules_.keep_best || rules_.claim_best)) return;
    best_.resize(truths_.boxes.size());
    for (const auto& some : found)
      for (size_t m = 0; m < best_.size(); ++m) best_[m].take(some[m]);
    if (rules_.keep_best) parallel_for(count_, grain, [&](int64_t begin, int64_t end) { keep(begin, end); });
    if (rules_.claim_best) claim();
  }

 private:
  // Fills match of anchors [begin, end) by the thresholds, and the best of them for each truth.
  void look(int64_t begin, int64_t end, std::vector<Best<T>>* best) {
    std::vector<Lanes<T>> lanes(truths_.boxes.size());
    for (int64_t p = begin; p < end; p += kLanes)
      compare(p, static_cast<int>(std::min<int64_t>(kLanes, end - p)), lanes.data());
    for (const Lanes<T>& some : lanes) {
      Best<T> first;
      for (int i = 0; i < kLanes; ++i) {
        const int64_t p = some.first[i] + i;
        if (some.iou[i] > first.iou || (some.iou[i] > 0 && some.iou[i] == first.iou && p < first.anchor))
          first = {some.iou[i], p};
      }
      best->push_back(first);
    }
    const T high = static_cast<T>(rules_.high), low = static_cast<T>(rules_.low);
    for (int64_t p = begin; p < end; ++p) {
      match_[p] = kNeither;
      if (!anchors_[p].has_area()) continue;
      if (which_[p] >= 0 && most_[p] >= high)
        match_[p] = truths_.numbers[which_[p]];
      else if (which_[p] < 0 || most_[p] < low)
        match_[p] = is_ignored(anchors_[p], anchors_[p].area()) ? kNeither : kBackground;
    }
  }

  // Anchors [p, p + count) with all truths, a lane an anchor.
  void compare(int64_t p, int count, Lanes<T>* lanes) {
    T x1[kLanes], y1[kLanes], x2[kLanes], y2[kLanes], area[kLanes], most[kLanes];
    int32_t which[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      const Box<T> anchor = i < count && anchors_[p + i].has_area() ? anchors_[p + i] : Box<T>{};
      x1[i] = anchor.x1, y1[i] = anchor.y1, x2[i] = anchor.x2, y2[i] = anchor.y2;
      area[i] = anchor.area();
      most[i] = 0;
      which[i] = -1;
    }
    for (size_t m = 0; m < truths_.boxes.size(); ++m) {
      const Box<T> truth = truths_.boxes[m];
      const T truth_area = truths_.areas[m];
      Lanes<T>& best = lanes[m];
      for (int i = 0; i < kLanes; ++i) {
        const T w = std::min(x2[i], truth.x2) - std::max(x1[i], truth.x1);
        const T h = std::min(y2[i], truth.y2) - std::max(y1[i], truth.y1);
        const T common = std::max(T(0), w) * std::max(T(0), h);
        const T iou = common / (area[i] + truth_area - common);
        which[i] = iou > most[i] ? static_cast<int32_t>(m) : which[i];
        most[i] = iou > most[i] ? iou : most[i];
        best.first[i] = iou > best.iou[i] ? static_cast<int32_t>(p) : best.first[i];
        best.iou[i] = iou > best.iou[i] ? iou : best.iou[i];
      }
    }
    std::copy(most, most + count, most_.data() + p);
    std::copy(which, which + count, which_.data() + p);
  }

  bool is_ignored(const Box<T>& anchor, T area) const {
    const T least = static_cast<T>(rules_.ignore_iou) * area;
    for (const Box<T>& region : truths_.ignored) {
      const T common = intersection(anchor, region);
      if (common > 0 && common >= least) return true;
    }
    return false;
  }

  void keep(int64_t begin, int64_t end) {
    T least = std::numeric_limits<T>::infinity();  // no anchor below it is anybody's best
    for (const Best<T>& b : best_)
      if (b.anchor >= 0) least = std::min(least, b.iou);
    for (int64_t p = begin; p < end; ++p) {
      if (which_[p] < 0 || most_[p] < least) continue;
      const T area = anchors_[p].area();
      for (size_t m = 0; m < best_.size(); ++m)
        if (best_[m].anchor >= 0 && overlap(anchors_[p], area, truths_.boxes[m], truths_.areas[m]) == best_[m].iou) {
          match_[p] = truths_.numbers[which_[p]];
          break;
        }
    }
  }

  // Takes the best pair of a truth and an anchor that are both free, until no truth has one.
  void claim() {
    std::vector<bool> taken(count_, false);
    for (size_t rest = best_.size(); rest > 0;) {
      size_t m = 0;
      for (size_t i = 1; i < best_.size(); ++i)
        if (best_[i].iou > best_[m].iou) m = i;
      if (best_[m].anchor < 0) return;
      if (taken[best_[m].anchor]) {
        best_[m] = best_free(m, taken);
        continue;
      }
      taken[best_[m].anchor] = true;
      match_[best_[m].anchor] = truths_.numbers[m];
      best_[m] = {};
      --rest;
    }
  }

  Best<T> best_free(size_t m, const std::vector<bool>& taken) const {
    Best<T> best;
    for (int64_t p = 0; p < count_; ++p)
      if (!taken[p] && anchors_[p].has_area())
        best.take({overlap(anchors_[p], anchors_[p].area(), truths_.boxes[m], truths_.areas[m]), p});
    return best;
  }

  const Box<T>* anchors_;
  int64_t count_;
  const Truths<T>& truths_;
  const Rules& rules_;
  int64_t* match_;
  std::vector<int32_t> which_;  // of each anchor the truth that it overlaps most, -1 for none
  std::vector<T> most_;         // and how much
  std::vector<Best<T>> best_;
};

template <class T>
void match(const KernelContext& c) {
  const Tensor& anchors = c.in("anchors");
  const Shape& truths = c.in("truths").shape();
  const int64_t count = c.out(0).shape()[1], step = anchors.shape().rank() == 3 ? count : 0;
  const bool* ignored = c.maybe<bool>("ignored");
  const Rules rules{c.attr<double>("high"), c.attr<double>("low"), c.attr<double>("ignore_iou"),
                    c.attr<bool>("keep_best"), c.attr<bool>("claim_best")};
  for (int64_t n = 0; n < truths[0]; ++n) {
    Truths<T> some;
    for (int64_t m = 0; m < truths[1]; ++m) {
      const Box<T>& box = c.in("truths").data<Box<T>>()[n * truths[1] + m];
      if (!box.has_area()) continue;
      if (ignored && ignored[n * truths[1] + m]) {
        some.ignored.push_back(box);
        continue;
      }
      some.boxes.push_back(box);
      some.areas.push_back(box.area());
      some.numbers.push_back(m);
    }
    Matcher<T>(anchors.data<Box<T>>() + n * step, count, some, rules, c.out(0).data<int64_t>() + n * count).run();
  }
}

PADDOCK_CPU_KERNEL(match_boxes) {
  dispatch_float(c.in("anchors").dtype(), [&](auto tag) { match<typename decltype(tag)::type>(c); });
}

template <class T>
struct Draw {
  T key;
  int64_t index;
  bool operator<(const Draw& o) const { return key != o.key ? key < o.key : index < o.index; }
};

// The `most` draws with the smallest keys, in order.
template <class T>
void keep_smallest(std::vector<Draw<T>>& draws, int64_t most) {
  if (most < static_cast<int64_t>(draws.size())) {
    std::nth_element(draws.begin(), draws.begin() + most, draws.end());
    draws.resize(most);
  }
  std::sort(draws.begin(), draws.end());
}

template <class T>
void sample(const KernelContext& c) {
  const int64_t count = c.attr<int64_t>("count"), each = c.in("match").shape()[1];
  // A share such as 0.29 is a little less in binary than it says.
  const auto most = static_cast<int64_t>(static_cast<double>(count) * c.attr<double>("positive_share") + 1e-6);
  parallel_for(c.in("match").shape()[0], 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t* match = c.in("match").data<int64_t>() + n * each;
      const T* keys = c.in("keys").data<T>() + n * each;
      std::vector<Draw<T>> matched, background;
      for (int64_t p = 0; p < each; ++p) {
        const T key = keys[p] == keys[p] ? keys[p] : std::numeric_limits<T>::infinity();
        if (match[p] >= 0) matched.push_back({key, p});
        if (match[p] == kBackground) background.push_back({key, p});
      }
      keep_smallest(matched, std::min(most, count));
      keep_smallest(background, count - static_cast<int64_t>(matched.size()));
      matched.insert(matched.end(), background.begin(), background.end());
      int64_t *index = c.out("index").data<int64_t>() + n * count, *kind = c.out("kind").data<int64_t>() + n * count;
      for (int64_t i = 0; i < count; ++i) {
        const bool filled = i < static_cast<int64_t>(matched.size());
        index[i] = filled ? matched[i].index : 0;
        kind[i] = filled ? match[matched[i].index] : kNeither;
      }
    }
  });
}

PADDOCK_CPU_KERNEL(sample_matches) {
  dispatch_float(c.in("keys").dtype(), [&](auto tag) { sample<typename decltype(tag)::type>(c); });
}

}  // namespace
}  // namespace paddock::cpu
