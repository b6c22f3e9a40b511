// Kernels of ops/sampling.cc. The image's gradient is split by images and channels, so that no two tasks write one
// number and every sum has the order of the places.
#include <cmath>
#include <limits>

#include "cpu/elementwise/rows.h"
#include "cpu/image/weighted_sum.h"
#include "op/choice.h"

namespace paddock::cpu {
namespace {

enum Padding { kZeros, kBorder, kReflection };

// A coordinate in pixels, and its derivative by the grid's number.
struct Place {
  double at, slope;
};

struct Sampler {
  int64_t images, height, width, channels, places;  // places: P * Q of an image
  bool nearest, align;
  int padding;

  explicit Sampler(const KernelContext& c)
      : images(c.in("x").shape()[0]),
        height(c.in("x").shape()[1]),
        width(c.in("x").shape()[2]),
        channels(c.in("x").shape()[3]),
        places(c.in("grid").shape()[1] * c.in("grid").shape()[2]),
        nearest(choice(c, "mode") == 1),
        align(c.attr<bool>("align_corners")),
        padding(choice(c, "padding")) {}

  // Where a number of the grid lies along an axis of n pixels.
  Place place(double v, int64_t n) const {
    const double extent = static_cast<double>(n);
    Place p =
        align ? Place{(v + 1) * ((extent - 1) / 2), (extent - 1) / 2} : Place{((v + 1) * extent - 1) / 2, extent / 2};
    if (padding == kReflection) reflect(p, align ? 0.0 : -0.5, align ? extent - 1 : extent);
    if (padding != kZeros) cut(p, extent - 1);
    return p;
  }

 private:
  // Mirrors at `low` and `low + span` as often as it takes.
  static void reflect(Place& p, double low, double span) {
    if (span == 0) {
      p = {p.at == p.at ? 0.0 : p.at, 0.0};
      return;
    }
    double away = p.at - low;
    if (away < 0) {
      away = -away;
      p.slope = -p.slope;
    }
    const double turns = std::floor(away / span), rest = away - turns * span;
    const bool back = std::fmod(turns, 2.0) != 0;
    p.at = low + (back ? span - rest : rest);
    if (back) p.slope = -p.slope;
  }
  static void cut(Place& p, double last) {
    if (p.at <= 0) p = {0.0, 0.0};
    if (p.at >= last) p = {last, 0.0};
  }
};

// The pixels that one place reads: their numbers in the image and weights, and how the weights change with x, with y
// and with both.
struct Taps {
  int count = 0;
  int64_t pixel[4];
  double weight[4], by_x[4], by_y[4], by_both[4];

  void add(const Sampler& s, double row, double column, double w, double dx, double dy, double both) {
    if (!(row >= 0 && row < static_cast<double>(s.height) && column >= 0 && column < static_cast<double>(s.width)))
      return;
    pixel[count] = static_cast<int64_t>(row) * s.width + static_cast<int64_t>(column);
    weight[count] = w;
    by_x[count] = dx;
    by_y[count] = dy;
    by_both[count++] = both;
  }
  // How the weight of tap k changes where the place moves by `step`, (x, y).
  template <class T>
  double along(const T* step, int k) const {
    return static_cast<double>(step[0]) * by_x[k] + static_cast<double>(step[1]) * by_y[k];
  }
};

template <class T>
Taps taps_of(const Sampler& s, const T* place) {
  const Place x = s.place(place[0], s.width), y = s.place(place[1], s.height);
  Taps taps;
  if (!(x.at == x.at && y.at == y.at)) {
    taps.add(s, 0, 0, std::numeric_limits<double>::quiet_NaN(), 0, 0, 0);
    return taps;
  }
  if (s.nearest) {
    taps.add(s, std::nearbyint(y.at), std::nearbyint(x.at), 1, 0, 0, 0);
    return taps;
  }
  const double column = std::floor(x.at), row = std::floor(y.at), right = x.at - column, below = y.at - row;
  const double left = 1 - right, above = 1 - below, both = x.slope * y.slope;
  taps.add(s, row, column, above * left, -above * x.slope, -left * y.slope, both);
  taps.add(s, row, column + 1, above * right, above * x.slope, -right * y.slope, -both);
  taps.add(s, row + 1, column, below * left, -below * x.slope, left * y.slope, -both);
  taps.add(s, row + 1, column + 1, below * right, below * x.slope, right * y.slope, both);
  return taps;
}

// Calls body(image, number of the place among all, its taps) in parallel.
template <class T, class F>
void for_each_place(const Sampler& s, const T* grid, F body) {
  parallel_for(s.images * s.places, row_grain(4 * s.channels + 32), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i / s.places, i, taps_of(s, grid + 2 * i));
  });
}

PADDOCK_CPU_KERNEL(grid_sample) {
  const Sampler s(c);
  dispatch_float(c.in("x").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = c.in("x").data<T>();
    T* y = c.out(0).data<T>();
    for_each_place(s, c.in("grid").data<T>(), [&](int64_t n, int64_t i, const Taps& found) {
      WeightedElement<T> taps[4];
      for (int k = 0; k < found.count; ++k) taps[k] = {found.pixel[k] * s.channels, static_cast<T>(found.weight[k])};
      weighted_sum<false>(x + n * s.height * s.width * s.channels, taps, found.count, y + i * s.channels, s.channels);
    });
  });
}

