// Convolution forward and data gradient as products over row pointers: no copy of the image is made.
#include <algorithm>

#include "core/parallel.h"
#include "core/storage.h"
#include "cpu/conv/conv_grid.h"
#include "cpu/gemm/gemm_driver.h"
#include "cpu/gemm/gemm_pack.h"
#include "cpu/vec/stream.h"

namespace paddock::cpu {

Grid forward_grid(const ConvGeometry& g) {
  Grid grid{g.N, g.P, g.Q, g.H, g.W, g.C, g.stride_h, g.stride_w, g.P, g.Q, g.K, 1, 1, 0, 0, {}};
  if (g.C == 0) return grid;  // no channels make empty sums: no taps
  for (int64_t r = 0; r < g.R; ++r)
    for (int64_t s = 0; s < g.S; ++s)
      grid.taps.push_back({r * g.dil_h - g.pad_top, s * g.dil_w - g.pad_left, r * g.S + s});
  return grid;
}

std::vector<Grid> grad_input_grids(const ConvGeometry& g) {
  std::vector<Grid> grids;
  for (int64_t h = 0; h < std::min(g.stride_h, g.H); ++h)
    for (int64_t w = 0; w < std::min(g.stride_w, g.W); ++w) {
      Grid grid{g.N,
                (g.H - h + g.stride_h - 1) / g.stride_h,
                (g.W - w + g.stride_w - 1) / g.stride_w,
                g.P,
                g.Q,
                g.K,
                1,
                1,
                g.H,
                g.W,
                g.C,
                g.stride_h,
                g.stride_w,
                h,
                w,
                {}};
      // Descending r and s visit dy in ascending order; no channels make empty sums.
      for (int64_t r = g.K == 0 ? -1 : g.R - 1; r >= 0; --r)
        for (int64_t s = g.S - 1; s >= 0; --s) {
          const int64_t dh = h + g.pad_top - r * g.dil_h, dw = w + g.pad_left - s * g.dil_w;
          if (dh % g.stride_h == 0 && dw % g.stride_w == 0)
            grid.taps.push_back({dh / g.stride_h, dw / g.stride_w, r * g.S + s});
        }
      grids.push_back(std::move(grid));
    }
  return grids;
}

namespace {

constexpr int64_t kShortTap = 8;  // channels

// Calls run(row, n, i, j, count) for every stretch of grid pixels [begin, begin + rows) that lies in one grid row.
template <class Run>
void for_each_stretch(const Grid& grid, int64_t begin, int64_t rows, Run run) {
  for (int64_t row = 0; row < rows;) {
    const int64_t pixel = begin + row, j = pixel % grid.columns, line = pixel / grid.columns;
    const int64_t count = std::min(grid.columns - j, rows - row);
    run(row, line / grid.rows, line % grid.rows, j, count);
    row += count;
  }
}

// a[t * rows + row] = the source pixel of each row and tap, or `zeros` outside of the image.
template <class T>
void point_at_pixels(const Grid& grid, const T* source, const T* zeros, int64_t begin, int64_t rows, const T** a) {
  for_each_stretch(grid, begin, rows, [&](int64_t row, int64_t n, int64_t i, int64_t j0, int64_t count) {
    for (const Tap& tap : grid.taps) {
      const T** out = a + row;
      a += rows;
      const int64_t h = i * grid.step_h + tap.dh;
      Range in{count, count};
      if (h >= 0 && h < grid.source_h) in = inside(count, grid.step_w, j0 * grid.step_w + tap.dw, grid.source_w);
      for (int64_t j = 0; j < in.begin; ++j) out[j] = zeros;
      const int64_t stride = grid.step_w * grid.source_c;
      const T* p = source + grid.source_row(n, h) + (j0 * grid.step_w + tap.dw) * grid.source_c;
      for (int64_t j = in.begin; j < in.end; ++j) out[j] = p + j * stride;
      for (int64_t j = in.end; j < count; ++j) out[j] = zeros;
    }
    a -= rows * static_cast<int64_t>(grid.taps.size());
  });
}

// A kernel's rows: `width` taps each, whose pixels lie one after the other in an image row.
struct KernelRows {
  std::vector<Tap> first;  // the first tap of each; empty where the taps do not form such rows
  int64_t width = 1;
};

KernelRows kernel_rows(const Grid& grid) {
  const auto& taps = grid.taps;
  const auto follows = [&](size_t i, size_t first) {
    return taps[i].dh == taps[first].dh && taps[i].dw == taps[first].dw + static_cast<int64_t>(i - first);
  };
  size_t width = 1;
  while (width < taps.size() && follows(width, 0)) ++width;
  KernelRows rows{{}, static_cast<int64_t>(width)};
  for (size_t i = 0; i < taps.size(); ++i) {
    if (!follows(i, i - i % width)) return {};
    if (i % width == 0) rows.first.push_back(taps[i]);
  }
  return rows.first.size() * width == taps.size() ? rows : KernelRows{};
}

// dst = the values of `width` pixels from column w of an image row on, zeros outside of the image.
template <class T>
void copy_border(const Grid& grid, const T* row, int64_t w, int64_t width, T* dst) {
  for (int64_t t = 0; t < width; ++t, dst += grid.source_c)
    if (w + t >= 0 && w + t < grid.source_w)
      std::copy_n(row + (w + t) * grid.source_c, grid.source_c, dst);
    else
      std::fill_n(dst, grid.source_c, T(0));
}

// As point_at_pixels, a whole row of the kernel a tap; what crosses the image's border is copied to `scratch`, which
// has room for all.
template <class T>
void point_at_rows(const Grid& grid, const KernelRows& kernel, const T* source, const T* zeros, int64_t begin,
                   int64_t rows, const T** a, T* scratch) {
  const int64_t length = kernel.width * grid.source_c, stride = grid.step_w * grid.source_c;
  for_each_stretch(grid, begin, rows, [&](int64_t row, int64_t n, int64_t i, int64_t j0, int64_t count) {
    const T** out = a + row;
    for (const Tap& tap : kernel.first) {
      const int64_t h = i * grid.step_h + tap.dh, w = j0 * grid.step_w + tap.dw;
      if (h < 0 || h >= grid.source_h) {
        std::fill_n(out, count, zeros);
      } else {
        const T* line = source + grid.source_row(n, h);
        const int64_t left = inside(count, grid.step_w, w, grid.source_w).begin;
        const int64_t right = std::max(left, inside(count, grid.step_w, w + kernel.width - 1, grid.source_w).end);
        const auto border = [&](int64_t j) {
          copy_border(grid, line, w + j * grid.step_w, kernel.width, scratch);
          out[j] = scratch;
          scratch += length;
        };
        for (int64_t j = 0; j < left; ++j) border(j);
        for (int64_t j = left; j < right; ++j) out[j] = line + w * grid.source_c + j * stride;
        for (int64_t j = right; j < count; ++j) border(j);
      }
      out += rows;
    }
  });
}

// target = sum over taps of source pixels times packed weights [taps * length, N] for one group.
template <class T>
void convolve(const Grid& grid, const T* source, int64_t length, T* target, int64_t N, const T* packed,
              const Epilogue<T>& epilogue, int64_t residual_shift) {
  // Few channels make a short sum a tap: a whole row of the kernel is one where all its channels are wanted.
  const bool merge = length == grid.source_c && length <= kShortTap;
  const KernelRows kernel = merge ? kernel_rows(grid) : KernelRows{};
  const int64_t width = kernel.first.empty() ? 1 : kernel.width;
  const int64_t taps = static_cast<int64_t>(grid.taps.size()) / width;
  Scratch zero(length * width * sizeof(T));
  std::fill_n(zero.as<T>(), length * width, T(0));
  const auto rows_at = [&](int64_t begin, int64_t rows, const T** a, T** c, T* scratch) {
    for_each_stretch(grid, begin, rows, [&](int64_t row, int64_t n, int64_t i, int64_t j0, int64_t count) {
      for (int64_t j = 0; j < count; ++j) c[row + j] = target + grid.target_pixel(n, i, j0 + j);
    });
    if (width > 1)
      point_at_rows(grid, kernel, source, zero.as<T>(), begin, rows, a, scratch);
    else
      point_at_pixels(grid, source, zero.as<T>(), begin, rows, a);
  };
  RowsProduct<T> p{grid.pixels(), N, taps, length * width, packed, rows_at};
  if (width > 1) p.scratch_per_row = taps * width * length;
  p.stream = worth_streaming(target, grid.target_c * static_cast<int64_t>(sizeof(T)), grid.pixels());
  p.epilogue = epilogue;
  p.residual_shift = residual_shift;
  multiply_rows(p);
}

// B [taps * K/groups, C/groups] of the data gradient: the weights of the grid's taps, output channels as rows.
template <class T>
void pack_for_grad_input(const ConvGeometry& g, const Grid& grid, const T* w, T* packed) {
  const int64_t C = g.C / g.groups, K = g.K / g.groups, width = kPanelWidth<T>;
  const int64_t taps = static_cast<int64_t>(grid.taps.size()), panels = (C + width - 1) / width;
  if (K == 0) return;
  parallel_for(panels * taps, std::max<int64_t>(1, 65536 / (K * width)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n0 = i / taps * width, t = i % taps, columns = panel_vecs<T>(C, n0) * Vec<T>::kSize;
      copy_rows(w + grid.taps[t].weight * C + n0, g.R * g.S * C, K, std::min(columns, C - n0),
                packed + panel_offset(taps * K, n0) + t * K * columns, columns, columns);
    }
  });
}

// The packed weights of all groups, `size` elements each.
template <class T>
std::shared_ptr<Storage> packed_groups(const ConvGeometry& g, const Prepared& prepared, std::string_view form,
                                       int64_t size, FunctionRef<void(int64_t group, T* panels)> pack) {
  return prepared.block(form, g.groups * size * static_cast<int64_t>(sizeof(T)), [&](void* block) {
    for_each_group(g, [&](int64_t i) { pack(i, static_cast<T*>(block) + i * size); });
  });
}

}  // namespace

