// Attributes that name one of a few ways to work, such as "constant", "reflect" or "edge".
#pragma once
#include <initializer_list>

#include "op/context.h"

namespace paddock {

// The number of the chosen name among the attribute's declared choices; `Context` is InferContext or KernelContext.
template <class Context>
int choice(const Context& c, const char* attr) {
  const auto value = c.template attr<std::string>(attr);
  const std::vector<std::string>& names = c.op().attrs[c.op().attr_index(attr)].choices;
  for (size_t i = 0; i < names.size(); ++i)
    if (value == names[i]) return static_cast<int>(i);
  std::string allowed;
  for (const std::string& name : names) allowed += cat(allowed.empty() ? "" : ", ", "'", name, "'");
  fail(ErrorKind::kAttribute, c.op().name, ": ", attr, " is '", value, "'; takes ", allowed);
}

// Of these, the first four are a few instructions each, which every operator with an activation knows; the order is
// that of cpu::Activation.
inline constexpr std::initializer_list<const char*> kActivations = {"none", "relu", "relu6", "leaky_relu"};
inline constexpr std::initializer_list<const char*> kProductActivations = {
    "none", "relu", "relu6", "leaky_relu", "sigmoid", "tanh", "silu", "gelu", "gelu_tanh"};

// What an operator may apply to its result on the way to memory, by the attributes `activation` and `slope`.
template <class Context>
int activation_choice(const Context& c) {
  const int chosen = choice(c, "activation");
  if (chosen == 3 && !(c.template attr<double>("slope") >= 0))
    fail(ErrorKind::kAttribute, c.op().name, ": slope is ", c.template attr<double>("slope"),
         " but must be at least 0");
  return chosen;
}

inline constexpr const char* kActivationDoc =
    "Applied to the result: 'none', 'relu', 'relu6' (cut at 6) or 'leaky_relu' (`slope` below 0).";
inline constexpr const char* kProductActivationDoc =
    "Applied to the result: 'none', 'relu', 'relu6' (cut at 6), 'leaky_relu' (`slope` below 0), 'sigmoid', 'tanh', "
    "'silu', 'gelu' or 'gelu_tanh' (gelu's approximate form).";
inline constexpr const char* kSlopeDoc = "Slope of 'leaky_relu' below 0, at least 0.";
inline constexpr const char* kResidualLastDoc = "Apply the activation before the residual is added.";

}  // namespace paddock
