// Kernel of deform_conv2d: what the taps read becomes a matrix, which a product with the weights turns into pixels.
#include "cpu/conv/deform_columns.h"
#include "cpu/gemm/gemm.h"

namespace paddock::cpu {
namespace {

template <class T>
void forward(const KernelContext& c) {
  const Tensor& y = c.out(0);
  const DeformGeometry g = deform_geometry(c, y.shape());
  const auto runs = all_channel_runs(g);
  const T *x = c.in("x").data<T>(), *offset = c.in("offset").data<T>(), *weight = c.in("weight").data<T>();
  const T *mask = c.maybe<T>("mask"), *bias = c.maybe<T>("bias");
  const int64_t total = g.pixels(), chunk = std::min(g.chunk(), total);
  const Scratch memory(static_cast<size_t>(chunk * g.column_size()) * sizeof(T));
  T* columns = memory.as<T>();
  for (int64_t n = 0; n < g.images; ++n)
    for (int64_t first = 0; first < total; first += chunk) {
      const int64_t count = std::min(chunk, total - first), pixel = n * total + first;
      parallel_for(count, deform_grain(g), [&](int64_t begin, int64_t end) {
        std::vector<Corners<T>> corners((end - begin) * g.places());
        find_corners(g, offset + n * total * g.places() * 2, first + begin, first + end, corners.data());
        fill_columns(g, runs, x + n * g.image_size(), corners.data(),
                     mask ? mask + (pixel + begin) * g.places() : nullptr, end - begin,
                     columns + begin * g.column_size());
      });
      for (int64_t group = 0; group < g.groups; ++group) {
        Epilogue<T> epilogue;
        if (bias) epilogue.bias = bias + group * g.group_outputs();
        gemm<T>(false, true, count, g.group_outputs(), g.group_size(), T(1), columns + group * g.group_size(),
                g.column_size(), weight + group * g.group_outputs() * g.group_size(), g.group_size(), T(0),
                y.data<T>() + pixel * g.outputs + group * g.group_outputs(), g.outputs, epilogue);
      }
    }
}

PADDOCK_CPU_KERNEL(deform_conv2d) {
  if (c.out(0).numel() == 0) return;
  dispatch_float(c.out(0).dtype(), [&](auto tag) { forward<typename decltype(tag)::type>(c); });
}

}  // namespace
}  // namespace paddock::cpu
