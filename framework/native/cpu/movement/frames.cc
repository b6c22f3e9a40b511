// Kernels of ops/frames.cc: rows of channels are copied from frame to frame, or added up.
#include "cpu/movement/move.h"

namespace paddock::cpu {
namespace {

// A clip's extents: N clips of T frames of `pixels` rows of channels.
struct Clips {
  int64_t count, frames, pixels, channels;
};

Clips clips_of(const Shape& x) {
  const int last = x.rank() - 1;
  return {x[0], x[1], x.count(2, last), x[last]};
}

struct Window {
  int64_t size, stride, padding, dilation;
  // The frame of x that place q of window t reads; outside of [0, T) it is padding.
  int64_t frame(int64_t t, int64_t q) const { return t * stride - padding + q * dilation; }
};

Window window_of(const KernelContext& c) {
  return {c.attr<int64_t>("size"), c.attr<int64_t>("stride"), c.attr<int64_t>("padding"), c.attr<int64_t>("dilation")};
}

PADDOCK_CPU_KERNEL(temporal_shift) {
  const Tensor &x = c.in(0), &y = c.out(0);
  if (x.numel() == 0) return;
  const Clips s = clips_of(x.shape());
  const int64_t element = dtype_size(x.dtype()), row = s.channels * element;
  const int64_t moved = c.attr<int64_t>("channels") * element;
  const int64_t first = c.attr<bool>("reverse") ? -1 : 1;  // where channels [0, c) come from
  const int64_t frame = s.pixels * row;
  const char* from = x.data<char>();
  char* to = y.data<char>();
  parallel_for(s.count * s.frames * s.pixels, copy_grain(row), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t t = i / s.pixels % s.frames;
      const char* own = from + i * row;
      char* out = to + i * row;
      for (const int64_t part : {0, 1}) {
        const int64_t step = part == 0 ? first : -first;
        if (t + step >= 0 && t + step < s.frames)
          std::memcpy(out + part * moved, own + step * frame + part * moved, moved);
        else
          std::memset(out + part * moved, 0, moved);
      }
      std::memcpy(out + 2 * moved, own + 2 * moved, row - 2 * moved);
    }
  });
}

PADDOCK_CPU_KERNEL(unfold_frames) {
  const Tensor &x = c.in(0), &y = c.out(0);
  if (y.numel() == 0) return;
  const Clips s = clips_of(x.shape());
  const Window w = window_of(c);
  const int64_t windows = y.shape()[1], row = s.channels * dtype_size(x.dtype());
  const char* from = x.data<char>();
  char* to = y.data<char>();
  parallel_for(s.count * windows * s.pixels, copy_grain(row * w.size), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t p = i % s.pixels, t = i / s.pixels % windows, n = i / s.pixels / windows;
      for (int64_t q = 0; q < w.size; ++q) {
        const int64_t f = w.frame(t, q);
        char* out = to + (i * w.size + q) * row;
        if (f >= 0 && f < s.frames)
          copy_block(out, from + ((n * s.frames + f) * s.pixels + p) * row, row);
        else
          std::memset(out, 0, row);
      }
    }
  });
}

PADDOCK_CPU_KERNEL(fold_frames) {
  const Tensor &dy = c.in("dy"), &dx = c.out(0);
  if (dx.numel() == 0) return;
  const Clips s = clips_of(dx.shape());
  const Window w = window_of(c);
  const int64_t windows = dy.shape()[1];
  dispatch_float(dx.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = dy.data<T>();
    T* to = dx.data<T>();
    const int64_t grain = std::max<int64_t>(1, kGrain / (s.channels * w.size));
    parallel_for(s.count * s.frames * s.pixels, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t p = i % s.pixels, f = i / s.pixels % s.frames, n = i / s.pixels / s.frames;
        T* out = to + i * s.channels;
        std::fill_n(out, s.channels, T(0));
        for (int64_t q = 0; q < w.size; ++q) {
          const int64_t at = f + w.padding - q * w.dilation, t = at / w.stride;  // frame(t, q) == f
          if (at < 0 || at % w.stride != 0 || t >= windows) continue;
          const T* in = from + (((n * windows + t) * s.pixels + p) * w.size + q) * s.channels;
          for (int64_t k = 0; k < s.channels; ++k) out[k] += in[k];
        }
      }
    });
  });
}

}  // namespace
}  // namespace paddock::cpu