template <class T>
void direct_forward(const ConvGeometry& g, const T* x, const T* w, T* y, const Epilogue<T>& epilogue,
                    const Prepared& prepared) {
  const Grid grid = forward_grid(g);
  const int64_t C = g.C / g.groups, K = g.K / g.groups, depth = g.R * g.S * C, count = grid.pixels() * g.K;
  const bool in_the_way = epilogue.residual == y && epilogue.residual_last && !sums_at_once<T>(g.R * g.S, C);
  Scratch kept(in_the_way ? static_cast<size_t>(count) * sizeof(T) : 1);
  if (in_the_way) std::copy_n(y, count, kept.as<T>());
  const T* residual = in_the_way ? kept.as<T>() : epilogue.residual;
  const int64_t size = packed_size<T>(depth, K);
  const auto packed = packed_groups<T>(g, prepared, "forward panels", size, [&](int64_t i, T* panels) {
    pack_all(true, w + i * K * depth, depth, depth, K, panels);
  });
  for_each_group(g, [&](int64_t i) {
    Epilogue<T> e = epilogue;
    if (e.bias) e.bias += i * K;
    e.residual = residual;
    convolve(grid, x + i * C, C, y + i * K, K, static_cast<const T*>(packed->data()) + i * size, e,
             e.residual ? e.residual - y : 0);
  });
}

