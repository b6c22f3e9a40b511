// The type-free part of broadcasting, and the kernels that only repeat elements.
#include "cpu/elementwise/broadcast.h"

#include <cstring>

#include "cpu/elementwise/dispatch.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kShortRow = 128;   // elements; below, the call of an inner loop costs more than its work
constexpr int64_t kTiledRow = 1024;  // elements that a repeated short row is widened to

// [..., C] with [C], C small: repeats the row in a buffer, so that one inner loop covers many rows. `a_is_row` says
// which operand repeats. The rows are those of a plan of rank 2 with strides (C, 1) and (0, 1).
void tiled_rows(const char* full, const char* row, char* y, const BroadcastPlan<2>& plan, int64_t in_size,
                int64_t out_size, bool a_is_row, BinaryRun run) {
  const int64_t rows = plan.extent[0], c = plan.extent[1], repeat = std::min(rows, kTiledRow / c);
  std::vector<char> tile(repeat * c * in_size);
  for (int64_t i = 0; i < repeat; ++i) std::memcpy(tile.data() + i * c * in_size, row, c * in_size);
  parallel_for(rows, std::max(repeat, row_grain(c) / repeat * repeat), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += repeat) {
      int64_t n = std::min(repeat, end - i) * c;
      const char* x = full + i * c * in_size;
      run(a_is_row ? tile.data() : x, a_is_row ? x : tile.data(), y + i * c * out_size, n, true, true);
    }
  });
}

}  // namespace

void broadcast_binary(const Tensor& a, const Tensor& b, const Tensor& y, int64_t in_size, int64_t out_size,
                      BinaryRun run) {
  const auto* pa = a.data<char>();
  const auto* pb = b.data<char>();
  auto* py = y.data<char>();
  const int64_t n = y.numel();
  if (n == 0) return;
  const bool whole_a = a.numel() == n, whole_b = b.numel() == n;
  if ((whole_a || a.numel() == 1) && (whole_b || b.numel() == 1)) {
    parallel_for(n, kGrain, [=](int64_t begin, int64_t end) {
      run(whole_a ? pa + begin * in_size : pa, whole_b ? pb + begin * in_size : pb, py + begin * out_size, end - begin,
          whole_a, whole_b);
    });
    return;
  }
  auto plan = make_plan<2>(y.shape(), {&a.shape(), &b.shape()});
  if (plan.rank == 2 && plan.extent[1] < kShortRow && plan.stride[0][1] == 1 && plan.stride[1][1] == 1) {
    bool a_is_row = plan.stride[0][0] == 0;
    tiled_rows(a_is_row ? pb : pa, a_is_row ? pa : pb, py, plan, in_size, out_size, a_is_row, run);
    return;
  }
  const int last = plan.rank - 1;
  const bool step_a = plan.stride[0][last] != 0, step_b = plan.stride[1][last] != 0;
  run_plan(plan, [&](const std::array<int64_t, 2>& offset, int64_t to, int64_t count) {
    run(pa + offset[0] * in_size, pb + offset[1] * in_size, py + to * out_size, count, step_a, step_b);
  });
}

namespace {

template <class T>
void repeat(const Tensor& x, const Tensor& y) {
  const T* from = x.data<T>();
  T* to = y.data<T>();
  auto plan = make_plan<1>(y.shape(), {&x.shape()});
  const bool step = plan.stride[0][plan.rank - 1] != 0;
  run_plan(plan, [=](const std::array<int64_t, 1>& offset, int64_t begin, int64_t n) {
    if (step)
      std::copy_n(from + offset[0], n, to + begin);
    else
      std::fill_n(to + begin, n, from[offset[0]]);
  });
}

void repeat_any(const Tensor& x, const Tensor& y) {
  if (x.raw() == y.raw()) return;  // in place: nothing repeats
  dispatch_bits(x.dtype(), [&](auto tag) { repeat<typename decltype(tag)::type>(x, y); });
}

PADDOCK_CPU_KERNEL(broadcast_to) { repeat_any(c.in(0), c.out(0)); }
PADDOCK_CPU_KERNEL(broadcast_like) { repeat_any(c.in(0), c.out(0)); }

}  // namespace
}  // namespace paddock::cpu