// dx sums dy at the pixels of each place, times weight_of(number of the place, its taps, tap).
template <class T, class F>
void image_gradient(const Sampler& s, const T* dy, const T* grid, T* dx, F weight_of) {
  constexpr int64_t kStrip = 64;  // channels of a task
  const int64_t pixels = s.height * s.width, strips = (s.channels + kStrip - 1) / kStrip;
  parallel_for(s.images * strips, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t n = task / strips, first = task % strips * kStrip, count = std::min(kStrip, s.channels - first);
      T* image = dx + n * pixels * s.channels + first;
      for (int64_t i = 0; i < pixels; ++i) std::fill_n(image + i * s.channels, count, T{0});
      for (int64_t i = n * s.places; i < (n + 1) * s.places; ++i) {
        const Taps found = taps_of(s, grid + 2 * i);
        const T* from = dy + i * s.channels + first;
        for (int k = 0; k < found.count; ++k) {
          T* to = image + found.pixel[k] * s.channels;
          const T weight = static_cast<T>(weight_of(i, found, k));
          for (int64_t j = 0; j < count; ++j) to[j] += weight * from[j];
        }
      }
    }
  });
}

template <class T>
void grid_gradient(const Sampler& s, const T* dy, const T* x, const T* grid, T* dgrid) {
  for_each_place(s, grid, [&](int64_t n, int64_t i, const Taps& found) {
    double by_x = 0, by_y = 0;
    const T* slope = dy + i * s.channels;
    for (int k = 0; k < found.count; ++k) {
      const T* pixel = x + (n * s.height * s.width + found.pixel[k]) * s.channels;
      const double product = row_sum<T>(s.channels, [=](auto at) { return at(slope) * at(pixel); });
      by_x += found.by_x[k] * product;
      by_y += found.by_y[k] * product;
    }
    dgrid[2 * i] = static_cast<T>(by_x);
    dgrid[2 * i + 1] = static_cast<T>(by_y);
  });
}

PADDOCK_CPU_KERNEL(grid_sample_grad) {
  const Sampler s(c);
  dispatch_float(c.in("x").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *dy = c.in("dy").data<T>(), *grid = c.in("grid").data<T>();
    image_gradient(s, dy, grid, c.out("dx").data<T>(), [](int64_t, const Taps& t, int k) { return t.weight[k]; });
    grid_gradient(s, dy, c.in("x").data<T>(), grid, c.out("dgrid").data<T>());
  });
}

// The gradients of grid_sample_grad by dy and by the grid, of one place after the other.
template <class T>
void place_gradients(const Sampler& s, const T* ddx, const T* ddgrid, const T* dy, const T* x, const T* grid, T* ddy,
                     T* dgrid) {
  const int64_t n = s.channels;
  for_each_place(s, grid, [&](int64_t image, int64_t i, const Taps& found) {
    const int64_t first = image * s.height * s.width * n;
    const T *step = ddgrid + 2 * i, *slope = dy + i * n;
    WeightedElement<T> still[4], moved[4];
    double by_x = 0, by_y = 0;
    for (int k = 0; k < found.count; ++k) {
      const int64_t at = found.pixel[k] * n;
      still[k] = {at, static_cast<T>(found.weight[k])};
      moved[k] = {at, static_cast<T>(found.along(step, k))};
      const T *above = ddx + first + at, *pixel = x + first + at;
      const double outer = row_sum<T>(n, [=](auto j) { return j(slope) * j(above); });
      const double inner = row_sum<T>(n, [=](auto j) { return j(slope) * j(pixel); }) * found.by_both[k];
      by_x += found.by_x[k] * outer + static_cast<double>(step[1]) * inner;
      by_y += found.by_y[k] * outer + static_cast<double>(step[0]) * inner;
    }
    weighted_sum<false>(ddx + first, still, found.count, ddy + i * n, n);
    weighted_sum<true>(x + first, moved, found.count, ddy + i * n, n);
    dgrid[2 * i] = static_cast<T>(by_x);
    dgrid[2 * i + 1] = static_cast<T>(by_y);
  });
}

PADDOCK_CPU_KERNEL(grid_sample_grad_grad) {
  const Sampler s(c);
  dispatch_float(c.in("x").dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *ddgrid = c.in("ddgrid").data<T>(), *dy = c.in("dy").data<T>(), *grid = c.in("grid").data<T>();
    place_gradients(s, c.in("ddx").data<T>(), ddgrid, dy, c.in("x").data<T>(), grid, c.out("ddy").data<T>(),
                    c.out("dgrid").data<T>());
    image_gradient(s, dy, grid, c.out("dx").data<T>(),
                   [ddgrid](int64_t i, const Taps& t, int k) { return t.along(ddgrid + 2 * i, k); });
  });
}

}  // namespace
}  // namespace paddock::cpu
