// The activations of products that are loops of their own.
#pragma once
#include "cpu/elementwise/micro_op.h"
#include "cpu/gemm/gemm.h"
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
  const char* name = kProductActivations.begin()[static_cast<int>(activation)];
  switch (activation) {
    case Activation::kNone:
      return {};
    case Activation::kRelu:
    case Activation::kRelu6:
      return gradient ? loop(name) : ValueLoop{};
    case Activation::kLeakyRelu:
      return gradient ? loop(name, c.attr<double>("slope")) : ValueLoop{};
    case Activation::kGelu:
    case Activation::kGeluTanh:
      return loop("gelu", activation == Activation::kGeluTanh);
    default:
      return loop(name);
  }
}

}  // namespace paddock::cpu
