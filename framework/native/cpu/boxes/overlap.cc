// Kernel of ops/overlap.cc.
#include "cpu/kernel.h"

namespace paddock::cpu {
namespace {

// Boxes handled together: their coordinates lie in registers while the others [M, 4] stream by.
inline constexpr int kLanes = 16;

// Largest IoU of `count` <= kLanes boxes [count, 4] with others [m, 4].
template <class T>
void block_max_iou(const T* boxes, int count, const T* others, int64_t m, T* out) {
  T x1[kLanes], y1[kLanes], x2[kLanes], y2[kLanes], area[kLanes], best[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    const T* b = boxes + 4 * (i < count ? i : 0);
    x1[i] = b[0], y1[i] = b[1], x2[i] = b[2], y2[i] = b[3];
    area[i] = (x2[i] - x1[i]) * (y2[i] - y1[i]);
    best[i] = 0;
  }
  for (int64_t j = 0; j < m; ++j) {
    const T a1 = others[4 * j], b1 = others[4 * j + 1], a2 = others[4 * j + 2], b2 = others[4 * j + 3];
    if (!(a2 > a1 && b2 > b1)) continue;
    const T other_area = (a2 - a1) * (b2 - b1);
    for (int i = 0; i < kLanes; ++i) {
      const T w = std::min(x2[i], a2) - std::max(x1[i], a1);
      const T h = std::min(y2[i], b2) - std::max(y1[i], b1);
      const T inner = std::max(w, T(0)) * std::max(h, T(0));
      const T iou = inner / (area[i] + other_area - inner);
      best[i] = iou > best[i] ? iou : best[i];
    }
  }
  std::copy(best, best + count, out);
}

PADDOCK_CPU_KERNEL(max_iou) {
  const Shape& shape = c.in(0).shape();
  const int64_t p = shape[1], m = c.in(1).shape()[1];
  const int64_t blocks = (p + kLanes - 1) / kLanes;
  dispatch_float(c.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* boxes = c.in(0).data<T>();
    const T* others = c.in(1).data<T>();
    T* out = c.out(0).data<T>();
    parallel_for(shape[0] * blocks, row_grain(kLanes * (m + 1) * 4), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t n = task / blocks, first = task % blocks * kLanes;
        const int count = static_cast<int>(std::min<int64_t>(kLanes, p - first));
        block_max_iou(boxes + (n * p + first) * 4, count, others + n * m * 4, m, out + n * p + first);
      }
    });
  });
}

}  // namespace
}  // namespace paddock::cpu
