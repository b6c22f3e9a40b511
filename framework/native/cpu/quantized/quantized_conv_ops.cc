// The kernels of ops/quantized_conv.cc; cpu/quantized/conv_int8.h convolves. All work on uint8: int8 is uint8 with
// the upper bit turned, and 128 more for what stands for 0.
#include <cmath>
#include <optional>

#include "core/storage.h"
#include "cpu/conv/conv_geometry.h"
#include "cpu/kernel.h"
#include "cpu/quantized/conv_int8.h"
#include "op/choice.h"

namespace paddock::cpu {
namespace {

constexpr int64_t kSignGrain = 1 << 18;

void turn_signs(const uint8_t* x, uint8_t* y, int64_t n) {
  parallel_for(n, kSignGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = x[i] ^ 0x80;
  });
}

// An 8-bit input as uint8.
class UnsignedInput {
 public:
  UnsignedInput(const KernelContext& c, const std::string& name) {
    const Tensor& t = c.in(name);
    const bool is_signed = t.dtype() == DType::kI8;
    zero = static_cast<int32_t>(c.attr<int64_t>(name + "_zero")) + (is_signed ? 128 : 0);
    data = static_cast<const uint8_t*>(t.raw());
    if (!is_signed) return;
    turned_.emplace(static_cast<size_t>(std::max<int64_t>(1, t.numel())));
    turn_signs(data, turned_->as<uint8_t>(), t.numel());
    data = turned_->as<uint8_t>();
  }
  const uint8_t* data;
  int32_t zero;

