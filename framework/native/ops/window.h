// Pooling windows over images [N, H, W, C]: how attributes become a geometry, for the shape rule and for the kernel.
#pragma once
#include "op/padding.h"

namespace paddock {

// One spatial axis. Window o covers [o * stride - before, o * stride - before + kernel), cut to [0, in).
// An adaptive axis is cut into `out` windows of about equal extents instead: [floor(o in / out), ceil((o + 1) in /
// out)).
struct WindowAxis {
  int64_t in, out, kernel, stride, before, after;
  bool adaptive = false;

  int64_t begin(int64_t o) const { return adaptive ? o * in / out : std::max<int64_t>(0, o * stride - before); }
  int64_t end(int64_t o) const {
    return adaptive ? ((o + 1) * in + out - 1) / out : std::min(in, o * stride - before + kernel);
  }
  // Extent of window o in the padded input, which ceil mode may let it leave.
  int64_t padded_extent(int64_t o) const {
    return std::min(in + after, o * stride - before + kernel) - (o * stride - before);
  }
  // Windows [first, last) cover position i.
  int64_t first_over(int64_t i) const {
    if (adaptive) return i * out / in;
    return std::max<int64_t>(0, (i + before - kernel) / stride + (i + before >= kernel));
  }
  int64_t last_over(int64_t i) const {
    if (adaptive) return ((i + 1) * out + in - 1) / in;
    return std::min(out, (i + before) / stride + 1);
  }
};

inline constexpr int64_t kMaxPixels = (int64_t{1} << 31) - 1;  // of an image: the gradient numbers them in 32 bits

struct Windows {
  int64_t images, channels;
  WindowAxis h, w;
};

// Windows along one axis; with ceil_mode the last one may leave the input on the far side, but must start in it or in
// the padding before it. So it may be the only one, wider than the input.
inline int64_t window_count(int64_t in, int64_t kernel, int64_t stride, int64_t before, int64_t after, bool ceil_mode) {
  int64_t room = in + before + after - kernel + (ceil_mode ? stride - 1 : 0);
  if (room < 0) return 0;
  int64_t count = room / stride + 1;
  if (ceil_mode && (count - 1) * stride >= in + before) --count;
  return count;
}

// The windows of an adaptive pooling to `size`; the output's extents stay below 2^31 so that products fit.
template <class Context>
Windows adaptive_windows_of(const Context& c, const Shape& x) {
  const auto size = c.pair("size");
  auto axis = [&](int i, const char* name) {
    if (size[i] < 1 || size[i] > kMaxPixels)
      fail(ErrorKind::kAttribute, c.op().name, ": size holds ", size[i], " for the ", name, "; it must lie in [1, ",
           kMaxPixels, "]");
    if (x[1 + i] < 1) fail(ErrorKind::kShape, c.op().name, ": x of shape ", x, " has no pixels along the ", name);
    return WindowAxis{x[1 + i], size[i], (x[1 + i] + size[i] - 1) / size[i] + 1, 0, 0, 0, true};
  };
  Windows g{x[0], x[3], axis(0, "height"), axis(1, "width")};
  if (g.h.in > kMaxPixels / g.w.in)
    fail(ErrorKind::kShape, c.op().name, ": x of shape ", x, " has more than ", kMaxPixels, " pixels an image");
  return g;
}

// `Context` is InferContext or KernelContext. The attributes are checked each time: it costs a few comparisons.
template <class Context>
Windows windows_of(const Context& c, const Shape& x) {
  auto kernel = c.pair("kernel");
  auto stride = c.template attr<Ints>("stride").empty() ? kernel : c.pair("stride");
  auto pad = window_padding(c.op(), c.template attr<Ints>("padding"));
  const bool ceil_mode = c.template attr<bool>("ceil_mode");
  auto axis = [&](int i, const char* name) {
    WindowAxis a{x[1 + i], 0, kernel[i], stride[i], pad[2 * i], pad[2 * i + 1]};
    if (a.kernel < 1 || a.stride < 1 || a.kernel > kMaxPixels || a.stride > kMaxPixels)
      fail(ErrorKind::kAttribute, c.op().name, ": kernel ", a.kernel, " and stride ", a.stride, " along the ", name,
           " must lie in [1, ", kMaxPixels, "]");
    if (a.before < 0 || a.after < 0 || a.before >= a.kernel || a.after >= a.kernel)
      fail(ErrorKind::kAttribute, c.op().name, ": padding (", a.before, ", ", a.after, ") along the ", name,
           " must lie in [0, ", a.kernel - 1, "], less than the kernel, so that no window is all padding");
    a.out = a.in > 0 ? window_count(a.in, a.kernel, a.stride, a.before, a.after, ceil_mode) : 0;
    if (a.out < 1)
      fail(ErrorKind::kShape, c.op().name, ": x of shape ", x, " has ", name, " ", a.in, ", which with padding (",
           a.before, ", ", a.after, ") is less than the kernel's ", a.kernel);
    return a;
  };
  Windows g{x[0], x[3], axis(0, "height"), axis(1, "width")};
  if (g.h.in > kMaxPixels / g.w.in)
    fail(ErrorKind::kShape, c.op().name, ": x of shape ", x, " has more than ", kMaxPixels, " pixels an image");
  return g;
}

// The windows of a pooling, of either kind.
template <class Context>
Windows pooling_windows_of(const Context& c, const Shape& x) {
  return c.op().attr_index("size") >= 0 ? adaptive_windows_of(c, x) : windows_of(c, x);
}

}  // namespace paddock
