// sort and topk: every element becomes an integer key of the same order, so that two sorters serve all types. Both give
// equal values in the order of their places.
#include <array>
#include <utility>

#include "cpu/kernel.h"
#include "cpu/movement/sort_key.h"

namespace paddock::cpu {
namespace {

// Compares 64-bit keys: any type, any line, and the first k of it without sorting the rest.
class ByComparison {
 public:
  explicit ByComparison(int64_t n) : items_(static_cast<size_t>(n)) {}

  // Of the elements line[i * inner], puts the first k in order.
  template <class T>
  void sort(const T* line, int64_t inner, int64_t k, bool descending) {
    for (size_t i = 0; i < items_.size(); ++i) {
      const int64_t v = sort_key_of(line[static_cast<int64_t>(i) * inner]);
      items_[i] = {descending ? ~v : v, static_cast<int64_t>(i)};
    }
    if (k < std::ssize(items_)) std::nth_element(items_.begin(), items_.begin() + k, items_.end());
    std::sort(items_.begin(), items_.begin() + k);
  }

  // Where the i-th element in order stood.
  int64_t place(int64_t i) const { return items_[static_cast<size_t>(i)].second; }

 private:
  std::vector<std::pair<int64_t, int64_t>> items_;  // key, place
};

// Sorts 32-bit keys by three digits of 11 bits, the lowest first. Each pass is stable, and reads and writes 8 bytes an
// element; a digit that all keys share has none.
class ByDigits {
 public:
  explicit ByDigits(int64_t n) : items_(static_cast<size_t>(n)), spare_(items_.size()) {}

  // As ByComparison's, of all elements.
  template <class T>
  void sort(const T* line, int64_t inner, int64_t, bool descending) {
    const uint32_t flip = descending ? ~0u : 0u;
    for (auto& start : starts_) start.fill(0);
    for (size_t i = 0; i < items_.size(); ++i) {
      const uint32_t key = narrow_sort_key_of(line[static_cast<int64_t>(i) * inner]) ^ flip;
      items_[i] = {key, static_cast<uint32_t>(i)};
      for (int d = 0; d < kDigits; ++d) ++starts_[d][digit(key, d)];
    }
    for (int d = 0; d < kDigits; ++d) order_by(d);
  }

  // Where the i-th element in order stood.
  int64_t place(int64_t i) const { return items_[static_cast<size_t>(i)].place; }

 private:
  static constexpr int kDigits = 3, kBits = 11;
  struct Item {
    uint32_t key, place;
  };

  static uint32_t digit(uint32_t key, int d) { return key >> (d * kBits) & ((1u << kBits) - 1); }

  void order_by(int d) {
    auto& start = starts_[d];  // how many items have each digit, then where the next of them goes
    if (start[digit(items_.front().key, d)] == items_.size()) return;
    uint32_t before = 0;
    for (uint32_t& count : start) before += std::exchange(count, before);
    for (const Item& item : items_) spare_[start[digit(item.key, d)]++] = item;
    items_.swap(spare_);
  }

  std::vector<Item> items_, spare_;
  std::array<std::array<uint32_t, 1u << kBits>, kDigits> starts_;
};

// The first k of each line along the axis, in order; `descending` puts the largest first.
template <class Sorter, class T>
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
    Sorter sorter(n);
    for (int64_t l = begin; l < end; ++l) {
      const T* line = in + l / inner * n * inner + l % inner;
      sorter.sort(line, inner, k, descending);
      const int64_t at = l / inner * k * inner + l % inner;
      for (int64_t i = 0; i < k; ++i) {
        const int64_t place = sorter.place(i);
        values[at + i * inner] = line[place * inner];
        indices[at + i * inner] = place;
      }
    }
  });
}

// From this length of a line on digits are faster: 8 times at 1,000 elements, 3 times at a million (AVX-512).
constexpr int64_t kDigitsFrom = 256;

void sort_any(const KernelContext& c, int64_t k, bool descending) {
  const Shape& shape = c.in(0).shape();
  const int64_t n = shape[c.axis("axis", shape.rank())];
  const bool long_line = k == n && n >= kDigitsFrom && n <= std::numeric_limits<uint32_t>::max();
  dispatch_all(c.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (sizeof(T) <= sizeof(uint32_t)) {
      if (long_line) return sort_lines<ByDigits, T>(c, k, descending);
    }
    sort_lines<ByComparison, T>(c, k, descending);
  });
}

PADDOCK_CPU_KERNEL(topk) { sort_any(c, c.attr<int64_t>("k"), c.attr<bool>("largest")); }

PADDOCK_CPU_KERNEL(sort) {
  const Shape& x = c.in(0).shape();
  sort_any(c, x[c.axis("axis", x.rank())], c.attr<bool>("descending"));
}

}  // namespace
}  // namespace paddock::cpu