 private:
  std::optional<Scratch> turned_;
};

Activation activation_of(const KernelContext& c) { return static_cast<Activation>(activation_choice(c)); }

// a / b rounded once.
float ratio(double a, double b) { return static_cast<float>(a / b); }

// What a step of an 8-bit input is in steps of y: infinity times 0 would be a NaN.
float steps_of_y(const KernelContext& c, const std::string& name, double y_scale) {
  const double scale = c.attr<double>(name + "_scale");
  const float factor = ratio(scale, y_scale);
  if (!std::isfinite(factor))
    fail(ErrorKind::kNumerics, c.op().name, ": ", name, "_scale ", scale, " is too large beside y_scale ", y_scale,
         "; float32 does not hold how many steps of y one step of ", name, " is");
  return factor;
}

int32_t zero_of_y(const KernelContext& c, const Tensor& y) {
  return static_cast<int32_t>(c.attr<int64_t>("y_zero")) + (y.dtype() == DType::kI8 ? 128 : 0);
}

PADDOCK_CPU_KERNEL(quantized_conv2d) {
  const Tensor& y = c.out(0);
  if (y.numel() == 0) return;
  const bool bytes = y.dtype() != DType::kF32 && y.dtype() != DType::kI32;
  const double y_scale = bytes ? c.attr<double>("y_scale") : 1;
  Int8Conv conv{conv_geometry(c, c.in("x").shape(), c.in("weight").shape(), y.shape()),
                nullptr,
                0,
                c.in("weight").data<int8_t>(),
                {},
                static_cast<Int8Algorithm>(choice(c, "algorithm")),
                c.prepared("weight")};
  if (c.in("x").dtype() == DType::kF32) conv.x_most = static_cast<int32_t>(c.attr<int64_t>("x_most"));
  note_algorithm(conv);
  std::optional<UnsignedInput> x;
  if (conv.words()) {
    conv.x32 = c.in("x").data<float>();
    conv.x_scale = c.attr<float>("x_scale");
  } else {
    x.emplace(c, "x");
    conv.x = x->data;
    conv.x_zero = x->zero;
  }
  const int64_t channels = conv.g.K, room = channels + Vec<float>::kSize;
  const Scratch ends(static_cast<size_t>(2 * room) * sizeof(float));
  float *factor = ends.as<float>(), *bias = factor + room;
  std::fill_n(factor, 2 * room, 0.0f);
  const float *scale = c.in("weight_scale").data<float>(), *given = c.maybe<float>("bias");
  const bool plain_sums = y.dtype() == DType::kI32;
  double most = 0;  // that a value of y may be, in steps of y
  for (int64_t k = 0; k < (plain_sums ? 0 : channels); ++k) {
    factor[k] = ratio(c.attr<double>("x_scale") * static_cast<double>(scale[k]), y_scale);
    bias[k] = given ? ratio(static_cast<double>(given[k]), y_scale) : 0.0f;
    if (!std::isfinite(factor[k]) || !std::isfinite(bias[k]))
      fail(ErrorKind::kNumerics, "quantized_conv2d: channel ", k, " has the factor ", factor[k], " and the bias ",
           bias[k], " in steps of y, which must be finite; look at weight_scale, bias and y_scale");
    most = std::max(most, std::abs(0x1p31 * factor[k]) + std::abs(bias[k]));
  }
  Requantize& end = conv.end;
  end.factor = factor;
  end.bias = bias;
  end.activation = activation_of(c);
  end.slope = c.attr<float>("slope");
  end.six = ratio(6, y_scale);
  end.residual_last = c.attr<bool>("residual_last");
  std::optional<UnsignedInput> residual;
  if (c.has("residual") && c.in("residual").dtype() == DType::kF32) {
    end.residual32 = c.in("residual").data<float>();
  } else if (c.has("residual")) {
    residual.emplace(c, "residual");
    end.residual8 = residual->data;
    end.residual_zero = residual->zero;
    end.residual_factor = steps_of_y(c, "residual", y_scale);
  }
  if (bytes)
    end.y8 = static_cast<uint8_t*>(y.raw());
  else if (plain_sums)
    end.sums = y.data<int32_t>();
  else
    end.y32 = y.data<float>();
  end.zero = bytes ? zero_of_y(c, y) : 0;
  end.fits = most < 0x1p30;
  conv2d_int8(conv);
  if (y.dtype() == DType::kI8) turn_signs(end.y8, end.y8, y.numel());
}

PADDOCK_CPU_KERNEL(quantize_linear) {
  const Tensor &x = c.in("x"), &y = c.out(0);
  const float scale = c.attr<float>("y_scale");
  const int32_t zero = zero_of_y(c, y), sign = y.dtype() == DType::kI8 ? 0x80 : 0;
  const float *from = x.data<float>(), low = static_cast<float>(-zero), high = static_cast<float>(255 - zero);
  auto* to = static_cast<uint8_t*>(y.raw());
  const auto put = [&](Int32s q, int64_t at, int64_t lanes) { store_bytes(q ^ sign, to + at, lanes); };
  if (round_all(from, x.numel(), scale, low, high, zero, put))
    fail(ErrorKind::kNumerics, "quantize_linear: x holds a NaN, which 8 bits have no number for");
}

PADDOCK_CPU_KERNEL(dequantize_linear) {
  const Tensor& x = c.in("x");
  const bool is_signed = x.dtype() == DType::kI8;
  const auto zero = static_cast<float>(c.attr<int64_t>("x_zero")), scale = c.attr<float>("x_scale");
  float* y = c.out(0).data<float>();
  const void* from = x.raw();
  parallel_for(x.numel(), kGrain, [&](int64_t begin, int64_t end) {
    if (is_signed)
      for (int64_t i = begin; i < end; ++i)
        y[i] = (static_cast<float>(static_cast<const int8_t*>(from)[i]) - zero) * scale;
    else
      for (int64_t i = begin; i < end; ++i)
        y[i] = (static_cast<float>(static_cast<const uint8_t*>(from)[i]) - zero) * scale;
  });
}

PADDOCK_CPU_KERNEL(quantized_add) {
  const Tensor& y = c.out(0);
  const UnsignedInput a(c, "a"), b(c, "b");
  const double y_scale = c.attr<double>("y_scale");
  const float a_factor = steps_of_y(c, "a", y_scale);
  Requantize end;
  end.activation = activation_of(c);
  end.slope = c.attr<float>("slope");
  end.six = ratio(6, y_scale);
  end.residual8 = b.data;
  end.residual_zero = b.zero;
  end.residual_factor = steps_of_y(c, "b", y_scale);
  end.y8 = static_cast<uint8_t*>(y.raw());
  end.zero = zero_of_y(c, y);
  const auto a_zero = static_cast<float>(a.zero);
  parallel_for(y.numel(), kGrain, [&](int64_t begin, int64_t stop) {
    constexpr int64_t kLanes = Vec<float>::kSize;
    for (int64_t i = begin; i < stop; i += kLanes) {
      const int64_t lanes = std::min(kLanes, stop - i);
      const Vec<float> v =
          (load_unsigned(a.data + i, lanes) - Vec<float>::broadcast(a_zero)) * Vec<float>::broadcast(a_factor);
      finish_value(end, v, i, lanes);
    }
  });
  if (y.dtype() == DType::kI8) turn_signs(end.y8, end.y8, y.numel());
}

// A factor as 31 bits and a shift.
struct FixedPoint {
  int32_t multiplier;
  int left, right;
};

FixedPoint fixed_point(double scale, int64_t k) {
  if (!(scale > 0 && scale < 0x1p30))
    fail(ErrorKind::kNumerics, "requantize: scale[", k, "] is ", scale, " but must lie in (0, 2^30)");
  int exponent;
  auto fixed = static_cast<int64_t>(std::round(std::frexp(scale, &exponent) * 0x1p31));
  if (fixed == int64_t{1} << 31) fixed /= 2, ++exponent;
  if (exponent < -31) return {0, 0, 0};
  return {static_cast<int32_t>(fixed), std::max(exponent, 0), std::max(-exponent, 0)};
}

PADDOCK_INLINE int64_t within32(int64_t v) { return std::clamp<int64_t>(v, INT32_MIN, INT32_MAX); }

PADDOCK_INLINE int64_t rescaled(int64_t x, const FixedPoint& f) {
  const int64_t product = within32(within32(x) << f.left) * f.multiplier;
  const int64_t once = (product + (int64_t{1} << 30)) >> 31;  // halves up
  const int64_t half = f.right ? int64_t{1} << (f.right - 1) : 0;
  return (once + half - (f.right && once < 0 ? 1 : 0)) >> f.right;  // halves away from 0
}

template <class T>
void requantize(const int32_t* x, const int32_t* bias, const FixedPoint* scale, bool each, T* y, int64_t rows,
                int64_t channels, int64_t zero, int64_t low, int64_t high) {
  parallel_for(rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, channels)), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t k = 0; k < channels; ++k) {
        const int64_t sum = int64_t{x[r * channels + k]} + (bias ? bias[k] : 0);
        y[r * channels + k] = static_cast<T>(std::clamp(rescaled(sum, scale[each ? k : 0]) + zero, low, high));
      }
  });
}

PADDOCK_CPU_KERNEL(requantize) {
  const Tensor &x = c.in("x"), &scale = c.in("scale"), &y = c.out(0);
  if (y.numel() == 0) return;
  const int64_t channels = x.shape().back(), rows = y.numel() / channels, count = scale.numel();
  const Scratch factors(static_cast<size_t>(count) * sizeof(FixedPoint));
  auto* factor = factors.as<FixedPoint>();
  for (int64_t k = 0; k < count; ++k) factor[k] = fixed_point(scale.data<double>()[k], k);
  const auto run = [&]<class T>(T* to) {
    requantize(x.data<int32_t>(), c.maybe<int32_t>("bias"), factor, count > 1, to, rows, channels,
               c.attr<int64_t>("y_zero"), c.attr<int64_t>("low"), c.attr<int64_t>("high"));
  };
  if (y.dtype() == DType::kI32) return run(y.data<int32_t>());
  if (y.dtype() == DType::kI8) return run(y.data<int8_t>());
  run(y.data<uint8_t>());
}

}  // namespace
}  // namespace paddock::cpu
