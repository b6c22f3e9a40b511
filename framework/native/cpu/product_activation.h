// The activations of products that are loops of their own.
#pragma once
#include "cpu/gemm.h"
#include "cpu/micro_op.h"
#include "op/choice.h"

namespace paddock::cpu {

// What the attribute `activation` names.
inline Activation activation_of(const KernelContext& c) { return static_cast<Activation>(activation_choice(c)); }

// The inner loop of an activation that is not one of the epilogue's own, or of an activation's gradient.
inline ValueLoop activation_loop(const KernelContext& c, Activation activation, bool gradient) {
  const auto loop = [&](std::string op, double attr = 0) {
    const DType t = c.out(0).dtype();
    return ValueLoop{find_micro_op(gradient ? op + "_grad" : op, t, t), attr};
  };
  switch (activation) {
    case Activation::kSigmoid:
      return loop("sigmoid");
    case Activation::kTanh:
      return loop("tanh");
    case Activation::kSilu:
      return loop("silu");
    case Activation::kGelu:
      return loop("gelu", 0);
    case Activation::kGeluTanh:
      return loop("gelu", 1);
    case Activation::kRelu:
      return gradient ? loop("relu") : ValueLoop{};
    case Activation::kRelu6:
      return gradient ? loop("relu6") : ValueLoop{};
    case Activation::kLeakyRelu:
      return gradient ? loop("leaky_relu", c.attr<double>("slope")) : ValueLoop{};
    case Activation::kNone:
      break;
  }
  return {};
}

}  // namespace paddock::cpu
