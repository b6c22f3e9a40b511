// The activations that operators apply to their result, and their derivatives, element by element.
#pragma once
#include <type_traits>

#include "cpu/gemm/gemm.h"
#include "op/choice.h"

namespace paddock::cpu {

// NaN stays NaN.
template <Activation kActivation, class T>
inline T activate(T v, [[maybe_unused]] T slope) {
  if constexpr (kActivation == Activation::kRelu) return v < T(0) ? T(0) : v;
  if constexpr (kActivation == Activation::kRelu6) return v < T(0) ? T(0) : v > T(6) ? T(6) : v;
  if constexpr (kActivation == Activation::kLeakyRelu) return v > T(0) ? v : slope * v;
  return v;
}

// The gradient by what the activation was applied to; v is that, or the activation's result (the same for both).
template <Activation kActivation, class T>
inline T activation_gradient(T dy, [[maybe_unused]] T v, [[maybe_unused]] T slope) {
  if constexpr (kActivation == Activation::kRelu) return v > T(0) ? dy : T(0);
  if constexpr (kActivation == Activation::kRelu6) return ((v > T(0)) & (v < T(6))) ? dy : T(0);
  if constexpr (kActivation == Activation::kLeakyRelu) return v > T(0) ? dy : slope * dy;
  return dy;
}

// Calls f(std::integral_constant<Activation, a>) with what the attribute `activation` names.
template <class F>
void dispatch_activation(const KernelContext& c, F&& f) {
  switch (static_cast<Activation>(activation_choice(c))) {
    case Activation::kNone:
      return f(std::integral_constant<Activation, Activation::kNone>{});
    case Activation::kRelu:
      return f(std::integral_constant<Activation, Activation::kRelu>{});
    case Activation::kRelu6:
      return f(std::integral_constant<Activation, Activation::kRelu6>{});
    case Activation::kLeakyRelu:
      return f(std::integral_constant<Activation, Activation::kLeakyRelu>{});
    default:
      fail(ErrorKind::kInternal, c.op().name, ": an activation that the shape rule refuses");
  }
}

}  // namespace paddock::cpu
