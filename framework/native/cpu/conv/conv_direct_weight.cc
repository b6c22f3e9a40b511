// Weight gradient: dw [K, R*S*C] = dy^T [K, N*P*Q] times the pixels each tap sees, packed straight from the image.
#include <algorithm>

#include "core/parallel.h"
#include "core/storage.h"
#include "cpu/conv/conv_grid.h"
#include "cpu/gemm/gemm_driver.h"
#include "cpu/gemm/gemm_pack.h"

namespace paddock::cpu {
namespace {

// dst[k, 0:columns] = src[k, 0:columns], nothing beyond.
template <class T>
void copy_block(const T* src, int64_t src_stride, int64_t rows, int64_t columns, T* dst, int64_t dst_stride) {
  using V = Vec<T>;
  const int64_t whole = columns / V::kSize * V::kSize, rest = columns - whole;
  for (int64_t k = 0; k < rows; ++k, src += src_stride, dst += dst_stride) {
    for (int64_t j = 0; j < whole; j += V::kSize) V::load(src + j).store(dst + j);
    if (rest) V::load_n(src + whole, rest).store_n(dst + whole, rest);
  }
}

template <class T>
void clear_block(int64_t rows, int64_t columns, T* dst, int64_t dst_stride) {
  for (int64_t k = 0; k < rows; ++k, dst += dst_stride) std::fill_n(dst, columns, T(0));
}

// The columns of dw, [R*S*C/groups], cut into stretches that lie one after the other in an image row: a tap's
// channels, or all taps of a kernel row where they touch.
template <class T>
struct PixelColumns {
  const ConvGeometry& g;
  const T* x;  // first channel of the group
  int64_t C = g.C / g.groups;
  bool merged = g.dil_w == 1 && g.groups == 1;
  int64_t stretch = merged ? g.S * C : C;

  // dst[k, j] = what output pixel k0 + k multiplies with column n0 + j of dw.
  void pack(int64_t k0, int64_t depth, int64_t n0, int64_t columns, T* dst, int64_t width) const {
    if (columns < width) clear_block(depth, width - columns, dst + columns, width);
    for (int64_t j = 0; j < columns;) {
      const int64_t first = (n0 + j) % stretch, count = std::min(columns - j, stretch - first);
      pack_stretch(k0, depth, (n0 + j) / stretch, first, count, dst + j, width);
      j += count;
    }
  }

 private:
  void pack_stretch(int64_t k0, int64_t depth, int64_t index, int64_t first, int64_t count, T* dst,
                    int64_t width) const {
    const int64_t r = merged ? index : index / g.S, s = merged ? 0 : index % g.S;
    for (int64_t k = k0; k < k0 + depth;) {
      const int64_t q = k % g.Q, p = k / g.Q % g.P, n = k / g.Q / g.P, pixels = std::min(g.Q - q, k0 + depth - k);
      const int64_t h = p * g.stride_h - g.pad_top + r * g.dil_h;
      const int64_t w = q * g.stride_w - g.pad_left + s * g.dil_w;  // of the first pixel and the stretch's start
      if (h < 0 || h >= g.H)
        clear_block(pixels, count, dst, width);
      else
        pack_line(x + (n * g.H + h) * g.W * g.C, w, pixels, first, count, dst, width);
      dst += pixels * width;
      k += pixels;
    }
  }

  // Values [first, first + count) of the stretches that start at pixels w, w + stride_w, ... of an image row.
  void pack_line(const T* row, int64_t w, int64_t pixels, int64_t first, int64_t count, T* dst, int64_t width) const {
    const Range in = fully_inside(w, pixels);
    for (int64_t i = 0; i < in.begin; ++i) pack_border(row, w + i * g.stride_w, first, count, dst + i * width);
    copy_block(row + (w + in.begin * g.stride_w) * g.C + first, g.stride_w * g.C, in.end - in.begin, count,
               dst + in.begin * width, width);
    for (int64_t i = in.end; i < pixels; ++i) pack_border(row, w + i * g.stride_w, first, count, dst + i * width);
  }

  Range fully_inside(int64_t w, int64_t pixels) const {
    const Range left = inside(pixels, g.stride_w, w, g.W);
    if (!merged) return left;
    const Range right = inside(pixels, g.stride_w, w + g.S - 1, g.W);
    return {left.begin, std::max(left.begin, right.end)};
  }

  void pack_border(const T* row, int64_t w, int64_t first, int64_t count, T* dst) const {
    for (int64_t f = 0; f < count; ++f) {
      const int64_t at = w + (first + f) / C;  // the pixel that value comes from
      dst[f] = at >= 0 && at < g.W ? row[w * g.C + first + f] : T(0);
    }
  }
};

}  // namespace

template <class T>
void direct_grad_weight(const ConvGeometry& g, const T* x, const T* dy, T* dw) {
  const int64_t C = g.C / g.groups, K = g.K / g.groups, N = g.R * g.S * C;
  // Pixels of the image for each of dy's; where a single tap skips most of them they are not fetched ahead.
  const int64_t skip = g.stride_h * g.stride_w, span = g.R * g.S >= skip ? skip * g.C : 0;
  for_each_group(g, [&](int64_t i) {
    const PixelColumns<T> pixels{g, x + i * C};
    const T* gradient = dy + i * K;
    multiply_blocks<T>({K,
                        N,
                        g.N * g.P * g.Q,
                        [&](int64_t m0, int64_t rows, int64_t k0, int64_t depth, T* dst, int64_t stride) {
                          copy_rows(gradient + k0 * g.K + m0, g.K, depth, rows, dst, packed_size<T>(1, rows), stride);
                        },
                        [&](int64_t k0, int64_t depth, int64_t n0, int64_t columns, T* dst, int64_t width) {
                          pixels.pack(k0, depth, n0, columns, dst, width);
                        },
                        dw + i * K * N,
                        N,
                        T(1),
                        T(0),
                        {},
                        {gradient, g.K, K},
                        {span ? pixels.x : nullptr, span, span}});
  });
}

template void direct_grad_weight<float>(const ConvGeometry&, const float*, const float*, float*);
template void direct_grad_weight<double>(const ConvGeometry&, const double*, const double*, double*);

}  // namespace paddock::cpu
