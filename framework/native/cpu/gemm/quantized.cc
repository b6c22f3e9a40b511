// The kernels of ops/quantized.cc; cpu/gemm/int8_product.h multiplies.
#include <cmath>

#include "core/storage.h"
#include "cpu/gemm/int8_product.h"
#include "cpu/gemm/product_activation.h"
#include "cpu/kernel.h"
#include "cpu/movement/indices.h"

namespace paddock::cpu {
namespace {

float scale_of(const KernelContext& c) {
  const float* given = c.maybe<float>("x_scale");
  if (!given) return 0;
  const float factor = 1 / *given;
  if (!(*given > 0) || !std::isfinite(*given) || !std::isfinite(factor))
    fail(ErrorKind::kAttribute, "quantized_matmul: x_scale is ", *given,
         " but must be a positive number whose reciprocal is finite: the largest value expected of x, divided by "
         "x_most");
  return *given;
}

PADDOCK_CPU_KERNEL(quantized_matmul) {
  const Tensor& weight = c.in("weight");
  const int64_t columns = weight.shape()[0], depth = weight.shape()[1];
  Int8Product p{};
  p.M = c.in("x").shape().count(0, c.in("x").shape().rank() - 1);
  p.N = columns;
  p.K = depth;
  p.x = c.in("x").data<float>();
  p.weight = weight.data<int8_t>();
  p.weight_scale = c.in("weight_scale").data<float>();
  p.x_scale = scale_of(c);
  p.x_most = static_cast<int32_t>(c.attr<int64_t>("x_most"));
  p.y = c.out(0).data<float>();
  p.epilogue.bias = c.maybe<float>("bias");
  p.epilogue.residual = c.maybe<float>("residual");
  const Activation activation = activation_of(c);
  p.epilogue.loop = activation_loop(c, activation, false);
  p.epilogue.activation = p.epilogue.loop ? Activation::kNone : activation;
  p.epilogue.slope = c.attr<float>("slope");
  p.widening = c.attr<std::string>("algorithm") == "widening";
  multiply_int8(p, c.prepared("weight"));
}

PADDOCK_CPU_KERNEL(quantized_embedding) {
  const Tensor& weight = c.in("weight");
  const int64_t width = weight.shape()[1], padding = c.attr<int64_t>("padding_idx");
  const CheckedIndices ids(c, "ids", weight.shape()[0], /*wrap=*/false, "weight");
  const int64_t* id = ids.data();
  const int8_t* table = weight.data<int8_t>();
  const float* scales = c.in("weight_scale").data<float>();
  float* y = c.out(0).data<float>();
  parallel_for(c.in("ids").numel(), row_grain(width), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int8_t* row = table + id[r] * width;
      const float scale = id[r] == padding ? 0.0f : scales[id[r]];
      for (int64_t k = 0; k < width; ++k) y[r * width + k] = static_cast<float>(row[k]) * scale;
    }
  });
}

}  // namespace
}  // namespace paddock::cpu