template <class T>
void direct_grad_input(const ConvGeometry& g, const T* dy, const T* w, T* dx, const Prepared& prepared) {
  const int64_t C = g.C / g.groups, K = g.K / g.groups;
  for (const Grid& grid : grad_input_grids(g)) {
    const int64_t size = packed_size<T>(static_cast<int64_t>(grid.taps.size()) * K, C);
    const std::string form = cat("gradient panels of phase ", grid.out_h, ", ", grid.out_w);
    const auto packed = packed_groups<T>(g, prepared, form, size, [&](int64_t i, T* panels) {
      pack_for_grad_input(g, grid, w + i * K * g.R * g.S * C, panels);
    });
    for_each_group(g, [&](int64_t i) {
      convolve(grid, dy + i * K, K, dx + i * C, C, static_cast<const T*>(packed->data()) + i * size, {}, 0);
    });
  }
}

#define PADDOCK_INSTANTIATE(T)                                                                                       \
  template void direct_forward<T>(const ConvGeometry&, const T*, const T*, T*, const Epilogue<T>&, const Prepared&); \
  template void direct_grad_input<T>(const ConvGeometry&, const T*, const T*, T*, const Prepared&);
PADDOCK_INSTANTIATE(float)
PADDOCK_INSTANTIATE(double)
#undef PADDOCK_INSTANTIATE

}  // namespace paddock::cpu
