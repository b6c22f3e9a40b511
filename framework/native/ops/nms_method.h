// How multiclass_nms treats boxes that overlap a better one: its attribute `method`.
#pragma once
#include "op/choice.h"

namespace paddock {

// The order is that of NmsMethod.
inline constexpr std::initializer_list<const char*> kNmsMethods = {"hard", "soft_linear", "soft_gaussian",
                                                                   "matrix_linear", "matrix_gaussian"};

enum class NmsMethod { kHard, kSoftLinear, kSoftGaussian, kMatrixLinear, kMatrixGaussian };

template <class Context>
NmsMethod nms_method(const Context& c) {
  return static_cast<NmsMethod>(choice(c, "method"));
}

}  // namespace paddock
