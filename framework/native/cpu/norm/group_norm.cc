// Group normalisation: each image's channel sums, joined over the channels of a group, then one pass by channel.
#include <cmath>

#include "cpu/norm/channel_norm.h"

namespace paddock::cpu {
namespace {

// One image as rows of channels, and its groups.
struct Images {
  int64_t count, groups, per_group;
  Columns image;

  Images(const KernelContext& c, const Shape& x)
      : count(x[0]),
        groups(c.attr<int64_t>("groups")),
        per_group(x.back() / groups),
        image(x.count(1, x.rank() - 1), x.back()) {}

  int64_t size() const { return image.rows * image.channels; }
  double group_size() const { return static_cast<double>(std::max<int64_t>(1, image.rows * per_group)); }
};

// Calls body(image) for all: in parallel when there are several, else the passes inside are parallel.
template <class F>
void for_each_image(const Images& images, F&& body) {
  parallel_for(images.count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) body(n);
  });
}

// Mean and biased variance of channels [first, first + count) together.
void join_channels(const double* mean, const double* var, int64_t count, double* group_mean, double* group_var) {
  const double share = 1.0 / static_cast<double>(count);
  double m = 0, v = 0;
  for (int64_t k = 0; k < count; ++k) m += mean[k] * share;
  for (int64_t k = 0; k < count; ++k) v += (var[k] + (mean[k] - m) * (mean[k] - m)) * share;
  *group_mean = m;
  *group_var = v;
}

template <class T>
void forward(const KernelContext& c) {
  const Images g(c, c.in("x").shape());
  const T *x = c.in("x").data<T>(), *scale = c.in("scale").data<T>(), *bias = c.in("bias").data<T>();
  T *y = c.out("y").data<T>(), *mean = c.out("mean").data<T>(), *rstd = c.out("rstd").data<T>();
  const double eps = c.attr<double>("eps");
  const int64_t channels = g.image.channels, width = g.image.width;
  for_each_image(g, [&](int64_t n) {
    Scratch moments = scratch(sizeof(double) * 2 * channels), coefficients = scratch(sizeof(T) * 3 * width);
    double *channel_mean = moments.as<double>(), *channel_var = channel_mean + channels;
    T *center = coefficients.as<T>(), *rate = center + width, *offset = rate + width;
    channel_moments(g.image, x + n * g.size(), channel_mean, channel_var);
    for (int64_t k = 0; k < g.groups; ++k) {
      double m, v;
      const int64_t first = k * g.per_group;
      join_channels(channel_mean + first, channel_var + first, g.per_group, &m, &v);
      mean[n * g.groups + k] = static_cast<T>(m);
      rstd[n * g.groups + k] = static_cast<T>(1 / std::sqrt(v + eps));
      for (int64_t i = first; i < first + g.per_group; ++i) {
        center[i] = static_cast<T>(m);
        rate[i] = static_cast<T>(scale[i] / std::sqrt(v + eps));
        offset[i] = bias[i];
      }
    }
    for (T* v : {center, rate, offset}) repeat(g.image, v);
    normalize(g.image, x + n * g.size(), center, rate, offset, y + n * g.size());
  });
}

// sums: of dy and of dy * (x - mean) by channel, for each image; dscale and dbias add them up over the images.
template <class T>
void parameter_gradients(const KernelContext& c, const Images& g, const double* sums) {
  const T* rstd = c.in("rstd").data<T>();
  const int64_t channels = g.image.channels;
  for (int64_t i = 0; i < channels; ++i) {
    double scale_sum = 0, bias_sum = 0;
    for (int64_t n = 0; n < g.count; ++n) {
      scale_sum += sums[(2 * n + 1) * channels + i] * rstd[n * g.groups + i / g.per_group];
      bias_sum += sums[2 * n * channels + i];
    }
    c.out("dscale").data<T>()[i] = static_cast<T>(scale_sum);
    c.out("dbias").data<T>()[i] = static_cast<T>(bias_sum);
  }
}

template <class T>
void backward(const KernelContext& c) {
  const Images g(c, c.in("x").shape());
  const T *dy = c.in("dy").data<T>(), *x = c.in("x").data<T>(), *scale = c.in("scale").data<T>();
  const T *mean = c.in("mean").data<T>(), *rstd = c.in("rstd").data<T>();
  const T *dmean = c.maybe<T>("dmean"), *drstd = c.maybe<T>("drstd");
  const int64_t channels = g.image.channels, width = g.image.width;
  Scratch totals = scratch(sizeof(double) * 2 * channels * g.count);
  for_each_image(g, [&](int64_t n) {
    Scratch coefficients = scratch(sizeof(T) * 4 * width);
    T *center = coefficients.as<T>(), *rate = center + width, *slope = rate + width, *offset = slope + width;
    double *sums = totals.as<double>() + 2 * n * channels, *products = sums + channels;
    for (int64_t i = 0; i < channels; ++i) center[i] = mean[n * g.groups + i / g.per_group];
    repeat(g.image, center);
    const auto gradient = [image = dy + n * g.size()](int64_t i, int64_t) { return image[i]; };
    gradient_sums<T>(g.image, gradient, x + n * g.size(), center, sums);
    for (int64_t k = 0; k < g.groups; ++k) {
      const int64_t at = n * g.groups + k, first = k * g.per_group;
      double sum = 0, product = drstd ? static_cast<double>(drstd[at]) : 0.0;
      for (int64_t i = first; i < first + g.per_group; ++i) {
        sum += scale[i] * sums[i];
        product += scale[i] * products[i];
      }
      const double r = rstd[at], through_mean = dmean ? static_cast<double>(dmean[at]) : 0.0;
      for (int64_t i = first; i < first + g.per_group; ++i) {
        rate[i] = static_cast<T>(scale[i] * r);
        slope[i] = static_cast<T>(-r * r * r * product / g.group_size());
        offset[i] = static_cast<T>((through_mean - r * sum) / g.group_size());
      }
    }
    for (T* v : {rate, slope, offset}) repeat(g.image, v);
    apply_gradient(g.image, gradient, x + n * g.size(), center, rate, slope, offset,
                   c.out("dx").data<T>() + n * g.size());
  });
  parameter_gradients<T>(c, g, totals.as<double>());
}

PADDOCK_CPU_KERNEL(group_norm) {
  dispatch_float(c.in("x").dtype(), [&](auto tag) { forward<typename decltype(tag)::type>(c); });
}

PADDOCK_CPU_KERNEL(group_norm_grad) {
  dispatch_float(c.in("x").dtype(), [&](auto tag) { backward<typename decltype(tag)::type>(c); });
}

}  // namespace
}  // namespace paddock::cpu
