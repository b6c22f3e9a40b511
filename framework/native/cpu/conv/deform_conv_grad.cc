// Kernel of deform_conv2d_grad. A chunk of pixels at a time: the gradient of what the taps read comes from a product;
// from it follow those of offsets and mask, pixel by pixel, and that of the image, strip of channels by strip, so that
// no two tasks write one number.
#include "cpu/conv/deform_columns.h"
#include "cpu/gemm/gemm.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kStrip = 32;  // channels of the image that a task owns

template <class T>
class DeformGradient {
 public:
  explicit DeformGradient(const KernelContext& c)
      : c_(c),
        g_(deform_geometry(c, c.in("dy").shape())),
        runs_(all_channel_runs(g_)),
        chunk_(std::min(g_.chunk(), g_.pixels())),
        corners_(chunk_ * g_.places()),
        columns_(static_cast<size_t>(chunk_ * g_.column_size()) * sizeof(T)),
        dcolumns_(static_cast<size_t>(chunk_ * g_.column_size()) * sizeof(T)) {}

  void run() {
    for (const char* name : {"dx", "dweight"}) {
      const Tensor& t = c_.out(name);
      std::fill(t.data<T>(), t.data<T>() + t.numel(), T(0));
    }
    for (int64_t n = 0; n < g_.images; ++n)
      for (int64_t first = 0; first < g_.pixels(); first += chunk_) {
        const int64_t count = std::min(chunk_, g_.pixels() - first);
        prepare(n, first, count);
        multiply(n * g_.pixels() + first, count);
        place_gradients(n, first, count);
        image_gradient(n, n * g_.pixels() + first, count);
      }
  }

 private:
  const T* mask_at(int64_t pixel) const {
    const T* mask = c_.maybe<T>("mask");
    return mask ? mask + pixel * g_.places() : nullptr;
  }

  void prepare(int64_t n, int64_t first, int64_t count) {
    const int64_t pixel = n * g_.pixels();
    const T* offset = c_.in("offset").data<T>() + pixel * g_.places() * 2;
    const T* image = c_.in("x").data<T>() + n * g_.image_size();
    parallel_for(count, deform_grain(g_), [&](int64_t begin, int64_t end) {
      Corners<T>* corners = corners_.data() + begin * g_.places();
      find_corners(g_, offset, first + begin, first + end, corners);
      fill_columns(g_, runs_, image, corners, mask_at(pixel + first + begin), end - begin,
                   columns_.as<T>() + begin * g_.column_size());
    });
  }

  void multiply(int64_t pixel, int64_t count) {
    for (int64_t group = 0; group < g_.groups; ++group) {
      const int64_t size = g_.group_size(), outputs = g_.group_outputs();
      const T* dy = c_.in("dy").data<T>() + pixel * g_.outputs + group * outputs;
      gemm<T>(false, false, count, size, outputs, T(1), dy, g_.outputs,
              c_.in("weight").data<T>() + group * outputs * size, size, T(0), dcolumns_.as<T>() + group * size,
              g_.column_size());
      gemm<T>(true, false, outputs, size, count, T(1), dy, g_.outputs, columns_.as<T>() + group * size,
              g_.column_size(), T(1), c_.out("dweight").data<T>() + group * outputs * size, size);
    }
  }

  // sum of a[i] * b[i]
  static T dot(const T* a, const T* b, int64_t n) {
    using V = Vec<T>;
    V sum = V::zero();
    int64_t i = 0;
    for (; i + V::kSize <= n; i += V::kSize) sum = fma(V::load(a + i), V::load(b + i), sum);
    if (i < n) sum = fma(V::load_n(a + i, n - i), V::load_n(b + i, n - i), sum);
    return reduce_add(sum);
  }

  void place_gradients(int64_t n, int64_t first, int64_t count) {
    const int64_t pixel = n * g_.pixels() + first;
    const T *image = c_.in("x").data<T>() + n * g_.image_size(), *mask = mask_at(pixel);
    T* doffset = c_.out("doffset").data<T>() + pixel * g_.places() * 2;
    T* dmask = c_.out("dmask").data<T>() + pixel * g_.places();
    parallel_for(count, deform_grain(g_), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * g_.places(); i < end * g_.places(); ++i) {
        const int64_t place = i % g_.places();
        const Corners<T>& corners = corners_[i];
        const T* dcolumn =
            dcolumns_.as<T>() + i / g_.places() * g_.column_size() + place % g_.taps * g_.group_channels();
        T by[4] = {0, 0, 0, 0};  // of each corner's value, as if it had weight 1
        for (const ChannelRun& s : runs_[place / g_.taps])
          for (int k = 0; k < 4; ++k)
            if (corners.inside[k]) by[k] += dot(dcolumn + s.column, image + corners.at[k] + s.first, s.count);
        const T share = mask ? mask[i] : T(1);
        dmask[i] = 0;
        for (int k = 0; k < 4; ++k) dmask[i] += corners.weight[k] * by[k];
        doffset[2 * i] = share * ((1 - corners.right) * (by[2] - by[0]) + corners.right * (by[3] - by[1]));
        doffset[2 * i + 1] = share * ((1 - corners.down) * (by[1] - by[0]) + corners.down * (by[3] - by[2]));
      }
    });
  }

  void image_gradient(int64_t n, int64_t pixel, int64_t count) {
    const T* mask = mask_at(pixel);
    T* image = c_.out("dx").data<T>() + n * g_.image_size();
    const int64_t strips = (g_.channels + kStrip - 1) / kStrip;
    parallel_for(strips, 1, [&](int64_t begin, int64_t end) {
      const int64_t low = begin * kStrip, high = std::min(g_.channels, end * kStrip);
      for (int64_t i = 0; i < count * g_.places(); ++i) {
        const int64_t place = i % g_.places();
        const T* dcolumn =
            dcolumns_.as<T>() + i / g_.places() * g_.column_size() + place % g_.taps * g_.group_channels();
        const T share = mask ? mask[i] : T(1);
        for (const ChannelRun& s : runs_[place / g_.taps]) {
          const int64_t from = std::max(low, s.first), to = std::min(high, s.first + s.count);
          if (from >= to) continue;
          for (int k = 0; k < 4; ++k) {
            if (!corners_[i].inside[k]) continue;
            const WeightedElement<T> tap{s.column + from - s.first, share * corners_[i].weight[k]};
            weighted_sum<true>(dcolumn, &tap, 1, image + corners_[i].at[k] + from, to - from);
          }
        }
      }
    });
  }

  const KernelContext& c_;
  const DeformGeometry g_;
  const std::vector<std::vector<ChannelRun>> runs_;
  const int64_t chunk_;
  std::vector<Corners<T>> corners_;  // [pixels of the chunk, G, taps]
  Scratch columns_, dcolumns_;       // [pixels of the chunk, groups, taps, C/groups]
};

PADDOCK_CPU_KERNEL(deform_conv2d_grad) {
  dispatch_float(c.in("dy").dtype(), [&](auto tag) { DeformGradient<typename decltype(tag)::type>(c).run(); });
}

}  // namespace
}  // namespace paddock::cpu
