// sort and topk: every element becomes an int64 key of the same order, so that one routine serves all types.
#include "cpu/kernel.h"
#include "cpu/sort_key.h"

namespace paddock::cpu {
namespace {

struct Item {
  int64_t key, index;
  bool operator<(const Item& o) const { return key != o.key ? key < o.key : index < o.index; }
};

// The first k of each line along the axis, in order; `descending` puts the largest first.
template <class T>
void sort_lines(const KernelContext& c, int64_t k, bool descending) {
  const Tensor& x = c.in(0);
  const int axis = c.axis("axis", x.shape().rank());
  const int64_t n = x.shape()[axis], inner = x.shape().count(axis + 1, x.shape().rank());
  const int64_t lines = x.shape().count(0, axis) * inner;
  const T* in = x.data<T>();
  T* values = c.out(0).data<T>();
  auto* indices = c.out(1).data<int64_t>();
  // A comparison sort costs about 16 times a copy.
  parallel_for(lines, row_grain(16 * n), [&](int64_t begin, int64_t end) {
    std::vector<Item> items(n);
    for (int64_t l = begin; l < end; ++l) {
      const T* line = in + l / inner * n * inner + l % inner;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t v = sort_key_of(line[i * inner]);
        items[i] = {descending ? ~v : v, i};
      }
      if (k < n) std::nth_element(items.begin(), items.begin() + k, items.end());
      std::sort(items.begin(), items.begin() + k);
      const int64_t at = l / inner * k * inner + l % inner;
      for (int64_t i = 0; i < k; ++i) {
        values[at + i * inner] = line[items[i].index * inner];
        indices[at + i * inner] = items[i].index;
      }
    }
  });
}

void sort_any(const KernelContext& c, int64_t k, bool descending) {
  dispatch_all(c.in(0).dtype(), [&](auto tag) { sort_lines<typename decltype(tag)::type>(c, k, descending); });
}

PADDOCK_CPU_KERNEL(topk) { sort_any(c, c.attr<int64_t>("k"), c.attr<bool>("largest")); }

PADDOCK_CPU_KERNEL(sort) {
  const Shape& x = c.in(0).shape();
  sort_any(c, x[c.axis("axis", x.rank())], c.attr<bool>("descending"));
}

}  // namespace
}  // namespace paddock::cpu
