// How sequences are dealt out to tasks, and the gradient of the recurrent weights; see recurrent.h.
#include "cpu/sequence/recurrent.h"

#include <numeric>

#include "op/choice.h"

namespace paddock::cpu {
namespace {

// Sequences of a task: enough rows for a product to be worth its weights' way from the cache, few enough that there
// are tasks for several threads.
constexpr int64_t kBandSize = 16;

int64_t band_count(const RecurrentShape& s) {
  const int64_t by_size = ceil_div(s.sequences, kBandSize);
  return std::max({int64_t{1}, by_size, s.parts == 1 ? std::min<int64_t>(2, s.sequences / 4) : 1});
}

}  // namespace

RecurrentShape::RecurrentShape(const KernelContext& c)
    : parts(c.in("weight_h").shape()[0]),
      hidden(c.in("weight_h").shape()[2]),
      sequences(c.in("offsets").numel() - 1),
      rows(c.out(0).shape()[0]),
      first_is_reverse(choice(c, "direction") == 1) {}

Band::Band(const CheckedOffsets& offsets, const std::vector<int64_t>& order, int64_t start, int64_t step, bool reverse)
    : direction_(reverse ? -1 : 1) {
  for (size_t i = static_cast<size_t>(start); i < order.size(); i += static_cast<size_t>(step)) {
    const int64_t b = order[i];
    members_.push_back({b, reverse ? offsets.end(b) - 1 : offsets.begin(b), offsets.length(b)});
  }
}

int64_t Band::running(int64_t t) const {
  int64_t n = size();
  while (n > 0 && length(n - 1) <= t) --n;
  return n;
}

void for_each_band(const RecurrentShape& shape, const CheckedOffsets& offsets,
                   FunctionRef<void(int64_t, const Band&)> body) {
  std::vector<int64_t> order(static_cast<size_t>(shape.sequences));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return offsets.length(a) > offsets.length(b); });
  const int64_t bands = band_count(shape);
  parallel_for(shape.parts * bands, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t part = i / bands;
      body(part, Band(offsets, order, i % bands, bands, shape.reverse(part)));
    }
  });
}

template <class T>
void weight_gradient(const RecurrentShape& s, const CheckedOffsets& offsets, int64_t part, const T* d, int64_t stride,
                     int64_t width, const T* y, const T* h0, T* dweight) {
  const int64_t H = s.hidden;
  Scratch memory = scratch(std::max<int64_t>(1, s.rows * H) * static_cast<int64_t>(sizeof(T)));
  T* before = memory.as<T>();
  parallel_for(s.sequences, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      for (int64_t row = offsets.begin(b); row < offsets.end(b); ++row) {
        const bool first = row == (s.reverse(part) ? offsets.end(b) - 1 : offsets.begin(b));
        const T* from =
            first ? state_row(h0, s, part, b) : part_row(y, s.reverse(part) ? row + 1 : row - 1, s.parts, part, H);
        if (from)
          std::copy(from, from + H, before + row * H);
        else
          std::fill(before + row * H, before + (row + 1) * H, T(0));
      }
  });
  gemm<T>(true, false, width, H, s.rows, T(1), d, stride, before, H, T(0), dweight, H);
}

#define PADDOCK_INSTANTIATE(T)                                                                                        \
  template void weight_gradient<T>(const RecurrentShape&, const CheckedOffsets&, int64_t, const T*, int64_t, int64_t, \
                                   const T*, const T*, T*);
PADDOCK_INSTANTIATE(float)
PADDOCK_INSTANTIATE(double)
#undef PADDOCK_INSTANTIATE

}  // namespace paddock::cpu
